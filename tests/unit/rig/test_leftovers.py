"""Processes of dead servers: real ones, titled as vLLM titles its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.rig import leftovers
from cockpit.rig.leftovers import find_leftovers, find_settled_leftovers


@pytest.fixture
def titled(tmp_path: Path) -> Path:
    """A program that titles itself by its first argument, says its pid, and starts another with the rest.

    One write a line: two programs share the pipe, and `print` of an unbuffered Python writes each word alone.
    """
    program = tmp_path / "titled.py"
    program.write_text(
        "import ctypes, os, subprocess, sys, time\n"
        "ctypes.CDLL(None).prctl(15, sys.argv[1].encode(), 0, 0, 0)\n"
        "os.write(1, f'{sys.argv[1]} {os.getpid()}\\n'.encode())\n"
        "if sys.argv[2:]:\n"
        "    subprocess.Popen([sys.executable, __file__, *sys.argv[2:]])\n"
        "time.sleep(3600)\n"
    )
    return program


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that are ended, groups and all, after the test."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        end(process)


def end(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def start(started: list[subprocess.Popen[str]], argv: list[str], lines: int) -> dict[str, int]:
    """Start a command in a group of its own; the pids of those that named themselves, by title."""
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, start_new_session=True)
    started.append(process)
    assert process.stdout is not None
    said = [process.stdout.readline().split() for _ in range(lines)]
    return {title: int(pid) for title, pid in said}


def test_an_engine_under_a_living_python_is_no_leftover(titled: Path, started: list[subprocess.Popen[str]]) -> None:
    pids = start(started, [sys.executable, str(titled), "VLLM::EngineCore", "VLLM::Worker_TP0"], 2)
    assert not {left.pid for left in find_leftovers()} & set(pids.values())


def test_an_engine_and_its_worker_are_leftovers_once_no_python_is_above_them(
    titled: Path, started: list[subprocess.Popen[str]]
) -> None:
    # A shell that becomes `sleep` stands for init, which takes orphans in.
    script = f"{sys.executable} {titled} VLLM::EngineCore VLLM::Worker_TP0 & exec sleep 3600"
    pids = start(started, ["/bin/sh", "-c", script], 2)
    found = {left.pid: left for left in find_leftovers() if left.pid in pids.values()}
    assert set(found) == set(pids.values())
    assert found[pids["VLLM::EngineCore"]].title.startswith("VLLM::EngineCor")
    assert all(left.gpu_bytes == {} and left.started_at > time.time() - 3600 for left in found.values())


def test_a_process_of_another_name_is_none(titled: Path, started: list[subprocess.Popen[str]]) -> None:
    pids = start(started, ["/bin/sh", "-c", f"{sys.executable} {titled} VLLM-like & exec sleep 3600"], 1)
    assert not {left.pid for left in find_leftovers()} & set(pids.values())


def test_one_that_ends_by_itself_in_time_is_none(
    titled: Path, started: list[subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The inner shell reaps the one that ends, as init does.
    script = f"({sys.executable} {titled} VLLM::Short; :) & {sys.executable} {titled} VLLM::Long & exec sleep 3600"
    pids = start(started, ["/bin/sh", "-c", script], 2)
    assert set(pids.values()) <= {left.pid for left in find_leftovers()}

    def meanwhile(seconds: float) -> None:
        asked.append(seconds)
        os.kill(pids["VLLM::Short"], signal.SIGKILL)
        limit = time.monotonic() + 60
        while Path(f"/proc/{pids['VLLM::Short']}").exists():
            assert time.monotonic() < limit
            rest(0.02)

    rest, asked = time.sleep, []
    monkeypatch.setattr(leftovers.time, "sleep", meanwhile)
    settled = {left.pid for left in find_settled_leftovers(1.5)}
    monkeypatch.undo()
    assert asked == [1.5]
    assert pids["VLLM::Long"] in settled
    assert pids["VLLM::Short"] not in settled


def test_a_program_that_cannot_be_seen_may_be_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = {pid: leftovers._Process(pid=pid, parent=1, name=name, started_at=1.0) for pid, name in NAMED.items()}
    engine = leftovers._Process(pid=2**22 + 2, parent=2**22 + 1, name="VLLM::EngineCor", started_at=1.0)
    monkeypatch.setattr(leftovers, "_processes", lambda: {**hidden, engine.pid: engine})
    assert find_leftovers() == ()
    monkeypatch.setattr(leftovers, "_processes", lambda: {engine.pid: engine})
    assert [left.pid for left in find_leftovers()] == [engine.pid]


NAMED = {2**22 + 1: "wrapper"}
"""Above every pid that Linux gives out, so that nothing is to be seen of it."""


def test_one_that_comes_up_meanwhile_has_not_been_there_long_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = (leftovers.Leftover(pid=7, title="VLLM::W", started_at=at, gpu_bytes={}) for at in (1.0, 2.0))
    looks = iter([(old,), (old, new)])
    monkeypatch.setattr(leftovers, "find_leftovers", lambda: next(looks))
    assert find_settled_leftovers(0.0) == (old,)
