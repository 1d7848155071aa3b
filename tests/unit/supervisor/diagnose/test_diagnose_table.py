"""The table itself: what every row must have."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from cockpit.launch.toggles import BY_ID
from cockpit.supervisor.boot_state import BootFacts, BootState
from cockpit.supervisor.diagnose.arguments import Arguments
from cockpit.supervisor.diagnose.derived import SYMPTOMS as DERIVED
from cockpit.supervisor.diagnose.pattern import Pattern, literal_of
from cockpit.supervisor.diagnose.table import SYMPTOMS
from cockpit.supervisor.diagnose.types import Evidence, Incident, Symptom

ROWS = [*SYMPTOMS, *(row for row in DERIVED if row.id != "kv-pool-cold-start")]
BOOT = BootState(
    stages=(),
    current="config",
    facts=BootFacts(vllm_version="0.20.2rc1", capacity_tokens=1000),
    ready=False,
    first_exception=None,
)


@pytest.mark.parametrize("row", ROWS, ids=[f"{n}-{row.id}" for n, row in enumerate(ROWS)])
def test_a_row_says_something_whatever_the_log_left_out(row: Symptom) -> None:
    arguments = Arguments({"speculative_tokens": 3, "earlier_version": "0.32.0", "engine_version": "0.33.0"})
    groups = (
        {"gib": "6.5", "tokens": "528", "percent": "2.0", "kind": "WNA16"}
        if row.notice
        else {"wanted": "256", "blocks": "95"}
    )
    seen = Evidence(
        incident=Incident(text="x"),
        groups=groups,
        arguments=arguments,
        boot=BOOT,
        counts={"weights-skipped-silently": 9},
    )
    said = row.explain(seen)
    assert said.endswith(".") and "–" not in said and "None" not in said and "{" not in said
    for fix in row.fixes(seen):
        assert fix.aid == bool(fix.env.keys() & {"VLLM_LOGGING_LEVEL", "NCCL_DEBUG", "CUDA_LAUNCH_BLOCKING"})
        assert fix.text.endswith((".", "?")) and set(fix.set) <= BY_ID.keys()
    assert row.versions


@pytest.mark.parametrize("row", SYMPTOMS, ids=[f"{n}-{row.id}" for n, row in enumerate(SYMPTOMS)])
def test_a_pattern_compiles_and_has_a_literal_that_settles_most_lines(row: Symptom) -> None:
    for pattern in row.patterns:
        re.compile(pattern)
        assert row.frames is not None or len(literal_of(pattern)) >= 3, pattern


@pytest.mark.parametrize(
    ("pattern", "literal"),
    [
        (r"max seq len \((?P<n>\d+)\)", "max seq len ("),
        (r"colou?r of it", "r of it"),
        (r"a{2,30}bc", "bc"),
        (r"one|two", ""),
        (r"[abc]defg+", "defg"),
        (r"(?:x|y) end", " end"),
        (r"\bword\.py", "word.py"),
        (r"a\none \x41en", "one "),
        (r"[]a]bc[^]]d", "bc"),
        (r"(?:a(?:b|c)[)]|d)efg(?=h)", "efg"),
    ],
)
def test_the_literal_of_a_pattern_is_the_longest_text_that_must_be_there(pattern: str, literal: str) -> None:
    assert literal_of(pattern) == literal


PARTS = (
    "a",
    "b",
    " ",
    r"\.",
    r"\(",
    r"\n",
    r"\x41",
    r"\d",
    r"\b",
    "[ab]",
    "[^]a]",
    "(?:a|b)",
    "(?P<x>a(b))",
    "(?=a)",
    "|",
)
COUNTS = ("", "", "", "?", "*", "+", "{2}", "{0,3}", "+?")


@given(st.data(), st.lists(st.tuples(st.sampled_from(PARTS), st.sampled_from(COUNTS)), min_size=1, max_size=8))
def test_the_literal_of_a_pattern_is_in_all_that_it_matches(
    data: st.DataObject, parts: list[tuple[str, str]]
) -> None:
    pattern = "".join(part + count for part, count in parts)
    try:
        regex = re.compile(pattern)
    except re.error:
        reject()
    found = regex.search(data.draw(st.from_regex(regex)))
    assert found is not None and literal_of(pattern) in found.string


def test_a_pattern_finds_what_its_regular_expression_finds() -> None:
    pattern = Pattern(r"exit code (?P<code>-?\d+)")
    found = pattern.search("died, exit code -9")
    assert found is not None and found["code"] == "-9"
    assert pattern.search("died") is None
