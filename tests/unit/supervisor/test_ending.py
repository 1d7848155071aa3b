"""How a process ended: signals by name, a cause only where one is likely, and never as a fact."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.supervisor.ending import ending, likely_cause


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (None, "its exit code was not seen"),
        (0, "exit code 0"),
        (1, "exit code 1"),
        (-9, "exit code -9: killed by signal 9 (SIGKILL)"),
        (137, "exit code 137: killed by signal 9 (SIGKILL)"),
        (-11, "exit code -11: killed by signal 11 (SIGSEGV)"),
        (255, "exit code 255"),
    ],
)
def test_an_ending_names_its_signal(code: int | None, words: str) -> None:
    assert ending(code) == words


def test_a_kill_is_probably_memory_and_says_how_to_see() -> None:
    for code in (-9, 137):
        cause = likely_cause(code)
        assert cause is not None and "probably" in cause and "dmesg" in cause
    assert likely_cause(1) is None and likely_cause(None) is None and likely_cause(0) is None


@given(st.integers(-300, 300))
def test_any_code_is_a_clause(code: int) -> None:
    assert ending(code).isprintable() and str(code) in ending(code)
    cause = likely_cause(code)
    assert cause is None or not cause.endswith(".")
