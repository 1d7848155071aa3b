"""What real processes do, as the boot's watch sees it."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from cockpit.launch.types import LaunchPlan
from cockpit.supervisor import boot_evidence, silence_watch
from cockpit.supervisor.boot_evidence import EvidenceReader
from cockpit.supervisor.boot_watch import wait_ready
from cockpit.supervisor.process import members_of
from cockpit.supervisor.record import ProcessIdentity
from cockpit.supervisor.silence import Evidence
from cockpit.supervisor.spawn import Running, start
from cockpit.supervisor.stop import stop

from .conftest import PATIENCE

Plans = Callable[..., LaunchPlan]
SPIN = "import os\nif os.fork():\n  while True: sum(range(9999))\nelse:\n  while True: sum(range(9999))"
DOWNLOAD = """
import pathlib, sys, time
file = pathlib.Path(sys.argv[1]); file.parent.mkdir(parents=True)
with file.open("wb") as handle:
    while True:
        handle.write(b"x" * 100_000); handle.flush(); time.sleep(0.02)
"""


def evidence(running: Running, enough: Callable[[Evidence], bool]) -> Evidence:
    """What is seen between two looks, once it is enough; on a busy machine that may take some."""
    reader = EvidenceReader()
    assert reader.look(running.record) is None
    limit = time.monotonic() + PATIENCE
    while True:
        time.sleep(0.6)
        seen = reader.look(running.record)
        assert seen is not None and time.monotonic() < limit, seen
        if enough(seen):
            return seen


def test_busy_processes_are_seen_busy_and_sleeping_ones_idle(make_plan: Plans) -> None:
    busy = start(make_plan(argv=(sys.executable, "-c", SPIN)))
    assert evidence(busy, lambda seen: (seen.cores or 0) > 0.1), "two loops, however busy the machine is otherwise"
    stop(busy)
    idle = start(make_plan("--boot-seconds", "3600", "--fork-children", "1"))
    seen = evidence(idle, lambda seen: seen.cores is not None and seen.cores < 0.1)
    assert not seen.stopped and seen.download is None and seen.compilers == ()
    stop(idle)


def test_a_growing_download_is_seen_with_its_repository(make_plan: Plans, tmp_path: Path) -> None:
    file = tmp_path / "hub" / "models--Qwen--Qwen3-8B" / "blobs" / "abc.incomplete"
    running = start(make_plan(argv=(sys.executable, "-c", DOWNLOAD, str(file))))
    seen = evidence(running, lambda seen: (seen.download_bytes_per_second or 0) > 100_000)
    assert seen.download == "Qwen/Qwen3-8B"
    stop(running)


def test_a_driver_that_hangs_makes_the_gpus_unknown_and_keeps_nobody_waiting(
    make_plan: Plans, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    released = threading.Event()

    def hang(indices: object) -> dict[int, float | None]:
        asked.append(indices)
        released.wait(PATIENCE)
        return {0: 1.0}

    monkeypatch.setattr(boot_evidence, "gpu_utilization", hang)
    monkeypatch.setattr(boot_evidence, "_PATIENCE_SECONDS", 0.1)
    running = start(make_plan("--boot-seconds", "3600", gpus=(0,)))
    reader = EvidenceReader()
    reader.look(running.record)
    for _ in range(3):
        time.sleep(0.01)
        seen = reader.look(running.record)
        assert seen is not None and seen.gpus == (None,)
    assert len(asked) == 1, "nobody asks a driver that has not answered"
    released.set()
    stop(running)


def test_a_stopped_server_is_told_while_it_is_waited_for(make_plan: Plans, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silence_watch, "_FIRST_LOOK_SECONDS", 0.2)
    monkeypatch.setattr(silence_watch, "_LOOK_EVERY_SECONDS", 0.3)
    running = start(make_plan("--boot-seconds", "3600"))
    time.sleep(0.5)
    assert running.record.process is not None
    psutil.Process(running.record.process.pid).send_signal(signal.SIGSTOP)
    for progress in wait_ready(running, PATIENCE):
        if progress.silence is not None:
            break
    assert progress.silence is not None and progress.silence.id == "stopped" and progress.silence.alarm
    psutil.Process(running.record.process.pid).send_signal(signal.SIGCONT)
    stop(running)


def test_a_process_that_ends_during_the_look_ends_nothing_else(
    make_plan: Plans, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = start(make_plan("--no-listen"))
    members = members_of(running.record)
    gone = ProcessIdentity(pid=2**22 + 1, start_time=1.0)
    monkeypatch.setattr(boot_evidence, "members_of", lambda _: (gone, *members))
    monkeypatch.setattr(psutil, "pid_exists", lambda _: True)
    assert EvidenceReader().look(running.record) is None
    assert stop(running, grace_seconds=4).stopped
