"""What a mistyped name may have been."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.nearest import did_you_mean, nearest

VERBS = ("slugs", "serve", "stop", "ps", "top", "check", "plan")
SLUGS = ("vllm/dual", "vllm/minimal", "vllm/qwen-27b-dual-max", "cpu/tiny-qwen3")


@pytest.mark.parametrize(
    ("word", "known", "first"),
    [
        ("srve", VERBS, ["serve"]),
        ("SERVE", VERBS, ["serve"]),
        ("plna", VERBS, ["plan"]),
        ("vllm/dul", SLUGS, ["vllm/dual"]),
        ("tiny", SLUGS, ["cpu/tiny-qwen3"]),
        ("dual", SLUGS, ["vllm/dual", "vllm/qwen-27b-dual-max"]),
        ("zzz", SLUGS, []),
        ("", VERBS, []),
    ],
)
def test_the_nearest_names(word: str, known: tuple[str, ...], first: list[str]) -> None:
    assert nearest(word, known) == first


@given(st.sampled_from(SLUGS), st.data())
def test_one_wrong_letter_is_forgiven(name: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(name) - 1))
    letter = data.draw(st.sampled_from("abcxyz"))
    assert name in nearest(name[:at] + letter + name[at + 1 :], SLUGS)


@given(st.text(max_size=200), st.lists(st.text(max_size=20), max_size=20))
def test_only_names_that_there_are_and_never_many(word: str, known: list[str]) -> None:
    found = nearest(word, known)
    assert len(found) <= 3 and set(found) <= set(known)


def test_a_question_or_what_is_said_otherwise() -> None:
    assert did_you_mean("srve", VERBS, "none") == "Did you mean serve?"
    assert did_you_mean("zzz", VERBS, "none") == "none"


def test_how_alike_a_name_must_be_is_asked_for() -> None:
    assert nearest("chekpt", VERBS) == ["check"]
    assert nearest("chekpt", VERBS, alike=0.8) == []
