"""Finding slugs: by name, by alias, by words, and what is said when there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from cockpit import paths
from cockpit.catalog.load import Catalog, load
from cockpit.errors import CockpitError

CATALOG = load(paths.shipped("slugs"))


def refusal(name: str, catalog: Catalog = CATALOG) -> CockpitError:
    with pytest.raises(CockpitError) as caught:
        catalog.get(name)
    return caught.value


def test_an_alias_finds_its_slug() -> None:
    assert CATALOG.get("vllm/qwen-27b-dual-fast") is CATALOG.get("vllm/dual")


def test_a_misspelt_name_gets_the_nearest_ones() -> None:
    error = refusal("vllm/dula")
    assert error.exit_code == 2
    assert "no slug is named 'vllm/dula'" in error.title
    assert "Did you mean vllm/dual" in error.fix


def test_a_name_without_its_engine_gets_the_full_one() -> None:
    assert refusal("tiny-qwen3").fix == "Did you mean cpu/tiny-qwen3?"


def test_a_name_like_nothing_gets_the_list() -> None:
    assert refusal("zzz").fix == "`cockpit slugs` lists them all."


def test_a_hostile_name_is_cut_and_quoted() -> None:
    error = refusal("\x1b[2J" + "x" * 10_000)
    assert "\x1b" not in str(error)
    assert len(str(error)) < 300


def test_the_name_of_a_broken_file_gets_its_fault(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text('name: "vllm/broken" # mine\nmodle: x\n')
    error = refusal("vllm/broken", load(tmp_path))
    assert "b.yaml, line 2: modle: there is no such key" in error.title


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("TINY", ["cpu/tiny-qwen3"]),
        ("nvfp4 dual", ["vllm/qwen-27b-dual-nvfp4"]),
        ("dual-fast lorbus", ["vllm/dual"]),
        ("MoE", ["vllm/qwen-35b-a3b-dual"]),
        ("minachist int5-flat", ["vllm/qwen38-27b-int5-flat"]),
        ("no such words", []),
    ],
)
def test_every_word_must_occur_in_name_model_or_weights(words: str, names: list[str]) -> None:
    assert [entry.slug.name for entry in CATALOG.matching(words)] == names


def test_no_words_match_everything() -> None:
    assert CATALOG.matching("  ") == CATALOG.entries


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("qwne3", "Did you mean qwen3?"),
        ("27b dul", "Did you mean dual?"),
        ("zzz", "`cockpit slugs` lists them all."),
        ("tiny fp8", "`cockpit slugs` lists them all."),
        ("", "`cockpit slugs` lists them all."),
    ],
)
def test_words_that_match_nothing_get_the_nearest_one(words: str, says: str) -> None:
    assert CATALOG.meant(words) == says
