"""What is known of the checkpoints that slugs name, and when it is read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cockpit.catalog.load import Entry, read_slug
from cockpit.paths import shipped
from cockpit.slug_checkpoints import CheckpointAnswer, SlugCheckpoints

TINY = shipped("slugs") / "cpu" / "tiny-qwen3"
SLUG = "name: vllm/mine\nmodel: Mine\nweights: {{path: {}, format: bf16}}\nmax_model_len: 4096\n"


@pytest.fixture
def entry(tmp_path: Path) -> Entry:
    shutil.copytree(TINY, tmp_path / "model")
    file = tmp_path / "mine.yaml"
    file.write_text(SLUG.format(tmp_path / "model"))
    return Entry(slug=read_slug(file), file=file, shipped=False)


def test_files_are_read_when_asked_for_once_and_again_when_forgotten(entry: Entry, tmp_path: Path) -> None:
    checkpoints = SlugCheckpoints({})
    assert checkpoints.known_checkpoint(entry) == CheckpointAnswer()
    first = checkpoints.checkpoint_of(entry)
    assert first.checkpoint is not None and first.problem is None
    config = tmp_path / "model" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "num_hidden_layers": 1}))
    assert checkpoints.checkpoint_of(entry) is first and checkpoints.known_checkpoint(entry) is first
    checkpoints.forget_checkpoints()
    again = checkpoints.checkpoint_of(entry).checkpoint
    assert again is not None and again.layers != first.checkpoint.layers


def test_files_that_cannot_be_read_are_a_problem_and_a_repository_that_is_not_here_is_none(
    entry: Entry, tmp_path: Path
) -> None:
    (tmp_path / "model" / "config.json").write_text("{")
    answer = SlugCheckpoints({}).checkpoint_of(entry)
    assert answer.checkpoint is None and answer.problem is not None
    file = tmp_path / "far.yaml"
    file.write_text(SLUG.format("x").replace("path: x", "repo: o/n"))
    far = Entry(slug=read_slug(file), file=file, shipped=False)
    checkpoints = SlugCheckpoints({"HF_HUB_CACHE": str(tmp_path / "nothing")})
    assert checkpoints.checkpoint_of(far) == CheckpointAnswer() and checkpoints.declared(far) is None
