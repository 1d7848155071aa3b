"""`cockpit slugs new`: a commented slug for a checkpoint, at once usable, and nothing overwritten."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from checkpoint_files import FIXTURES, config, rebuild, write_config
from cli_done import Cockpit

from cockpit import paths
from cockpit.catalog.load import read_slug

Refused = Callable[..., str]


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)


def test_a_new_slug_is_written_shown_and_usable(cockpit: Cockpit, tmp_path: Path) -> None:
    folder = rebuild("real-auto-round", tmp_path / "My Model")
    for name in ("tokenizer.json", "chat_template.jinja"):
        (folder / name).write_text("{}")
    done = cockpit("slugs", "new", str(folder), "--rig", "2x3090")
    file = paths.user_slugs() / "local" / "my-model.yaml"
    assert done.code == 0
    assert done.out == file.read_text()
    fits, written = done.err.splitlines()
    assert fits.startswith("forecast     ✓ fits")
    assert written == f"written to {file}; `cockpit check local/my-model` says what it may do."
    for line in done.out.splitlines()[4:]:
        assert "  # " in line, "every value says where it comes from"
    found = cockpit("check", "local/my-model", "--rig", "2x3090", "--json")
    assert found.code == 0
    assert [one["rule"] for one in found.json["findings"]] == ["engine-missing"]
    assert found.json["toggles"]["int8"]["reason"] == "the 8-bit layers refuse it"
    assert cockpit("plan", "local/my-model", "--rig", "2x3090", "--json").json["model"] == str(folder)


def test_as_json_it_is_the_name_and_the_file(cockpit: Cockpit) -> None:
    done = cockpit("slugs", "new", str(FIXTURES / "auto-round-w4"), "--name", "vllm/mine", "--json")
    assert (done.code, done.err) == (0, "")
    file = str(paths.user_slugs() / "vllm" / "mine.yaml")
    assert (done.json["name"], done.json["file"]) == ("vllm/mine", file)
    listed = cockpit("slugs", "vllm/mine", "--json").json[0]["fits"]
    assert (done.json["fits"], done.json["reason"]) == (listed["fits"], listed["reason"])
    assert read_slug(Path(done.json["file"])).name == "vllm/mine"


def test_it_says_of_an_unknown_family_what_plan_says(cockpit: Cockpit, tmp_path: Path) -> None:
    folder = write_config(tmp_path / "foo", {**config("llama"), "model_type": "foobar"})
    (folder / "model.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    written = cockpit("slugs", "new", str(folder), "--rig", "2x3090")
    planned = cockpit("plan", "local/foo", "--rig", "2x3090")
    sentence = "? not known whether it fits: cockpit does not know how vLLM lays out the KV cache of foobar models"
    for told in (written.err, planned.err):
        assert sentence in told
    assert "cautious: cockpit does not know how vLLM lays out the KV cache of foobar models" in written.out


def test_a_config_is_taken_for_its_folder(cockpit: Cockpit, tmp_path: Path) -> None:
    folder = rebuild("real-auto-round", tmp_path / "real")
    done = cockpit("slugs", "new", str(folder / "config.json"), "--json")
    slug = read_slug(Path(done.json["file"]))
    assert (slug.name, slug.weights.path) == ("local/real", str(folder))


def test_a_config_of_another_name_is_no_checkpoint(refused: Refused, tmp_path: Path) -> None:
    file = (write_config(tmp_path, config("llama")) / "config.json").rename(tmp_path / "other.json")
    assert "is a lone file, and a slug needs a checkpoint" in refused("slugs", "new", str(file))


def test_neither_a_file_nor_a_name_is_taken_twice(cockpit: Cockpit, refused: Refused) -> None:
    source = str(FIXTURES / "auto-round-w4")
    file = Path(cockpit("slugs", "new", source, "--json").json["file"])
    before = file.read_text()
    assert refused("slugs", "new", source) == (
        f"local/auto-round-w4 is already the name of a slug: {file}. Give another --name."
    )
    file.write_text("name: [broken\n")
    assert f"{file} is there already" in refused("slugs", "new", source)
    assert file.read_text() == "name: [broken\n"
    file.write_text(before)
    assert cockpit("slugs", "new", source, "--name", "local/second").code == 0


@pytest.mark.parametrize("name", ["vllm/dual", "vllm/qwen-27b-dual-fast"])
def test_neither_a_shipped_slug_nor_its_alias_is_hidden(refused: Refused, name: str) -> None:
    sentence = refused("slugs", "new", str(FIXTURES / "auto-round-w4"), "--name", name)
    assert sentence.startswith(f"{name} is already the name of a slug: ")
    assert not paths.user_slugs().exists()


@pytest.mark.parametrize("name", ["dual", "../x/y", "a/../b", "A/b", "a b/c", "a/b\nint8: on", "", "\x1b/x"])
def test_a_name_that_no_slug_may_have_is_one_sentence(refused: Refused, name: str) -> None:
    sentence = refused("slugs", "new", str(FIXTURES / "auto-round-w4"), "--name", name)
    assert "cannot be the name of a slug" in sentence
    assert not paths.user_slugs().exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["new"], "slugs new needs one checkpoint"),
        (["new", "a", "b"], "slugs new needs one checkpoint"),
        (["dual", "--name", "a/b"], "--name belongs to new"),
        (["new", str(FIXTURES / "unknown-method")], "is quantized with quark, which a slug cannot declare"),
        (["new", str(FIXTURES / "bitsandbytes-nf4")], "is quantized with bitsandbytes, which a slug cannot declare"),
        (["new", str(FIXTURES / "llama"), "--rig", "3x3090"], "there is no rig '3x3090'"),
    ],
)
def test_wrong_usage_is_one_sentence(refused: Refused, words: list[str], says: str) -> None:
    assert says in refused("slugs", *words)


def test_a_folder_that_cannot_be_written_is_one_sentence(refused: Refused) -> None:
    paths.user_slugs().mkdir(parents=True)
    (paths.user_slugs() / "local").write_text("")
    assert refused("slugs", "new", str(FIXTURES / "llama")).startswith("cannot write ")


def test_a_folder_with_a_hostile_name_is_served_by_its_true_path(cockpit: Cockpit, tmp_path: Path) -> None:
    for at, name in enumerate(['q"u: #\\', "new\nline", "模型 🚀", "\u2028"]):
        folder = write_config(tmp_path / name, config("auto-round-w4"))
        done = cockpit("slugs", "new", str(folder), "--name", f"local/n{at}", "--json")
        assert (done.code, done.err) == (0, "")
        plan = cockpit("plan", f"local/n{at}", "--rig", "2x3090", "--json").json
        assert plan["argv"][2] == str(folder)


@pytest.mark.parametrize("name", ["caf\udce9", "\x1b[2J"])
def test_a_folder_that_no_slug_can_name_is_one_sentence(refused: Refused, tmp_path: Path, name: str) -> None:
    folder = write_config(tmp_path / name, config("auto-round-w4"))
    assert refused("slugs", "new", str(folder)).endswith("Rename the folder.")
