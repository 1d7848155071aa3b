"""Log files: followed in any chunks, and safe to show."""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
import unicodedata
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cockpit import paths
from cockpit.cli.main import main
from cockpit.errors import CockpitError
from cockpit.supervisor import store
from cockpit.supervisor.boot import boot_of
from cockpit.supervisor.diagnose.files import diagnose_file
from cockpit.supervisor.logfile import Tail, clean, last_lines
from cockpit.supervisor.record import InstanceRecord

PARTS = [b"\n", b"\r", b"\r\n", b"a", b"bc ", b"\xff", "é".encode(), b"\xe2\x82", b"\x1b[31m", b"\x00", b"x" * 70_000]
BYTES = st.lists(st.sampled_from(PARTS)).map(b"".join) | st.binary(max_size=300)


def follow(data: bytes, cuts: list[int]) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log")
        tail = Tail(path)
        lines = tail.read()
        with path.open("ab", buffering=0) as handle:
            for first, last in pairwise(sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})):
                handle.write(data[first:last])
                lines += tail.read()
        while tail.unread_bytes:
            lines += tail.read()
        return [*lines, tail.unfinished]


@given(BYTES, st.lists(st.integers(0, 1 << 20), max_size=8))
@example(b"a\r\nb\r\n", [2, 5])
@example(b"10%\r20%\r\n", [4, 8])
def test_any_chunking_of_any_bytes_gives_the_same_lines(data: bytes, cuts: list[int]) -> None:
    assert follow(data, cuts) == follow(data, [])


@given(st.text())
@example("\x1b]0;title\x07text")
@example("\x1b]52;c;aGk=")
@example("\x9b31mred\x1b[0m\u202eevil\u2028next\ud800")
def test_cleaned_text_has_no_control_characters_and_is_bounded(text: str) -> None:
    cleaned = clean(text)
    assert cleaned.isprintable()
    assert not any(unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for character in cleaned)
    assert len(cleaned) <= 2000
    assert clean(cleaned) == cleaned


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[1;31mError\x1b[0m: x", "Error: x"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1bP1$r0m\x1b\\after", "after"),
        ("a\tb", "a   b"),
        ("no\u00a0break", "no break"),
        ("bell\x07 nul\x00", "bell nul"),
        ("right\u202eleft", "rightleft"),
        ("naïve 日本 █▄", "naïve 日本 █▄"),
    ],
)
def test_terminal_sequences_go_with_their_arguments_and_text_stays(raw: str, shown: str) -> None:
    assert clean(raw) == shown


def test_a_long_line_ends_in_an_ellipsis() -> None:
    assert clean("y" * 5000) == "y" * 1999 + "…"
    assert clean("y" * 50, limit=10) == "y" * 9 + "…"


def test_a_rewritten_line_is_its_last_state(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"load: 0%\rload: 50%")
    tail = Tail(path)
    assert tail.read() == [] and tail.unfinished == "load: 50%"
    with path.open("ab") as handle:
        handle.write(b"\rload: 100%\r\nnext\n")
    assert tail.read() == ["load: 100%", "next"]


def test_several_carriage_returns_do_not_wipe_a_line(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"done\r\r\r\n\r\nnext\r\r")
    tail = Tail(tmp_path / "log")
    assert (tail.read(), tail.unfinished) == (["done", ""], "next")


def test_a_missing_file_has_no_lines_until_it_comes(tmp_path: Path) -> None:
    tail = Tail(tmp_path / "log")
    assert tail.read() == []
    (tmp_path / "log").write_text("here\n", encoding="utf-8")
    assert tail.read() == ["here"]


def test_a_truncated_or_replaced_file_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("one\ntwo\nhalf", encoding="utf-8")
    tail = Tail(path)
    assert tail.read() == ["one", "two"]
    os.truncate(path, 0)
    with path.open("a", encoding="utf-8") as handle:
        handle.write("new\n")
    assert tail.read() == ["new"]
    (tmp_path / "other").write_text("a replacement that is longer than before\n", encoding="utf-8")
    (tmp_path / "other").replace(path)
    assert tail.read() == ["a replacement that is longer than before"]


def test_one_read_takes_a_bounded_part_and_says_what_is_left(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"0123456789abcdef\n" * 200_000)
    tail = Tail(path)
    first = tail.read()
    assert 0 < len(first) < 70_000 and tail.unread_bytes > 2 << 20
    count = len(first)
    while tail.unread_bytes:
        count += len(tail.read())
    assert count == 200_000


def test_the_last_lines_are_read_from_the_end(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"".join(b"line %d\r\n" % number for number in range(100_000)) + b"bar 1\rbar 2")
    assert last_lines(path, 3) == ["line 99998", "line 99999", "bar 2"]
    assert last_lines(path, 0) == [] and last_lines(tmp_path / "none", 5) == []
    assert len(last_lines(path, 20_000)) == 20_000


@given(st.binary(max_size=300) | st.lists(st.sampled_from(PARTS[:-1])).map(b"".join), st.integers(1, 5))
def test_the_last_lines_are_those_that_a_follower_ends_with(data: bytes, count: int) -> None:
    *lines, unfinished = follow(data, [])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log")
        path.write_bytes(data)
        got = last_lines(path, count)
    shows_unfinished = data.rpartition(b"\n")[2].strip(b"\r") != b""
    assert got == ([*lines, unfinished] if shows_unfinished else lines)[-count:]


def test_a_line_without_an_end_is_kept_in_bounds(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"z" * (3 << 20) + b"\nnext\n")
    tail = Tail(path)
    lines = tail.read()
    while tail.unread_bytes:
        lines += tail.read()
    assert [len(line) for line in lines] == [2000, 4]
    assert last_lines(path, 1) == ["next"]


NO_LOGS = ["zero", "pipe", "socket", "folder"]


@pytest.fixture
def no_log(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Something that is no regular file, and that would be read or waited for without an end."""
    place = tmp_path / "x.log"
    with contextlib.ExitStack() as held:
        match request.param:
            case "zero":
                place.symlink_to("/dev/zero")
            case "pipe":
                os.mkfifo(place)
            case "socket":
                held.enter_context(socket.socket(socket.AF_UNIX)).bind(str(place))
            case "folder":
                place.mkdir()
        yield place


@pytest.mark.parametrize("no_log", NO_LOGS, indirect=True)
def test_what_is_no_regular_file_is_never_read(no_log: Path) -> None:
    tail = Tail(no_log)
    assert (tail.read(), tail.unread_bytes, last_lines(no_log, 5), boot_of(str(no_log), 0.0)) == ([], 0, [], None)
    with pytest.raises(CockpitError, match="cannot be read"):
        diagnose_file(str(no_log))


@pytest.mark.parametrize("no_log", NO_LOGS, indirect=True)
def test_a_record_that_names_something_else_as_its_log_is_refused_in_one_sentence(
    no_log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(no_log.parent / "state"))
    paths.ensure_private(paths.instances_home())
    store.save(record_of(no_log))
    for words in (["logs", "odd"], ["logs", "odd", "-f"], ["logs", "odd", "--json"], ["diagnose", "odd"]):
        assert main(words) == 2
        said = capsys.readouterr()
        assert "x.log cannot be read" in said.err + said.out and "Traceback" not in said.err


def record_of(log: Path) -> InstanceRecord:
    return InstanceRecord(
        name="odd",
        slug="cpu/odd",
        model="m",
        served_model_name="m",
        argv=("vllm", "serve"),
        env={},
        cwd="/",
        host="127.0.0.1",
        port=8000,
        url="http://127.0.0.1:8000",
        log=str(log),
        created_at=1.0,
        ended_at=2.0,
    )
