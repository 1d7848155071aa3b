"""Where a checkpoint is looked for: a folder, a config.json, the Hugging Face cache."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from checkpoint_files import config, write_config, write_tensors

from cockpit.checkpoint.inspect import inspect
from cockpit.errors import CockpitError

REPO = "Qwen/Tiny-1.0_x"


def snapshot(home: Path, revision: str, name: str = "llama") -> Path:
    """A snapshot laid out as huggingface_hub lays it out: links into blobs."""
    root = home / "models--Qwen--Tiny-1.0_x"
    blobs, folder = root / "blobs", root / "snapshots" / revision
    blobs.mkdir(parents=True, exist_ok=True)
    folder.mkdir(parents=True)
    (blobs / f"blob-{revision}").write_text(json.dumps(config(name)))
    (folder / "config.json").symlink_to(Path("..") / ".." / "blobs" / f"blob-{revision}")
    return folder


def main_is(home: Path, revision: str) -> None:
    refs = home / "models--Qwen--Tiny-1.0_x" / "refs"
    refs.mkdir(parents=True, exist_ok=True)
    (refs / "main").write_text(revision)


def test_a_repository_is_the_snapshot_that_main_names(tmp_path: Path) -> None:
    snapshot(tmp_path, "aaa")
    wanted = snapshot(tmp_path, "bbb", "bf16")
    main_is(tmp_path, "bbb\n")
    checkpoint = inspect(REPO, tmp_path)
    assert checkpoint.architecture == "Qwen3ForCausalLM"
    assert (checkpoint.source, checkpoint.folder) == (REPO, str(wanted))


@pytest.mark.parametrize("main", [None, "gone", "../../elsewhere", "", ".."])
def test_without_a_main_that_is_there_the_only_snapshot_is_taken(tmp_path: Path, main: str | None) -> None:
    snapshot(tmp_path, "aaa")
    if main is not None:
        main_is(tmp_path, main)
    assert inspect(REPO, tmp_path).architecture == "LlamaForCausalLM"


def test_several_snapshots_without_main_are_not_guessed_between(tmp_path: Path) -> None:
    snapshot(tmp_path, "aaa")
    snapshot(tmp_path, "bbb")
    with pytest.raises(CockpitError, match="2 snapshots"):
        inspect(REPO, tmp_path)


def test_weights_behind_the_links_of_the_cache_are_read(tmp_path: Path) -> None:
    folder = snapshot(tmp_path, "aaa")
    blob = write_tensors(
        tmp_path / "models--Qwen--Tiny-1.0_x" / "blobs" / "weights", {"lm_head.weight": ("BF16", [8, 4])}
    )
    (folder / "model.safetensors").symlink_to(blob)
    sizes = inspect(REPO, tmp_path).sizes
    assert sizes is not None
    assert (sizes.estimated, sizes.total, sizes.lm_head) == (False, 64, 64)


def test_a_repository_that_is_not_there_names_the_command_that_gets_it(tmp_path: Path) -> None:
    with pytest.raises(CockpitError, match="not in the Hugging Face cache") as caught:
        inspect(REPO, tmp_path)
    assert f"hf download {REPO}" in caught.value.fix
    assert str(tmp_path) in caught.value.detail


@pytest.mark.parametrize(
    ("variable", "below"),
    [
        ("HF_HUB_CACHE", "."),
        ("HF_HOME", "hub"),
        ("XDG_CACHE_HOME", "huggingface/hub"),
        ("HOME", ".cache/huggingface/hub"),
    ],
)
def test_the_cache_is_found_by_the_same_variables_as_the_library_uses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, below: str
) -> None:
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, str(tmp_path))
    snapshot(tmp_path / below, "aaa")
    assert inspect(REPO).architecture == "LlamaForCausalLM"


def test_a_lone_config_is_read_by_itself(tmp_path: Path) -> None:
    file = write_config(tmp_path, config("llama")) / "config.json"
    checkpoint = inspect(str(file.rename(tmp_path / "other.json")))
    assert checkpoint.folder is None
    assert checkpoint.sizes is not None
    assert checkpoint.sizes.estimated


def test_a_relative_folder_comes_before_a_repository_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_config(tmp_path / "Qwen" / "Tiny-1.0_x", config("llama"))
    assert inspect(REPO, tmp_path).folder == REPO


@pytest.mark.parametrize(
    "source",
    [
        "",
        "nothing",
        "/no/such/folder",
        "a/b/c",
        "../x",
        "a/../b",
        "x\0y",
        "~no-such-user/x",
        "a b/c",
        "\u001b[2J/x",
        "x" * 5000,
    ],
)
def test_what_is_neither_path_nor_repository_is_one_sentence(tmp_path: Path, source: str) -> None:
    with pytest.raises(CockpitError) as caught:
        inspect(source, tmp_path)
    assert caught.value.fix
    assert "\x1b" not in caught.value.sentence()
