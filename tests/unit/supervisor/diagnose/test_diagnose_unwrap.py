"""A log that was copied from a terminal, with its lines broken at the terminal's width."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.supervisor.diagnose.files import diagnose_file, diagnose_lines
from cockpit.supervisor.diagnose.unwrap import unwrapped, width_of
from cockpit.supervisor.logfile import clean

LOGS = Path(__file__).parents[3] / "fixtures" / "boot-logs"
NAMES = sorted(path.name for path in LOGS.glob("*.log"))


def broken(text: str, width: int) -> str:
    return "\n".join(line[at : at + width] for line in text.split("\n") for at in range(0, max(1, len(line)), width))


@pytest.mark.parametrize("width", [100, 132, 180])
@pytest.mark.parametrize("name", NAMES)
def test_a_log_from_a_terminal_says_the_same(name: str, width: int, tmp_path: Path) -> None:
    text = "\n".join(clean(line, 8000) for line in (LOGS / name).read_text(encoding="utf-8").split("\n"))
    file = tmp_path / "copied.log"
    file.write_text(broken(text, width), encoding="utf-8")
    whole, copied = diagnose_lines(text.split("\n")), diagnose_file(str(file))
    assert (copied.symptom, copied.healthy, copied.ready) == (whole.symptom, whole.healthy, whole.ready)


@pytest.mark.parametrize("name", NAMES)
def test_a_log_that_was_not_broken_is_left_as_it_is(name: str) -> None:
    lines = [clean(line, 8000) for line in (LOGS / name).read_text(encoding="utf-8").split("\n")]
    assert width_of(lines) is None
    assert list(unwrapped(iter(lines))) == lines


def test_lines_of_one_length_that_begin_anew_are_no_rest_of_one_another() -> None:
    lines = [
        f'INFO:     127.0.0.1:{port} - "POST /v1/chat/completions HTTP/1.1" 200 OK' for port in range(40000, 40009)
    ]
    stamped = [
        f"2026-10-03T09:11:4{second}Z some words of a program that has no level and no name" for second in range(9)
    ]
    assert list(unwrapped(iter(lines))) == lines
    assert list(unwrapped(iter(stamped))) == stamped


@given(st.lists(st.text(alphabet="ab :", max_size=130), max_size=40))
def test_no_character_is_lost(lines: list[str]) -> None:
    assert "".join(unwrapped(iter(lines))) == "".join(lines)


def test_a_blob_of_text_becomes_no_line_without_end() -> None:
    blob = (f"{number:06d}{'x' * 70}" for number in range(2000))
    assert max(map(len, unwrapped(blob))) == 8000
