"""Processes that run a program."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import psutil
import pytest

from cockpit.rig import programs
from cockpit.rig.programs import program_pids, read_of


def words_of(pid):
    """Its command line, which the kernel sets some time after the program has begun."""
    limit = time.monotonic() + 60
    while not (found := read_of(pid, "cmdline")) and time.monotonic() < limit:
        time.sleep(0.01)
    return found


def test_every_process_with_a_command_line_is_a_program_and_one_that_came_meanwhile_is_seen():
    mine = {one.pid for one in psutil.process_iter(["cmdline"]) if one.info["cmdline"]}
    assert os.getpid() in program_pids()
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"]) as child:
        assert child.pid in program_pids()
        assert b"time.sleep" in words_of(child.pid)
        child.kill()
    assert child.pid not in program_pids()
    missed = mine - set(program_pids())
    assert [pid for pid in missed if read_of(pid, "cmdline")] == [], "only what ended meanwhile"


def test_a_kernel_thread_is_looked_at_once_and_a_process_without_words_every_time(monkeypatch):
    files = {
        (2, "stat"): b"2 (kthreadd) S 0 0 0 0 -1 2129984 0 0",
        (7, "stat"): b"7 (a) odd (name) S 1 7 7 0 -1 4194560 0 0",
        (9, "cmdline"): b"python\0-m\0http.server\0",
    }
    reads = []

    def read(pid, name):
        reads.append((pid, name))
        return files.get((pid, name), b"")

    monkeypatch.setattr(programs, "read_of", read)
    monkeypatch.setattr(programs.os, "listdir", lambda _: ["2", "7", "9", "self"])
    monkeypatch.setattr(programs._Known, "threads", frozenset({4}))
    monkeypatch.setattr(programs._Known, "worded", frozenset())
    now = time.monotonic()
    monkeypatch.setattr(programs._Known, "since", now)
    monkeypatch.setattr(programs._Known, "looked_at", now)
    monkeypatch.setattr(programs, "_APART_SECONDS", 3600.0)
    monkeypatch.setattr(programs, "_REMEMBERED_SECONDS", 3600.0)
    assert program_pids() == [7, 9]
    reads.clear()
    assert program_pids() == [7, 9]
    assert {pid for pid, _ in reads} == {7}, "one that had words is a program, whatever it runs by now"
    assert frozenset({2}) == programs._Known.threads


def test_a_process_that_is_gone_has_no_files():
    assert read_of(2**22 + 1, "cmdline") == b""


def test_of_an_endless_command_line_the_beginning_is_read():
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)", *["x" * 100_000] * 15]) as child:
        found = words_of(child.pid)
        child.kill()
    assert found.startswith(sys.executable.encode()) and 100_000 < len(found) < 200_000


@pytest.mark.parametrize("field", ["since", "looked_at"])
def test_a_program_that_took_the_pid_of_a_kernel_thread_is_seen_in_time(monkeypatch, field):
    now = time.monotonic()
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"]) as child:
        for name, value in (("threads", frozenset({child.pid})), ("since", now), ("looked_at", now)):
            monkeypatch.setattr(programs._Known, name, value)
        monkeypatch.setattr(programs, "_APART_SECONDS", 3600.0)
        monkeypatch.setattr(programs, "_REMEMBERED_SECONDS", 3600.0)
        assert child.pid not in program_pids()
        monkeypatch.setattr(programs._Known, field, now - 7200)
        assert child.pid in program_pids()
        child.kill()
