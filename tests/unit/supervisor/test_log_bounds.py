"""Logs have bounds: the boot stays, the newest lines stay, and a writer with the file open goes on."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from cockpit import paths
from cockpit.supervisor.log_bounds import MARK, bound, older_part, prune
from cockpit.supervisor.logfile import Tail, last_lines
from cockpit.supervisor.origin import marked_pid


def write(path: Path, count: int, start: int = 0) -> None:
    with path.open("ab") as handle:
        handle.write(b"".join(b"line %06d\n" % number for number in range(start, start + count)))


def test_a_small_log_is_left_alone(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    write(log, 10)
    assert not bound(log, 1000, 100) and log.read_bytes().count(b"\n") == 10
    assert not bound(tmp_path / "none.log", 1000, 100)


def test_the_boot_and_the_newest_lines_stay_and_the_older_part_is_bounded(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    write(log, 10_000)
    assert bound(log, 20_000, 1_000)
    lines = log.read_text().splitlines()
    assert lines[0] == "line 000000" and lines[-1].startswith(MARK.decode()) and len(lines) < 100
    older = older_part(log).read_text().splitlines()
    assert older[-1] == "line 009999" and older_part(log).stat().st_size <= 10_000
    assert older_part(log).stat().st_mode & 0o077 == 0
    write(log, 5, 10_000)  # a server appends where the file now ends
    assert last_lines(log, 2) == ["line 010003", "line 010004"]


def test_a_follower_of_a_cut_log_reads_on_without_the_boot_again(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    write(log, 10_000)
    tail = Tail(log)
    assert len(tail.read()) == 10_000
    assert bound(log, 20_000, 1_000)
    write(log, 3, 10_000)
    lines = tail.read()
    assert lines[0].startswith(MARK.decode()) and lines[1:] == ["line 010000", "line 010001", "line 010002"]


def test_a_link_in_place_of_a_log_is_never_followed(tmp_path: Path) -> None:
    real = tmp_path / "real"
    write(real, 1000)
    (tmp_path / "a.log").symlink_to(real)
    assert not bound(tmp_path / "a.log", 5, 1)
    assert not bound(real.with_name("a.log"), 1000, 10) and real.read_bytes().count(b"\n") == 1000


def test_a_full_disk_drops_what_it_cannot_keep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "a.log"
    write(log, 10_000)
    real_write = os.write

    def full(descriptor: int, data: bytes) -> int:
        if str(Path(f"/proc/self/fd/{descriptor}").readlink()).endswith(marked_pid(os.getpid())):
            raise OSError(28, "No space left on device")
        return real_write(descriptor, data)

    monkeypatch.setattr(os, "write", full)
    assert bound(log, 20_000, 1_000)
    assert log.stat().st_size < 2_000 and list(tmp_path.iterdir()) == [log]


def test_two_cockpits_and_a_writer_lose_no_line_that_is_not_between(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    over = threading.Event()

    def serve() -> None:
        with log.open("ab", buffering=0) as handle:
            number = 0
            while not over.is_set():
                handle.write(b"line %06d\n" % number)
                number += 1

    writer = threading.Thread(target=serve)
    writer.start()
    cuts = 0
    try:
        while cuts < 20:
            cuts += bound(log, 20_000, 1_000)
    finally:
        over.set()
        writer.join()
    lines = [line for line in log.read_bytes().splitlines() if not line.startswith(MARK)]
    assert all(len(line) == 11 and line.startswith(b"line ") for line in lines), "no line is torn"
    assert lines[0] == b"line 000000" and log.stat().st_size < 1 << 20


def test_the_oldest_logs_that_no_record_names_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folder = paths.ensure_private(paths.logs_home())
    for number in range(10):
        (folder / f"a-{number}.log").write_text("x" * 100)
        os.utime(folder / f"a-{number}.log", (number, number))
    (folder / "notes.txt").write_text("mine")
    (folder / "link.log").symlink_to(folder / "notes.txt")
    known = {str(folder / "a-0.log")}
    assert prune(known, kept=4) == 5
    left = sorted(path.name for path in folder.iterdir())
    assert left == ["a-0.log", "a-6.log", "a-7.log", "a-8.log", "a-9.log", "link.log", "notes.txt"]
    assert prune(known, kept=10, kept_bytes=250) == 2
    # Records hold resolved paths, and the state home may be a link.
    (tmp_path / "link").symlink_to(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "link"))
    assert prune(known, kept=0) == 2
    assert (folder / "a-0.log").exists()
