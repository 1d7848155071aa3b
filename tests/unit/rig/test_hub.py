"""Where the Hugging Face cache and token are, and what is in the cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.hub import cached_repos, hub_cache, is_offline, token_source


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, "{home}/.cache/huggingface/hub"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/huggingface/hub"),
        ({"XDG_CACHE_HOME": "/x", "HF_HOME": "/h"}, "/h/hub"),
        ({"HF_HOME": "~/h"}, "{home}/h/hub"),
        ({"HF_HOME": "/h", "HUGGINGFACE_HUB_CACHE": "/old"}, "/old"),
        ({"HUGGINGFACE_HUB_CACHE": "/old", "HF_HUB_CACHE": "/new"}, "/new"),
        ({"HF_HUB_CACHE": "", "HF_HOME": ""}, "{home}/.cache/huggingface/hub"),
    ],
)
def test_the_cache_is_where_the_nearest_variable_puts_it(
    environ: dict[str, str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert str(hub_cache(environ)) == expected.format(home=tmp_path)


def test_a_token_is_found_and_never_told(tmp_path: Path) -> None:
    environ = {"HF_HOME": str(tmp_path)}
    assert token_source(environ) is None
    (tmp_path / "token").write_text("")
    assert token_source(environ) is None
    (tmp_path / "token").write_text("secret")
    assert token_source(environ) == str(tmp_path / "token")
    assert token_source({**environ, "HF_TOKEN": "secret"}) == "HF_TOKEN"
    assert token_source({**environ, "HF_TOKEN_PATH": str(tmp_path / "none")}) is None
    assert token_source({"HF_TOKEN_PATH": "a\0b"}) is None


@pytest.mark.parametrize(
    ("value", "expected"), [("1", True), ("true", True), ("ON", True), ("0", False), ("", False), ("no", False)]
)
def test_offline_is_what_the_library_takes_for_true(value: str, expected: bool) -> None:
    assert is_offline({"HF_HUB_OFFLINE": value}) is expected


def test_a_repository_counts_once_it_has_a_snapshot(tmp_path: Path) -> None:
    (tmp_path / "models--owner--name" / "snapshots" / "abc").mkdir(parents=True)
    (tmp_path / "models--owner--begun" / "snapshots").mkdir(parents=True)
    (tmp_path / "models--gpt2" / "snapshots" / "abc").mkdir(parents=True)
    (tmp_path / "datasets--owner--data" / "snapshots" / "abc").mkdir(parents=True)
    (tmp_path / "models--a--file").write_text("")
    assert cached_repos(tmp_path) == {"owner/name", "gpt2"}
    assert cached_repos(tmp_path / "missing") == frozenset()
