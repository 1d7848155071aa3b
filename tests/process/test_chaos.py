"""Faults of a server's processes at every stage of its life: nothing is left, and the cause has a name."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
import pytest

from cockpit.cli import main as cli
from cockpit.launch.types import LaunchPlan
from cockpit.supervisor import boot_watch, process, ready, store
from cockpit.supervisor.boot_watch import BootWatch
from cockpit.supervisor.ending import ending
from cockpit.supervisor.log_bounds import bound
from cockpit.supervisor.ready import note_descendants, probe, state_of
from cockpit.supervisor.record import Segment
from cockpit.supervisor.shared_memory import segments_of
from cockpit.supervisor.spawn import attach, start
from cockpit.supervisor.stop import stop

from .conftest import PATIENCE, until_settled, wait_for
from .family import BOOTS, FAMILY, NAME, at_stage, begun, member, nothing_left, segments

Plans = Callable[..., LaunchPlan]


@pytest.mark.fault("SIGKILL of the server process", "dead by SIGKILL; its engine and worker end with the record")
@pytest.mark.parametrize("stage", BOOTS)
def test_the_server_is_killed(make_plan: Plans, stage: str) -> None:
    running = start(make_plan(*FAMILY, "--boot-seconds", BOOTS[stage]))
    at_stage(running, stage)
    with nothing_left(running):
        os.kill(member(running, "server").pid, signal.SIGKILL)
        assert wait_for(lambda: probe(running) == "dead")
        assert ending(store.load(NAME).exit_code) == "exit code -9: killed by signal 9 (SIGKILL)"
        # Another cockpit, which knows the record alone.
        assert len(process.members_of(store.load(NAME))) == 2
        assert stop(store.load(NAME)).stopped


@pytest.mark.fault("SIGKILL of the server and all of its group", "dead; the shared memory on record is unlinked")
def test_the_whole_group_is_killed(make_plan: Plans, capsys: pytest.CaptureFixture[str]) -> None:
    running = start(make_plan(*FAMILY))
    at_stage(running, "ready")
    assert {Path(one.path) for one in store.load(NAME).segments} == set(segments(running.record))
    with nothing_left(running):
        os.killpg(member(running, "server").pid, signal.SIGKILL)
        assert wait_for(lambda: probe(running) == "dead" and not process.members_of(running.record))
        left = segments(running.record)
        assert all(path.exists() for path in left)
        capsys.readouterr()
        assert cli.main(("ps", "--json")) == 0
        (row,) = (one for one in json.loads(capsys.readouterr().out) if one["kind"] == "own")
        assert row["segments"] == sorted(map(str, left)) and row["orphans"] == []
        assert cli.main(("ps",)) == 0
        assert f"{NAME} left shared memory that nobody uses" in capsys.readouterr().err
        assert cli.main(("stop", "--orphans", "--json")) == 0
        assert [one["segments_removed"] for one in json.loads(capsys.readouterr().out)] == [2]


@pytest.mark.fault(
    "SIGKILL of an engine whose shared memory nobody else maps", "it stays on record, and goes with it"
)
def test_a_segment_whose_process_is_gone_stays_on_record_until_it_is_gone(make_plan: Plans) -> None:
    running = start(make_plan(*FAMILY[:3]))
    at_stage(running, "loading")
    recorded = store.load(NAME).segments
    assert len(recorded) == 2
    (lost,) = segments_of([member(running, "engine")])
    os.kill(member(running, "engine").pid, signal.SIGKILL)
    assert wait_for(lambda: len(process.members_of(running.record)) == 2)
    note_descendants(running)
    assert store.load(NAME).segments == recorded
    path = Path(lost.path)
    path.unlink()
    path.write_text("of another, who got the name")
    note_descendants(running)
    assert store.load(NAME).segments == tuple(one for one in recorded if one != lost)
    assert stop(store.load(NAME)).segments_removed == 1
    assert path.read_text() == "of another, who got the name"
    path.unlink()


@pytest.mark.fault("SIGKILL of EngineCore", "dead with vLLM's own exit code, the log names the engine")
@pytest.mark.parametrize("stage", ["loading", "ready"])
def test_the_engine_is_killed(make_plan: Plans, stage: str) -> None:
    running = start(make_plan(*FAMILY, "--boot-seconds", BOOTS[stage]))
    at_stage(running, stage)
    watch = BootWatch(running)
    with nothing_left(running):
        os.kill(member(running, "engine").pid, signal.SIGKILL)
        assert wait_for(lambda: probe(running) == "dead")
        seen = watch.tick()
        assert seen.life == "dead" and seen.exit_code == {"loading": 1, "ready": 0}[stage]
        assert any("EngineDeadError" in line for line in seen.lines)
        assert stop(store.load(NAME)).stopped


@pytest.mark.fault("SIGKILL of a worker", "the server goes on or ends by itself; a stop leaves nothing")
@pytest.mark.parametrize("stage", ["loading", "ready"])
def test_a_worker_is_killed(make_plan: Plans, stage: str) -> None:
    running = start(make_plan(*FAMILY, "--boot-seconds", BOOTS[stage]))
    at_stage(running, stage)
    with nothing_left(running):
        os.kill(member(running, "worker").pid, signal.SIGKILL)
        assert stop(running).stopped


STARTER = """
import sys, time, msgspec
from cockpit.launch.types import LaunchPlan
from cockpit.supervisor import boot_watch, process, spawn, stop, store
moment = sys.argv[2]
def hold(*_, **__):
    print("now", flush=True)
    time.sleep(600)
if moment == "before the spawn":
    spawn._spawn = hold
if moment == "before the pid":
    process.identity = hold
running = spawn.start(msgspec.json.decode(sys.argv[1], type=LaunchPlan))
if moment == "loading":
    hold()
*_, last = boot_watch.wait_ready(running, 600)
assert last.life == "ready"
if moment == "ready":
    hold()
stop.stop(running, lambda text: hold(), grace_seconds=60)
"""


@pytest.mark.fault("SIGKILL of the cockpit", "the next one finds the server by its record, adopts it and stops it")
@pytest.mark.parametrize("moment", ["before the spawn", "before the pid", "loading", "ready", "amid a stop"])
def test_the_cockpit_is_killed(make_plan: Plans, moment: str) -> None:
    boot = "0.2" if moment in ("ready", "amid a stop") else "1"
    plan = make_plan(*FAMILY, "--ignore-sigterm", "--boot-seconds", boot)
    cockpit = subprocess.Popen(
        [sys.executable, "-c", STARTER, msgspec.json.encode(plan).decode(), moment], stdout=subprocess.PIPE
    )
    assert cockpit.stdout is not None and cockpit.stdout.readline() == b"now\n"
    cockpit.send_signal(signal.SIGKILL)
    cockpit.wait()
    cockpit.stdout.close()
    record = store.load(NAME)
    adopted = attach(record)
    if moment == "before the spawn":
        # Nothing runs. For a while its cockpit could be about to spawn, then it is dead, and can be cleared away.
        young = msgspec.structs.replace(record, created_at=time.time())
        assert state_of(young) == "starting" and process.members_of(record) == ()
        store.save(msgspec.structs.replace(record, created_at=record.created_at - 60))
        assert state_of(store.load(NAME)) == "dead"
    else:
        assert begun(adopted)
        if moment == "amid a stop":
            assert state_of(record) == "stopping"
        else:
            assert until_settled(adopted).life == "ready"
            assert state_of(store.load(NAME)) == "ready"
    with nothing_left(adopted):
        assert stop(store.load(NAME), grace_seconds=1).stopped


@pytest.mark.fault("a port taken between the check and the bind", "dead, with its cause: address already in use")
def test_the_port_is_stolen(make_plan: Plans, free_port: int) -> None:
    with socket.socket() as thief:
        thief.bind(("127.0.0.1", free_port))
        thief.listen()
        running = start(make_plan(*FAMILY))
        seen = until_settled(running)
        assert seen.life == "dead" and seen.exit_code == 1
        assert seen.boot.first_exception == "OSError: [Errno 98] Address already in use"
        with nothing_left(running):
            assert stop(running).stopped


@pytest.mark.fault("a log that is flooded without end", "bounded on disk, followed, and the boot in it stays")
def test_a_flood_is_bounded(make_plan: Plans, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boot_watch, "bound", partial(bound, most_bytes=1 << 18, head_bytes=1 << 14))
    running = start(make_plan(*FAMILY, "--chatty"))
    watch = BootWatch(running)
    log = Path(running.record.log)
    cuts = largest = 0
    limit = time.monotonic() + 2 * PATIENCE
    while cuts < 5 and time.monotonic() < limit:
        before = log.stat().st_size
        watch.tick()
        cuts += log.stat().st_size < before
        largest = max(largest, log.with_name(f"{log.name}.1").stat().st_size if cuts else 0)
        time.sleep(0.02)
    assert cuts == 5 and largest < 4 << 20
    assert "Resolved architecture" in log.read_text(encoding="utf-8")
    with nothing_left(running):
        assert stop(running).stopped


@pytest.mark.fault("the server stops answering", "listed as running without an answer; a stop ends it")
@pytest.mark.parametrize("how", ["requests hang", "process stopped by SIGSTOP"])
def test_the_server_hangs(make_plan: Plans, how: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    running = start(make_plan(*FAMILY, "--hangs-when", str(tmp_path / "hung")))
    at_stage(running, "ready")
    if how == "requests hang":
        (tmp_path / "hung").touch()
    else:
        os.kill(member(running, "server").pid, signal.SIGSTOP)
    assert wait_for(lambda: not ready.answers_health(running.record.url))
    assert cli.main(("ps",)) == 0
    shown = capsys.readouterr()
    assert "ready" in shown.out and f"{NAME} runs and does not answer" in shown.err
    with nothing_left(running):
        said: list[str] = []
        assert stop(running, said.append, grace_seconds=5).stopped
        assert how == "requests hang" or any("waiting for the server to end" in line for line in said)


@pytest.mark.fault("a record that names a file as shared memory", "only segments in /dev/shm are unlinked")
def test_a_file_that_a_record_calls_shared_memory_stays(make_plan: Plans, tmp_path: Path) -> None:
    running = start(make_plan())
    file = tmp_path / "psm_mine"
    file.write_text("precious")
    link = Path("/dev/shm") / f"psm_link{os.getpid()}"
    link.symlink_to(file)
    try:
        named = tuple(Segment(str(path), path.stat().st_ino) for path in (file, link))
        up = Segment(f"/dev/shm/../..{file}", file.stat().st_ino)
        running.update(segments=(*named, up))
        with nothing_left(running):
            assert stop(store.load(NAME)).segments_removed == 0
        assert file.read_text() == "precious" and link.is_symlink()
    finally:
        link.unlink()
