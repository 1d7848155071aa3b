"""Files that a slug's flags name must be here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cockpit.catalog.slug import Slug, Speculative, Weights
from cockpit.launch.named_files import missing_files

WEIGHTS = Weights(format="bf16", repo="o/n")


def slug(flags: dict[str, Any], **fields: Any) -> Slug:
    return Slug(name="vllm/a", model="A", weights=WEIGHTS, max_model_len=4096, flags=flags, **fields)


@pytest.mark.parametrize(
    "flags",
    [
        {"chat-template": "/nowhere/a.jinja"},
        {"ssl-keyfile": "/nowhere/key.pem", "port": 1},
        {"lora-modules": "sql=/nowhere/sql"},
        {"lora-modules": ["sql=/nowhere/sql", "b=o/adapter"]},
        {"tokenizer": "/nowhere/tokenizer"},
    ],
)
def test_a_whole_path_that_is_not_there_is_missing(flags: dict[str, Any]) -> None:
    (path,) = missing_files(slug(flags))
    assert path.startswith("/nowhere/")


def test_a_drafts_folder_counts() -> None:
    speculative = Speculative(method="dflash", model="/nowhere/draft", tokens=3)
    assert missing_files(slug({}, speculative=speculative)) == ("/nowhere/draft",)


def test_what_is_there_or_may_be_a_repository_is_not(tmp_path: Path) -> None:
    template = tmp_path / "a.jinja"
    template.write_text("{{ messages }}")
    flags = {"chat-template": str(template), "tokenizer": "o/n", "lora-modules": "sql=o/adapter", "ssl-keyfile": None}
    assert missing_files(slug({name: value for name, value in flags.items() if value})) == ()
    assert missing_files(slug({"chat-template": "{{ messages }}"})) == ()
