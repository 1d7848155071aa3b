"""`cockpit inspect`: the figures that the files have, and one sentence for whatever is wrong with them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from checkpoint_files import FIXTURES, config, rebuild, write_config, write_raw
from cli_done import Cockpit

from cockpit import paths
from cockpit.checkpoint.inspect import inspect as read
from cockpit.units import GIB

Refused = Callable[..., str]
REAL = ["real-auto-round", "real-auto-round-moe", "real-compressed-tensors"]


@pytest.fixture(autouse=True)
def hub(monkeypatch: pytest.MonkeyPatch, homes: Path) -> Path:
    """The Hugging Face cache below this test's own homes."""
    for name in ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HUB_OFFLINE", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    return homes / "cache" / "huggingface" / "hub"


def cached(hub: Path, repo: str, fixture: str) -> Path:
    """A repository as huggingface_hub lays it out: links into blobs."""
    root = hub / ("models--" + repo.replace("/", "--"))
    snapshot = root / "snapshots" / "abc"
    for folder in (root / "blobs", root / "refs", snapshot):
        folder.mkdir(parents=True)
    (root / "refs" / "main").write_text("abc")
    made = (
        rebuild(fixture, root / "made")
        if fixture.startswith("real-")
        else write_config(root / "made", config(fixture))
    )
    for file in made.iterdir():
        file.rename(root / "blobs" / f"blob-{file.name}")
        (snapshot / file.name).symlink_to(Path("..") / ".." / "blobs" / f"blob-{file.name}")
    return snapshot


@pytest.mark.parametrize("name", REAL)
def test_a_real_checkpoint_has_the_widths_and_bytes_that_its_files_have(
    cockpit: Cockpit, tmp_path: Path, name: str
) -> None:
    folder = rebuild(name, tmp_path / name)
    expected = json.loads((FIXTURES / name / "expected.json").read_text())
    done = cockpit("inspect", str(folder), "--json")
    assert (done.code, done.err) == (0, "")
    found = done.json
    quantization, sizes = found["quantization"], found["size_bytes"]
    print(f"{name:<26} {quantization['widths']} {sizes}")
    assert quantization["widths"] == expected["widths"]
    assert quantization["unquantized_modules"] == expected["unquantized"]
    assert quantization["symmetric"] == (not expected["asymmetric"])
    assert {part: sizes[part] for part in expected["sizes"]} == expected["sizes"]
    assert sizes["estimated"] is False
    assert sizes["total"] == sum(sizes[part] for part in ("body", "embed_tokens", "lm_head", "mtp", "vision"))
    on_disk = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    headers = sum(
        8 + len(one["header"]) for one in json.loads((FIXTURES / name / "headers.json").read_text()).values()
    )
    assert sizes["total"] == on_disk - headers


def test_as_text_it_says_the_same(cockpit: Cockpit, tmp_path: Path) -> None:
    done = cockpit("inspect", str(rebuild("real-compressed-tensors", tmp_path / "real")), "--rig", "2x3090")
    assert (done.code, done.err) == (0, "")
    assert "modules by width: 1 of 4 bits, 6 of 5 bits, 12 of 6 bits, 2 of 8 bits; not quantized: 0" in done.out
    assert "from the safetensors headers" in done.out
    assert "int8 acts     blocked: 5, 6-bit weights run on the Humming kernel" in done.out


NAMES = sorted(folder.name for folder in FIXTURES.iterdir())


@pytest.mark.parametrize("name", NAMES)
def test_every_shipped_checkpoint_is_told_in_the_promised_shape(cockpit: Cockpit, name: str) -> None:
    done = cockpit("inspect", str(FIXTURES / name), "--json", "--rig", "2x3090")
    assert (done.code, done.err) == (0, "")
    found = done.json
    assert found["architecture"].isprintable()
    assert isinstance(found["moe"], bool)
    assert all(count > 0 for count in found["layers"].values())
    assert {"method", "symmetric", "group_size", "widths", "embed_tokens_bits", "lm_head_bits"} <= set(
        found["quantization"]
    )
    assert set(found["toggles"]["int8"]) == {"state", "value", "reason", "fix"}
    for finding in found["findings"]:
        assert set(finding) == {"rule", "severity", "subject", "message", "fix"}
    assert found["size_bytes"] is None or found["size_bytes"]["total"] > 0
    text = cockpit("inspect", str(FIXTURES / name), "--rig", "2x3090")
    assert text.code == 0
    assert "None" not in text.out


def test_a_lone_config_a_folder_and_a_cached_repository_are_one_checkpoint(cockpit: Cockpit, hub: Path) -> None:
    cached(hub, "Qwen/Tiny-1.0_x", "auto-round-w4")
    folder = FIXTURES / "auto-round-w4"
    found = [
        cockpit("inspect", source, "--rig", "2x3090", "--json").json
        for source in (str(folder), str(folder / "config.json"), "Qwen/Tiny-1.0_x")
    ]
    for one in found:
        assert one["toggles"]["int8"]["state"] == "offered"
        del one["source"]
    assert found[0] == found[1] == found[2]


def test_headers_behind_the_links_of_the_cache_are_read(cockpit: Cockpit, hub: Path) -> None:
    cached(hub, "o/real", "real-auto-round")
    sizes = cockpit("inspect", "o/real", "--json").json["size_bytes"]
    assert sizes["estimated"] is False
    assert sizes["body"] == 1038208


def test_a_folder_with_any_name_can_be_looked_at(cockpit: Cockpit, tmp_path: Path) -> None:
    for name in ("new\nline", "\x1b[31m", "caf\udce9", 'quo"te', "# no: comment"):
        done = cockpit("inspect", str(write_config(tmp_path / name, config("auto-round-w4"))), "--json")
        assert (done.code, done.err) == (0, "")
        assert done.out.isascii()


def broken_header(folder: Path) -> Path:
    write_config(folder, config("auto-round-w4"))
    write_raw(folder / "model.safetensors", b"{}", 0, length=1 << 40)
    return folder


def raw(text: str) -> Callable[[Path], Path]:
    return lambda folder: write_config(folder, text)


def with_keys(**keys: Any) -> Callable[[Path], Path]:
    """A good config with other keys, those of the quantization below ``q_``."""

    def make(folder: Path) -> Path:
        value = config("auto-round-w4")
        for key, item in keys.items():
            target = value["quantization_config"] if key.startswith("q_") else value
            target[key.removeprefix("q_")] = item
        return write_config(folder, value)

    return make


def empty(folder: Path) -> Path:
    folder.mkdir()
    return folder


def linked(target: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        folder.mkdir()
        (folder / "config.json").symlink_to(target)
        return folder

    return make


def piped(folder: Path) -> Path:
    folder.mkdir()
    os.mkfifo(folder / "config.json")
    return folder


def a_gibibyte(folder: Path) -> Path:
    folder.mkdir()
    with (folder / "config.json").open("wb") as handle:
        handle.truncate(GIB)
    return folder


def forbidden(folder: Path) -> Path:
    write_config(folder, config("llama"))
    (folder / "config.json").chmod(0)
    return folder


BAD: dict[str, tuple[Callable[[Path], Path], str]] = {
    "no config": (empty, "has no config.json"),
    "not JSON": (raw("{"), "not JSON"),
    "not an object": (raw("[1]"), "must be a JSON object"),
    "empty": (raw(""), "not JSON"),
    "bits is a word": (with_keys(q_bits="four"), "quantization_config.bits must be a whole number"),
    "bits is negative": (with_keys(q_bits=-4), "quantization_config.bits must be a whole number"),
    "bits is true": (with_keys(q_bits=True), "quantization_config.bits must be a whole number"),
    "method is a list": (with_keys(q_quant_method=["auto-round"]), "quantization_config.quant_method must be a name"),
    "layers is a word": (with_keys(num_hidden_layers="36"), "num_hidden_layers must be a whole number"),
    "layers without end": (with_keys(num_hidden_layers=10**9), "num_hidden_layers must be a whole number"),
    "architectures is a word": (with_keys(architectures="Qwen3ForCausalLM"), "architectures"),
    "quantization is a list": (with_keys(quantization_config=[4]), "quantization_config must be an object"),
    "nan": (with_keys(hidden_size=float("nan")), "hidden_size must be a whole number"),
    "a huge number": (raw('{"hidden_size": ' + "9" * 5000 + "}"), "holds a number that is too long"),
    "nested without end": (raw("[" * 100_000), "nested too deeply"),
    "a link to nothing": (linked("../blobs/gone"), "the symbolic link points at nothing"),
    "a link to itself": (linked("config.json"), "cannot be read"),
    "a link to a folder": (linked("/"), "not a file"),
    "a device": (linked("/dev/zero"), "not a file"),
    "an error on reading": (linked("/proc/self/mem"), "cannot be read"),
    "a pipe": (piped, "not a file"),
    "a GiB": (a_gibibyte, "larger than 16 MiB"),
    "a lying header": (broken_header, "model.safetensors"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("verb", [("inspect",), ("slugs", "new")])
def test_what_cannot_be_read_is_one_sentence(
    refused: Refused, tmp_path: Path, verb: tuple[str, ...], name: str
) -> None:
    make, says = BAD[name]
    sentence = refused(*verb, str(make(tmp_path / "bad")))
    print(sentence)
    assert says in sentence
    assert str(tmp_path / "bad") in sentence
    assert len(sentence) < 400
    assert not list(paths.config_home().rglob("*.yaml"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission_is_one_sentence(refused: Refused, tmp_path: Path) -> None:
    assert "cannot be read: Permission denied. Make it readable." in refused(
        "inspect", str(forbidden(tmp_path / "a"))
    )


@pytest.mark.parametrize("offline", ["", "1"])
def test_a_repository_that_is_not_cached_names_the_command_and_the_folder(
    refused: Refused, monkeypatch: pytest.MonkeyPatch, hub: Path, offline: str
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", offline)
    for verb in (("inspect",), ("slugs", "new")):
        assert refused(*verb, "Qwen/Not-Here") == (
            f"Qwen/Not-Here is not in the Hugging Face cache: looked in {hub}. "
            "Download it with `hf download Qwen/Not-Here`."
        )


@pytest.mark.parametrize("source", ["", "nothing", "/no/such/folder", "a/b/c", "\x1b[2J/x", "x" * 5000, "\udcff/x"])
def test_what_names_nothing_is_one_sentence(refused: Refused, source: str) -> None:
    for verb in (("inspect",), ("slugs", "new")):
        sentence = refused(*verb, source)
        assert "no such folder or file" in sentence
        assert "\x1b" not in sentence
        assert len(sentence) < 300


def test_a_bad_checkpoint_is_one_json_value_too(cockpit: Cockpit, tmp_path: Path) -> None:
    done = cockpit("inspect", str(raw("{")(tmp_path / "a")), "--json")
    assert done.code == 2
    assert set(done.json["error"]) == {"title", "detail", "fix"}


def test_an_unknown_method_is_told_and_everything_else_of_it(cockpit: Cockpit) -> None:
    done = cockpit("inspect", str(FIXTURES / "unknown-method"), "--json", "--rig", "2x3090")
    assert done.code == 0
    assert done.json["quantization"]["method"] == "quark"
    assert [finding["rule"] for finding in done.json["findings"]] == ["quantization-method"]
    assert done.json["size_bytes"] is None or done.json["size_bytes"]["estimated"]


SLUG = "name: vllm/{name}\nmodel: M\nweights: {{path: '{path}', format: auto-round, bits: 4}}\nmax_model_len: 4096\n"


SOME_BAD = [
    "no config",
    "not JSON",
    "bits is a word",
    "a link to nothing",
    "an error on reading",
    "a GiB",
    "a lying header",
]


@pytest.mark.parametrize("name", SOME_BAD)
def test_a_broken_checkpoint_is_a_finding_of_its_own_slug_alone(
    cockpit: Cockpit, write_slug: Callable[[str, str], Path], tmp_path: Path, name: str
) -> None:
    make, says = BAD[name]
    write_slug("bad.yaml", SLUG.format(name="bad", path=make(tmp_path / "bad")))
    done = cockpit("check", "vllm/bad", "--rig", "2x3090", "--json")
    assert done.code == 2
    (finding,) = [one for one in done.json["findings"] if one["rule"] == "checkpoint-unreadable"]
    assert (finding["severity"], finding["subject"]) == ("block", "weights")
    assert says in finding["message"]
    assert finding["fix"]


def test_other_slugs_do_not_notice_a_broken_checkpoint(
    cockpit: Cockpit, write_slug: Callable[[str, str], Path], tmp_path: Path
) -> None:
    write_slug("bad.yaml", SLUG.format(name="bad", path=raw("{")(tmp_path / "bad")))
    write_slug("good.yaml", SLUG.format(name="good", path=rebuild("real-auto-round-moe", tmp_path / "good")))
    assert cockpit("plan", "vllm/bad", "--rig", "2x3090", "--force", "--json").code == 2
    good = cockpit("check", "vllm/good", "--rig", "2x3090", "--json").json
    assert "checkpoint-unreadable" not in [one["rule"] for one in good["findings"]]
    assert "mixture of experts" in good["toggles"]["int8"]["reason"]
    listed = {slug["name"] for slug in cockpit("slugs", "--json").json if "error" not in slug}
    assert {"vllm/bad", "vllm/good", "vllm/dual"} <= listed


def test_a_folder_that_is_gone_is_such_a_finding(
    cockpit: Cockpit, write_slug: Callable[[str, str], Path], tmp_path: Path
) -> None:
    write_slug("a.yaml", SLUG.format(name="a", path=tmp_path / "gone"))
    done = cockpit("check", "vllm/a", "--rig", "2x3090", "--json")
    assert done.code == 2
    blocks = [one["rule"] for one in done.json["findings"] if one["severity"] == "block"]
    assert blocks == ["checkpoint-unreadable"]


def test_the_shipped_figures_are_those_of_the_reader(tmp_path: Path) -> None:
    for name in REAL:
        folder = rebuild(name, tmp_path / name)
        expected = json.loads((FIXTURES / name / "expected.json").read_text())
        assert {
            str(bits): count for bits, count in sorted(read(str(folder)).quantization.widths.items())
        } == expected["widths"]
