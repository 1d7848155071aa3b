"""The host is suspended while a server boots: times agree, it is said, and nothing is learned or alarmed by it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cockpit.launch.types import LaunchPlan
from cockpit.supervisor import boot_history, store
from cockpit.supervisor.boot_clock import BootClock
from cockpit.supervisor.boot_state import BootFacts, BootState
from cockpit.supervisor.boot_watch import BootWatch, Progress
from cockpit.supervisor.silence_watch import SilenceWatch
from cockpit.supervisor.spawn import attach, start
from cockpit.supervisor.stop import stop

from .conftest import wait_for

Plans = Callable[..., LaunchPlan]
HOUR = 3600.0
LOADING = BootState(stages=(), current="weights", facts=BootFacts(), ready=False, first_exception=None)


class Host:
    """Suspends itself as far as this process and the fake server can tell: their clocks jump, but for one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
        self._slept = self.slept_before = 0.0
        self._file = file
        real, real_clock = time.time, time.clock_gettime
        monkeypatch.setattr(time, "time", lambda: real() + self._slept)
        ahead = {time.CLOCK_BOOTTIME: lambda: self._slept, time.CLOCK_MONOTONIC: lambda: -self.slept_before}
        monkeypatch.setattr(time, "clock_gettime", lambda clock: real_clock(clock) + ahead[clock]())
        monkeypatch.setenv("FAKE_SLEPT", str(file))

    def sleep(self, seconds: float) -> None:
        self._slept += seconds
        self._file.write_text(str(self._slept), encoding="ascii")


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Host:
    return Host(monkeypatch, tmp_path / "slept")


def until_ready(watch: BootWatch) -> list[Progress]:
    seen = [watch.tick()]
    while seen[-1].life == "starting":
        time.sleep(0.1)
        seen.append(watch.tick())
    return seen


@pytest.mark.fault(
    "the host is suspended during a boot", "stages and total agree, it is said, and no later boot is held to it"
)
def test_a_boot_during_which_the_host_sleeps(make_plan: Plans, host: Host) -> None:
    host.slept_before = 7 * HOUR
    plan = make_plan("--unhealthy", engine_version="0.32.0", gpu_model="CPU")
    running = start(plan)
    assert running.record.process is not None
    watch = BootWatch(running)
    seen = [watch.tick()]
    host.sleep(HOUR)
    seen.append(watch.tick())
    assert wait_for(lambda: "startup complete" in Path(running.record.log).read_text())
    os.kill(running.record.process.pid, signal.SIGUSR1)
    seen += until_ready(watch)
    assert seen[-1].life == "ready" and seen[-1].boot.ready
    assert all(one.silence is None or not one.silence.alarm for one in seen)
    told = [one.problem for one in seen if one.problem and "slept" in one.problem]
    assert len(told) == 1 and told[0].startswith("the host slept for 1 h 00 m of")
    total = sum(stage.seconds or 0.0 for stage in seen[-1].boot.stages)
    assert HOUR <= seen[-1].seconds < 2 * HOUR and total == pytest.approx(seen[-1].seconds, abs=30)
    record = store.load("cpu-fake")
    assert record.boot_slept == pytest.approx(HOUR, abs=1) and record.boot_seconds is not None
    assert record.boot_seconds >= HOUR and boot_history.remembered("cpu/fake").boots == ()
    stop(running)


def test_a_boot_before_which_the_host_slept_counts(make_plan: Plans, host: Host) -> None:
    host.slept_before = HOUR
    running = start(make_plan(engine_version="0.32.0", gpu_model="CPU"))
    seen = until_ready(BootWatch(running))
    assert not any("slept" in (one.problem or "") for one in seen) and seen[-1].seconds < HOUR
    assert len(boot_history.remembered("cpu/fake").boots) == 1
    host.sleep(HOUR)
    assert BootWatch(attach(store.load("cpu-fake"))).tick().seconds < HOUR, "it was up by then"
    stop(running)


def test_a_cockpit_that_comes_after_the_sleep_knows_of_it(make_plan: Plans, host: Host) -> None:
    running = start(make_plan("--no-listen"))
    host.sleep(HOUR)
    clock = BootClock(store.load("cpu-fake"))
    assert clock.slept == pytest.approx(HOUR, abs=1) and clock.seconds >= HOUR and clock.awake < HOUR
    first = BootWatch(attach(store.load("cpu-fake"))).tick()
    assert first.problem is not None and "the host slept for 1 h 00 m of" in first.problem and first.seconds >= HOUR
    stop(running, grace_seconds=4)


@pytest.mark.parametrize("late", [False, True], ids=["a watch that was there", "a watch that came later"])
def test_slept_seconds_are_no_silence(
    make_plan: Plans, host: Host, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = start(make_plan("--no-listen"))
    heard: list[float] = []
    monkeypatch.setattr("cockpit.supervisor.silence_watch.silence_of", lambda *seen: heard.append(seen[1]))
    clock, watch = BootClock(running.record), SilenceWatch(running.record, {})
    if not late:
        watch.tick(running.record, 100, LOADING, clock.awake, clock.slept)
    host.sleep(HOUR)
    for _ in range(2):
        watch.tick(running.record, 100, LOADING, clock.awake, clock.slept)
    assert heard and max(heard) < HOUR / 2
    stop(running, grace_seconds=4)
