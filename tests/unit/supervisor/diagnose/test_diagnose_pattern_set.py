"""The patterns of all symptoms, held against a line at once: what each of them finds by itself is found."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fixture_yaml import read_yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cockpit.supervisor.diagnose.lines import parse
from cockpit.supervisor.diagnose.matcher import is_remarkable
from cockpit.supervisor.diagnose.pattern import Pattern
from cockpit.supervisor.diagnose.pattern_set import PatternSet
from cockpit.supervisor.diagnose.table import SYMPTOMS
from cockpit.supervisor.logfile import clean

HERE = Path(__file__).parent
FIXTURES = HERE.parents[2] / "fixtures"
PATTERNS = [
    Pattern(text)
    for text in dict.fromkeys(text for one in SYMPTOMS if not one.notice and not one.frames for text in one.patterns)
]
LITERALS = sorted({pattern.literal for pattern in PATTERNS})
WORDS = st.text(alphabet="ab .", min_size=1, max_size=12)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _strings(part)


def logs() -> Iterator[str]:
    for path in sorted(FIXTURES.rglob("*.log")):
        yield path.read_text(encoding="utf-8", errors="replace")
    for path in sorted((HERE / "fixtures").glob("*.yaml")):
        yield from _strings(read_yaml(path))


def texts() -> list[str]:
    """What the lines of all logs say, and each line as it stands, as one without a level would be read."""
    whole = dict.fromkeys(clean(line, 8000) for log in logs() for line in log.split("\n"))
    return list(dict.fromkeys([*whole, *(line.text for raw in whole for line in parse(raw))]))


def found_one_by_one(text: str) -> bool:
    return any(pattern.search(text) for pattern in PATTERNS)


def test_a_line_of_a_recorded_log_is_remarkable_when_any_pattern_finds_it() -> None:
    remarkable = [is_remarkable(text) for text in texts()]
    assert remarkable == [found_one_by_one(text) for text in texts()]
    assert any(remarkable) and not all(remarkable)


@pytest.mark.parametrize("before", ["", "a", "ab", "abc", "ébc é"])
@pytest.mark.parametrize("after", ["", "x", "é"])
def test_each_pattern_is_a_candidate_wherever_its_literal_stands(before: str, after: str) -> None:
    known = PatternSet(PATTERNS)
    for pattern in PATTERNS:
        assert pattern in known.candidates(before + pattern.literal + after), pattern.literal


@given(st.lists(WORDS), st.text(alphabet="ab .", max_size=40))
@example(["a"], "")
@example([""], "")
@example(["abababa", "abababb", "ababab"], "ababababb")
def test_what_a_text_has_is_a_candidate_whatever_else_there_is(words: list[str], text: str) -> None:
    patterns = [Pattern(word.replace(".", r"\.")) for word in words]
    candidates = PatternSet(patterns).candidates(text)
    assert {one for one in patterns if one.search(text)} == {one for one in candidates if one.search(text)}


@given(st.lists(st.sampled_from(LITERALS), max_size=3), st.text(max_size=8))
def test_a_line_made_of_literals_is_remarkable_when_any_pattern_finds_it(parts: list[str], joint: str) -> None:
    text = joint.join(parts)
    assert is_remarkable(text) == found_one_by_one(text)


@pytest.mark.parametrize("start", range(0, len(PATTERNS), 50))
def test_what_a_pattern_is_made_for_is_remarkable(start: int) -> None:
    expressions = [re.compile(pattern.text, re.DOTALL | re.MULTILINE) for pattern in PATTERNS[start : start + 50]]

    @settings(max_examples=2, suppress_health_check=list(HealthCheck), deadline=None)
    @given(st.tuples(*map(st.from_regex, expressions)))
    def check(lines: tuple[str, ...]) -> None:
        assert [line for line in lines if not is_remarkable(line)] == []

    check()


def test_most_lines_leave_few_candidates() -> None:
    known = PatternSet(PATTERNS)
    counts = [len(known.candidates(text)) for text in texts()]
    assert sum(counts) < len(PATTERNS) * len(counts) / 20
