"""Stopping real processes: nothing of the instance is left, and no stranger is hit."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from cockpit.cli import main as cli
from cockpit.launch.types import LaunchPlan
from cockpit.supervisor import process, store
from cockpit.supervisor import stop as stopping
from cockpit.supervisor.ready import probe, state_of
from cockpit.supervisor.record import ProcessIdentity
from cockpit.supervisor.spawn import Running, attach, start
from cockpit.supervisor.stop import stop

from .conftest import PATIENCE, pids_of_session, titled, until_settled, wait_for

Plans = Callable[..., LaunchPlan]


def root_of(running: Running) -> ProcessIdentity:
    assert running.record.process is not None
    return running.record.process


def forked(running: Running, count: int) -> bool:
    """Wait until the server has that many descendants, each with its title."""
    return wait_for(lambda: titled(running.record) == count + 1)


def heard_in(events: list[str]) -> Callable[[str], None]:
    """Keeps what a stop says, but for how long a slow machine is waited for."""
    return lambda event: None if event.startswith("waiting for") else events.append(event)


def test_a_ready_server_ends_by_sigterm_and_only_its_log_stays(make_plan: Plans) -> None:
    running = start(make_plan())
    until_settled(running)
    events: list[str] = []
    result = stop(running, heard_in(events), grace_seconds=4 * PATIENCE)
    assert result.stopped and result.exit_code == 0 and result.orphans == ()
    assert events == [f"sent SIGTERM to process {root_of(running).pid}"]
    assert store.load_all() == ([], [])
    assert Path(running.record.log).stat().st_size > 0


def test_a_loading_server_that_swallows_sigterm_ends_by_sigint(
    make_plan: Plans, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = start(make_plan("--swallow-sigterm-while-loading", "--boot-seconds", "3600"))
    assert wait_for(lambda: Path(running.record.log).stat().st_size > 0)
    monkeypatch.setattr(stopping, "_INTERRUPT_PAUSES_SECONDS", (PATIENCE, PATIENCE))
    events: list[str] = []
    result = stop(running, heard_in(events), grace_seconds=4 * PATIENCE)
    assert result.stopped and result.exit_code == -signal.SIGINT
    assert events == [f"sent SIGINT to process {root_of(running).pid}"]  # at once, and once


def test_a_loading_server_that_ends_at_the_third_sigint_is_not_waited_for_until_it_is_killed(
    make_plan: Plans,
) -> None:
    running = start(make_plan("--third-sigint", "--fork-children", "1", "--boot-seconds", "3600"))
    assert forked(running, 2)
    events: list[str] = []
    log = Path(running.record.log)

    def say(event: str) -> None:
        events.append(event)
        if f"SIGINT to process {root_of(running).pid}" in event:  # two that come at once count as one
            assert wait_for(lambda: f"SIGINT {sum(map(event.__eq__, events))}" in log.read_text(encoding="utf-8"))

    result = stop(running, say)
    assert result.stopped and result.exit_code == -signal.SIGINT
    assert [event for event in events if str(root_of(running).pid) in event] == [
        f"sent SIGINT to process {root_of(running).pid}"
    ] * 3


def test_a_loading_server_that_has_begun_to_end_is_not_interrupted(make_plan: Plans) -> None:
    running = start(make_plan("--ignore-sigterm", "--fork-children", "1", "--boot-seconds", "3600"))
    assert forked(running, 2)
    (engine, *_) = (who for who in process.members_of(running.record) if process.is_engine(who))
    events: list[str] = []

    def say(event: str) -> None:
        events.append(event)
        if "SIGINT" in event:
            os.kill(engine.pid, signal.SIGKILL)
            assert wait_for(lambda: not process.is_alive(engine))

    assert stop(running, say, grace_seconds=4).stopped
    assert sum("SIGINT" in event for event in events) == 2, "the first, and the one half-way"


def test_a_server_that_still_imports_ends_by_sigterm_at_once(make_plan: Plans) -> None:
    running = start(make_plan("--importing", "--boot-seconds", "3600"))
    assert wait_for(lambda: Path(running.record.log).stat().st_size > 0)
    events: list[str] = []
    result = stop(running, heard_in(events), grace_seconds=4 * PATIENCE)
    assert result.stopped and result.exit_code == -signal.SIGTERM
    assert events == [f"sent SIGTERM to process {root_of(running).pid}"]


def test_a_server_that_ignores_all_signals_is_killed_with_its_group(make_plan: Plans) -> None:
    running = start(make_plan("--ignore-sigterm", "--fork-children", "2", "--stubborn-children"))
    until_settled(running)
    assert forked(running, 3)
    events: list[str] = []
    result = stop(running, events.append, grace_seconds=1)
    assert result.stopped and result.exit_code == -signal.SIGKILL
    assert any("killing its group" in event for event in events)
    assert sum("SIGINT" in event for event in events) == 1  # repeated once, half-way
    assert pids_of_session(root_of(running).pid) == []


@pytest.mark.parametrize("options", [(), ("--fork-setsid",), ("--fork-setsid", "--stubborn-children")])
def test_every_child_is_gone_after_a_stop_whatever_its_session(make_plan: Plans, options: tuple[str, ...]) -> None:
    running = start(make_plan("--fork-children", "3", *options))
    until_settled(running)
    assert forked(running, 4)
    family = process.members_of(running.record)
    result = stop(running)
    assert result.stopped
    assert [who.pid for who in family if process.is_alive(who)] == []


@pytest.mark.parametrize("options", [(), ("--fork-setsid",)])
def test_the_orphans_of_a_killed_server_are_found_and_ended_by_another_cockpit(
    make_plan: Plans, options: tuple[str, ...]
) -> None:
    running = start(make_plan("--fork-children", "2", *options))
    until_settled(running)
    assert forked(running, 3)
    family = process.members_of(running.record)
    os.kill(root_of(running).pid, signal.SIGKILL)
    assert wait_for(lambda: probe(running) == "dead")
    record = store.load("cpu-fake")
    assert record.exit_code == -signal.SIGKILL and state_of(record) == "dead"
    # as a cockpit that knows nothing but this record, not even descendants
    bare = msgspec.structs.replace(record, descendants=())
    store.save(bare)
    assert len(process.members_of(bare)) == 3
    assert stop(bare).stopped
    assert not any(process.is_alive(who) for who in family)
    assert store.load_all() == ([], [])


def test_a_dead_instance_is_cleaned_by_stop(make_plan: Plans) -> None:
    running = start(make_plan("--die-at", "0.1", "--boot-seconds", "3600"))
    until_settled(running)
    result = stop(store.load("cpu-fake"))
    assert result.stopped and result.exit_code == 1
    assert (result.was_dead, result.left_processes, result.segments_removed) == (True, 0, 0)
    assert result.log == running.record.log
    assert store.load_all() == ([], [])


def test_stop_of_a_dead_server_says_what_was_cleared_away(
    make_plan: Plans, capsys: pytest.CaptureFixture[str]
) -> None:
    running = start(make_plan("--fork-children", "2", "--stubborn-children", "--shared-memory"))
    until_settled(running)
    assert forked(running, 3)
    assert wait_for(lambda: Path(running.record.log).read_text(encoding="utf-8").count("holds psm_") == 3)
    os.kill(root_of(running).pid, signal.SIGKILL)
    assert wait_for(lambda: probe(running) == "dead")
    assert cli.main(("stop", "cpu-fake")) == 0
    said = capsys.readouterr().out
    assert said.startswith("cpu-fake was dead already; cleared away: its record, 3 processes, ")
    assert "of shared memory. Its log stays: " in said and running.record.log in said
    living = start(make_plan())
    until_settled(living)
    assert cli.main(("stop", "cpu-fake")) == 0
    assert re.fullmatch(r"cpu-fake stopped after \d+\.\d s\n", capsys.readouterr().out)


def test_leaked_shared_memory_of_a_killed_server_is_removed_and_no_other(make_plan: Plans) -> None:
    from multiprocessing import shared_memory

    foreign = shared_memory.SharedMemory(create=True, size=64)
    try:
        running = start(make_plan("--ignore-sigterm", "--fork-children", "1", "--shared-memory"))
        until_settled(running)
        log = Path(running.record.log)
        assert wait_for(lambda: log.read_text(encoding="utf-8").count("holds psm_") == 2)
        held = [Path("/dev/shm", name) for name in re.findall(r"psm_\w+", log.read_text(encoding="utf-8"))]
        assert all(path.exists() for path in held)
        assert stop(running, grace_seconds=0.4).stopped
        assert not any(path.exists() for path in held)
        assert Path("/dev/shm", foreign.name).exists()
    finally:
        foreign.close()
        foreign.unlink()


def test_a_recycled_pid_is_neither_alive_nor_signalled(make_plan: Plans) -> None:
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    try:
        now = process.identity(stranger.pid)
        assert now is not None
        before = ProcessIdentity(pid=stranger.pid, start_time=now.start_time - 100)
        running = start(make_plan("--die-at", "0.1", "--boot-seconds", "3600"))
        until_settled(running)
        record = msgspec.structs.replace(
            running.record, process=before, descendants=(before,), ended_at=None, exit_code=None, ready_at=1.0
        )
        store.save(record)
        assert not process.is_alive(before)
        assert not process.send_signal(before, signal.SIGKILL)
        assert process.members_of(record) == ()
        assert state_of(record) == "dead"
        assert stop(record).stopped
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_changed_clock_does_not_hide_a_process() -> None:
    me = process.identity(os.getpid())
    assert me is not None and me.birth
    moved = msgspec.structs.replace(me, start_time=me.start_time + 3600)
    assert process.is_alive(moved)
    assert not process.is_alive(msgspec.structs.replace(moved, birth=""))


def test_a_zombie_is_gone() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    assert wait_for(lambda: process.identity(child.pid) is None)
    assert process.identity(child.pid, zombies=True) is not None
    child.wait()
    assert process.identity(child.pid, zombies=True) is None


STARTER = """
import sys, time, msgspec
from cockpit.launch.types import LaunchPlan
from cockpit.supervisor import process, spawn
if sys.argv[2] == "before-pid":
    process.identity = lambda *a, **k: (print("spawned", flush=True), time.sleep(60))
running = spawn.start(msgspec.json.decode(sys.argv[1], type=LaunchPlan))
print("spawned", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("moment", ["after-pid", "before-pid"])
def test_a_killed_cockpit_leaves_its_server_to_the_next_one(make_plan: Plans, moment: str) -> None:
    plan = msgspec.json.encode(make_plan("--fork-children", "1", "--boot-seconds", "0.5")).decode()
    cockpit = subprocess.Popen([sys.executable, "-c", STARTER, plan, moment], stdout=subprocess.PIPE)
    assert cockpit.stdout is not None and cockpit.stdout.readline() == b"spawned\n"
    cockpit.send_signal(signal.SIGKILL)
    cockpit.wait()
    cockpit.stdout.close()
    record = store.load("cpu-fake")
    assert (record.process is None) == (moment == "before-pid")
    adopted = attach(record)
    last = until_settled(adopted)
    assert last.life == "ready", (last.diagnosis, adopted.record)
    assert state_of(store.load("cpu-fake")) == "ready"
    pid = root_of(adopted).pid
    result = stop(store.load("cpu-fake"))
    assert result.stopped and result.exit_code is None
    assert pids_of_session(pid) == [] and store.load_all() == ([], [])


def test_a_record_whose_server_was_never_spawned_is_dead_and_cleanable(make_plan: Plans) -> None:
    running = start(make_plan("--die-at", "0", "--boot-seconds", "3600"))
    until_settled(running)
    never = msgspec.structs.replace(running.record, process=None, descendants=(), ended_at=None, exit_code=None)
    never = msgspec.structs.replace(never, created_at=time.time())
    store.save(never)
    assert state_of(never) == "starting"  # its cockpit may be about to spawn it
    old = msgspec.structs.replace(never, created_at=time.time() - 60)
    store.save(old)
    assert state_of(old) == "dead"
    assert stop(store.load("cpu-fake")).stopped
    assert store.load_all() == ([], [])


def test_a_server_being_stopped_says_so(make_plan: Plans) -> None:
    running = start(make_plan())
    until_settled(running)
    running.update(stop_requested_at=time.time())
    assert state_of(running.record) == "stopping"
    running.update(stop_requested_at=time.time() - 3600)
    assert state_of(running.record) == "ready"
    assert stop(running).stopped


def test_two_cockpits_may_stop_the_same_server(make_plan: Plans) -> None:
    running = start(make_plan())
    until_settled(running)
    record = store.load("cpu-fake")
    assert stop(running).stopped
    assert stop(record).stopped
    assert probe(Running(record)) == "dead"
    assert store.load_all() == ([], [])  # nobody brought the record back
