"""Printing: harmless to terminals, one JSON value, columns that line up."""

from __future__ import annotations

import json
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cockpit.cli.output import emit, plain, prose_table, say, table, tell


@given(st.text(alphabet=st.characters(categories=["Cc", "Cf", "Cs", "L"])))
def test_no_control_character_reaches_the_terminal(text: str) -> None:
    assert all(character.isprintable() or character in "\n\t" for character in plain(text))
    assert len(plain(text)) == len(text)


def test_say_is_for_stdout_and_tell_for_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    say("a\x1b[31m")
    tell("b\x9b2J")
    assert capsys.readouterr() == ("a�[31m\n", "b�2J\n")


class Point(msgspec.Struct):
    x: float
    names: tuple[str, ...] = ()


FIGURES = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | FIGURES | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@settings(max_examples=40)
@given(JSON)
def test_emit_prints_the_value_and_nothing_else(value: Any) -> None:
    import contextlib
    import io

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        emit(value)
    assert json.loads(printed.getvalue()) == value
    assert printed.getvalue().isascii()


def test_emit_takes_structs_and_turns_what_is_not_finite_into_null(capsys: pytest.CaptureFixture[str]) -> None:
    emit([Point(float("nan"), ("é", "\udcff")), Point(float("inf")), Point(1.5)])
    out = capsys.readouterr().out
    assert json.loads(out) == [
        {"x": None, "names": ["é", "\udcff"]},
        {"x": None, "names": []},
        {"x": 1.5, "names": []},
    ]


def test_columns_line_up_and_numbers_align_right(capsys: pytest.CaptureFixture[str]) -> None:
    table(["NAME", "N"], [["a", "5"], ["long\nname", "12,345"]], right=(1,))
    assert capsys.readouterr().out == "NAME            N\na               5\nlong name  12,345\n"


WIDE = (["NAME", "A", "B", "PATH"], [["x" * 20, "a" * 20, "b" * 20, "/opt/" + "p" * 60 + "/bin/vllm"]])


@pytest.mark.parametrize(
    ("columns", "headers"),
    [("200", ["NAME", "A", "B", "PATH"]), ("125", ["NAME", "A", "PATH"]), ("80", ["NAME", "PATH"])],
)
def test_a_table_leaves_out_its_least_columns_where_the_terminal_is_narrow(
    columns: str, headers: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    table(*WIDE, spare=(2, 1), cut=3)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == headers
    assert all(len(line) <= int(columns) for line in lines)
    assert lines[1].endswith("/bin/vllm") and ("…" in lines[1]) == (columns == "80")


def test_without_a_terminal_a_table_is_80_columns_wide(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr("sys.__stdout__", None)
    table(*WIDE, spare=(2, 1), cut=3)
    assert max(len(line) for line in capsys.readouterr().out.splitlines()) == 80


def test_a_table_that_may_lose_nothing_keeps_everything(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    table(*WIDE)
    assert "p" * 60 in capsys.readouterr().out


PROSE = (["CASE", "FIX"], [["folder/" * 12 + "a.log", "Set max_model_len to a value that fits. " * 3], ["b.log", ""]])


@pytest.mark.parametrize("columns", ["40", "80", "132"])
def test_prose_wraps_on_a_terminal_and_long_paths_keep_their_ends(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    prose_table(*PROSE, cut=0)
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert all(len(line) <= int(columns) for line in lines)
    assert lines[1].startswith("fold") and "…" in lines[1] and "a.log  Set" in lines[1]
    assert [word for line in lines[1:] for word in line.split() if "log" not in word] == PROSE[1][0][1].split()
    assert lines[-1] == "b.log"


def test_prose_that_is_piped_is_whole_and_a_line_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    prose_table(*PROSE, cut=0)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert all(cell.strip() in lines[1] for cell in PROSE[1][0])
