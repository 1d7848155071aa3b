"""The clock of the host is set while a server boots: times, silences and what is remembered stay right."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cockpit.launch.types import LaunchPlan
from cockpit.supervisor import boot_history, process, store
from cockpit.supervisor.boot import BootLog
from cockpit.supervisor.boot_clock import BootClock, boot_seconds
from cockpit.supervisor.boot_state import BootFacts, BootState
from cockpit.supervisor.boot_watch import BootWatch, wait_ready
from cockpit.supervisor.silence_watch import SilenceWatch
from cockpit.supervisor.spawn import start
from cockpit.supervisor.stop import stop

from .conftest import wait_for

Plans = Callable[..., LaunchPlan]
HOUR, YEAR = 3600.0, 366 * 86400.0
LOADING = BootState(stages=(), current="weights", facts=BootFacts(), ready=False, first_exception=None)


class Clock:
    """The clock of this process, ``ahead`` of the real one; the server has the real one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, ahead: float) -> None:
        real = time.time
        self.ahead = ahead
        monkeypatch.setattr(time, "time", lambda: real() + self.ahead)


@pytest.mark.fault(
    "the clock is set during a boot", "its seconds, its stages and what is remembered of it stay right"
)
@pytest.mark.parametrize("ahead", [HOUR, -HOUR, YEAR, -YEAR, 3.0, -3.0])
def test_a_boot_during_which_the_clock_is_set(
    make_plan: Plans, monkeypatch: pytest.MonkeyPatch, ahead: float, tmp_path: Path
) -> None:
    clock = Clock(monkeypatch, ahead)
    options = ("--boot-seconds", "1", "--boots-when", str(tmp_path / "booted"))
    began = time.monotonic()
    running = start(make_plan(*options, engine_version="0.32.0", gpu_model="CPU"))
    watch = BootWatch(running)
    seen = [watch.tick()]
    clock.ahead = 0.0
    (tmp_path / "booted").touch()
    while seen[-1].life == "starting":
        seen.append(watch.tick())
        time.sleep(0.1)
    took = time.monotonic() - began
    assert seen[-1].life == "ready" and seen[-1].boot.ready
    assert not [one.seconds for one in seen if not 0 <= one.seconds <= took + 2]
    assert all(one.silence is None or not one.silence.alarm for one in seen)
    stages = seen[-1].boot.stages
    assert all(0 <= (stage.seconds or 0.0) <= took + 4 for stage in stages)
    record = store.load("cpu-fake")
    assert record.boot_seconds is not None and 1 <= record.boot_seconds <= took + 2
    (past,) = boot_history.remembered("cpu/fake").boots
    assert past.seconds == pytest.approx(record.boot_seconds, abs=0.01)
    stop(running)


def test_a_boot_that_nobody_looked_at_took_what_its_log_says_and_not_until_somebody_came(make_plan: Plans) -> None:
    running = start(make_plan("--boot-seconds", "1", engine_version="0.32.0", gpu_model="CPU"))
    assert wait_for(lambda: "startup complete" in Path(running.record.log).read_text())
    running.note(ready_at=running.record.created_at + HOUR, boot_seconds=HOUR)
    seen = BootWatch(running).tick()
    assert seen.life == "ready" and 0 <= seen.seconds < 60  # stamps have whole seconds
    (past,) = boot_history.remembered("cpu/fake").boots
    assert past.seconds == pytest.approx(seen.seconds, abs=0.01)
    stop(running)


def test_a_cockpit_that_comes_after_the_clock_was_set_knows_how_old_a_boot_is(
    make_plan: Plans, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch, -HOUR)
    began = time.monotonic()
    running = start(make_plan("--no-listen"))
    time.sleep(0.5)
    clock.ahead = HOUR
    assert 0.4 <= BootClock(running.record).seconds <= time.monotonic() - began + 2
    first, *_ = wait_ready(running, 0.5)
    assert 0.4 <= first.seconds <= time.monotonic() - began + 2
    stop(running, grace_seconds=4)


def test_an_end_in_the_past_is_no_negative_boot(make_plan: Plans) -> None:
    running = start(make_plan("--die-at", "0.1", "--boot-seconds", "3600"))
    assert wait_for(lambda: running.poll() is not None)
    running.note(ended_at=running.record.created_at - HOUR)
    assert BootWatch(running).tick().seconds == 0.0
    running.note(ready_at=running.record.created_at - HOUR)
    assert boot_seconds(running.record) == 0.0


@pytest.mark.parametrize("ago", [HOUR, -HOUR, YEAR])
def test_a_log_that_was_written_to_at_another_time_is_silent_no_longer_than_its_server_is_old(
    make_plan: Plans, ago: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = start(make_plan("--no-listen"))
    assert wait_for(lambda: "Resolved architecture" in Path(running.record.log).read_text())  # its last line
    now = time.time()
    os.utime(running.record.log, (now - ago, now - ago))
    watch = SilenceWatch(running.record, {})
    heard: list[float] = []
    monkeypatch.setattr("cockpit.supervisor.silence_watch.silence_of", lambda *seen: heard.append(seen[1]))
    watch.tick(running.record, 100, LOADING, 50.0)
    watch.tick(running.record, 100, LOADING, 51.0)
    assert heard == [51.0 if ago > 0 else 1.0]
    stop(running, grace_seconds=4)


def test_the_age_of_a_process_is_that_of_the_kernel(make_plan: Plans, monkeypatch: pytest.MonkeyPatch) -> None:
    running = start(make_plan("--no-listen"))
    who = running.record.process
    assert who is not None
    Clock(monkeypatch, YEAR)
    began = time.monotonic()
    first = process.age_seconds(who)
    time.sleep(0.3)
    second = process.age_seconds(who)
    assert first is not None and second is not None and 0.2 < second - first < time.monotonic() - began + 0.1
    stop(running, grace_seconds=4)
    assert process.age_seconds(who) is None


def test_stages_never_run_backwards(tmp_path: Path) -> None:
    spawned = time.mktime(time.strptime("2026-11-30 12:00:00", "%Y-%m-%d %H:%M:%S"))
    log = BootLog(spawned)
    said = "(EngineCore pid=1) INFO 11-30 12:{}:00 [x.py:1] {}"
    log.feed([said.format("10", "Resolved architecture: A")], spawned + 700)
    log.feed([said.format("05", "Starting to load model /m...")], spawned + 720)
    log.feed([said.format("06", "Model loading took 1.0 GiB memory and 1.0 seconds")], spawned + 800)
    assert all((stage.seconds or 0.0) >= 0 for stage in log.snapshot().stages)
