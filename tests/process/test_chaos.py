"""Faults at every stage of a server's life: nothing is left, the record is right, and the cause has a name."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import msgspec
import pytest
from faults import cycles

from cockpit import paths
from cockpit.cli import main as cli
from cockpit.errors import CockpitError
from cockpit.launch.types import LaunchPlan
from cockpit.supervisor import boot_watch, process, ready, store
from cockpit.supervisor.boot_watch import BootWatch
from cockpit.supervisor.ending import ending
from cockpit.supervisor.log_bounds import bound
from cockpit.supervisor.ready import note_descendants, probe, state_of
from cockpit.supervisor.record import InstanceRecord, ProcessIdentity
from cockpit.supervisor.shared_memory import segments_of
from cockpit.supervisor.spawn import Running, attach, start
from cockpit.supervisor.stop import stop

from .conftest import until_settled, wait_for

Plans = Callable[..., LaunchPlan]
FAMILY = ("--fork-children", "1", "--shared-memory", "--dies-with-engine")
"""A server, an engine, a worker, and two segments; it ends when its engine does, as vLLM."""
NAME = "cpu-fake"
PATIENCE = 30.0


def begun(running: Running) -> bool:
    """Wait until server, engine, worker and both segments are there."""

    def there() -> bool:
        return len(process.members_of(running.record)) == 3 and len(segments(running.record)) == 2

    return wait_for(there, PATIENCE)


def segments(record: InstanceRecord) -> list[Path]:
    """The shared memory that the log says it made."""
    try:
        said = Path(record.log).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return [Path("/dev/shm", name) for name in re.findall(r"holds (psm_\w+)", said)]


def member(running: Running, which: str) -> ProcessIdentity:
    """The server, the engine or the worker."""
    root, engine, worker = process.members_of(running.record)
    return {"server": root, "engine": engine, "worker": worker}[which]


@contextlib.contextmanager
def nothing_left(running: Running) -> Iterator[None]:
    """Whatever happens inside: in the end no process and no segment of the server is left, and no record."""
    family = process.members_of(running.record)
    held = segments(running.record)
    yield
    assert [who.pid for who in family if process.is_alive(who)] == []
    assert process.members_of(running.record) == ()
    assert [path for path in held if path.exists()] == []
    assert store.load_all() == ([], [])


def at_stage(running: Running, stage: str) -> None:
    """Bring a server to a stage, with a cockpit that looks on: loading, ready, or asked to stop."""
    assert begun(running)
    BootWatch(running).tick()
    if stage != "loading":
        assert until_settled(running, PATIENCE).life == "ready"
    if stage == "stopping":
        running.update(stop_requested_at=time.time())


BOOTS = {"loading": "60", "ready": "0.2", "stopping": "0.2"}


@pytest.mark.fault("SIGKILL of the server process", "dead by SIGKILL; its engine and worker end with the record")
@pytest.mark.parametrize("stage", BOOTS)
def test_the_server_is_killed(make_plan: Plans, stage: str) -> None:
    running = start(make_plan(*FAMILY, "--boot-seconds", BOOTS[stage]))
    at_stage(running, stage)
    with nothing_left(running):
        os.kill(member(running, "server").pid, signal.SIGKILL)
        assert wait_for(lambda: probe(running) == "dead", PATIENCE)
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
        assert wait_for(lambda: probe(running) == "dead" and not process.members_of(running.record), PATIENCE)
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
        assert wait_for(lambda: probe(running) == "dead", PATIENCE)
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
*_, last = boot_watch.wait_ready(running, 60)
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
        assert state_of(record) == "starting" and process.members_of(record) == ()
        store.save(msgspec.structs.replace(record, created_at=record.created_at - 60))
        assert state_of(store.load(NAME)) == "dead"
    else:
        assert begun(adopted)
        if moment == "amid a stop":
            assert state_of(record) == "stopping"
        else:
            assert until_settled(adopted, PATIENCE).life == "ready"
            assert state_of(store.load(NAME)) == "ready"
    with nothing_left(adopted):
        assert stop(store.load(NAME), grace_seconds=1).stopped


@pytest.mark.fault("a port taken between the check and the bind", "dead, with its cause: address already in use")
def test_the_port_is_stolen(make_plan: Plans, free_port: int) -> None:
    with socket.socket() as thief:
        thief.bind(("127.0.0.1", free_port))
        thief.listen()
        running = start(make_plan(*FAMILY))
        seen = until_settled(running, PATIENCE)
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
    limit = time.monotonic() + 120
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
def test_the_server_hangs(make_plan: Plans, how: str, capsys: pytest.CaptureFixture[str]) -> None:
    running = start(make_plan(*FAMILY, *(("--hang-after", "3") if how == "requests hang" else ())))
    at_stage(running, "ready")
    if how != "requests hang":
        os.kill(member(running, "server").pid, signal.SIGSTOP)
    assert wait_for(lambda: not ready.answers_health(running.record.url), PATIENCE)
    assert cli.main(("ps",)) == 0
    shown = capsys.readouterr()
    assert "ready" in shown.out and f"{NAME} runs and does not answer" in shown.err
    with nothing_left(running):
        said: list[str] = []
        assert stop(running, said.append, grace_seconds=5).stopped
        assert how == "requests hang" or any("waiting for the server to end" in line for line in said)


@pytest.mark.fault("a disk without room", "servers are listed and stopped all the same; a start is refused")
def test_the_disk_is_full(make_plan: Plans) -> None:
    running = start(make_plan(*FAMILY))
    assert begun(running)
    full = ["bash", "-c", 'ulimit -f 0; exec "$@"', "bash", sys.executable, "-m", "cockpit"]

    def cockpit(*words: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run([*full, *words], capture_output=True, text=True, timeout=120, check=False)
        assert "Traceback" not in done.stderr and "bug in cockpit" not in done.stderr, done.stderr
        return done

    listed = cockpit("ps")
    assert listed.returncode == 0 and NAME in listed.stdout
    refused = cockpit("serve", "cpu/tiny-qwen3", "--engine", "/nowhere")
    assert refused.returncode == 2 and refused.stderr.count("\n") == 1
    with nothing_left(running):
        stopped = cockpit("stop", NAME)
        assert stopped.returncode == 0, stopped.stderr
        running.poll()


@pytest.mark.fault("a start on a disk without room", "one sentence, and nothing was started or recorded")
def test_a_start_on_a_full_disk_leaves_nothing(make_plan: Plans) -> None:
    program = (
        "import sys, msgspec, resource\n"
        "from cockpit.errors import CockpitError\n"
        "from cockpit.launch.types import LaunchPlan\n"
        "from cockpit.supervisor import spawn\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))\n"
        "try: spawn.start(msgspec.json.decode(sys.argv[1], type=LaunchPlan))\n"
        "except CockpitError as error: print(error.sentence())\n"
    )
    plan = msgspec.json.encode(make_plan()).decode()
    done = subprocess.run([sys.executable, "-c", program, plan], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "cannot write the instance record" in done.stdout, done.stderr
    assert store.load_all() == ([], []) and list(paths.instances_home().glob("*.json")) == []


@pytest.mark.fault("several cockpits look at and stop one server at once", "one end, and no record comes back")
def test_many_hands(make_plan: Plans) -> None:
    running = start(make_plan(*FAMILY))
    at_stage(running, "ready")
    record = store.load(NAME)
    troubles: list[BaseException] = []

    def guarded(work: Callable[[], object]) -> None:
        try:
            work()
        except CockpitError:
            pass
        except BaseException as error:
            troubles.append(error)

    works: list[Callable[[], object]] = [
        lambda: stop(store.load(NAME)),
        lambda: stop(attach(record)),
        lambda: [state_of(record) for _ in range(20)],
        lambda: [store.load_all() for _ in range(50)],
        lambda: stop(running),
    ]
    with nothing_left(running):
        threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert troubles == []


@pytest.mark.fault("start and stop, again and again", "every cycle ends with nothing left")
def test_cycles(make_plan: Plans) -> None:
    for number in range(cycles(3, 20)):
        running = start(make_plan(*FAMILY, "--boot-seconds", "0.1"))
        assert begun(running)
        if number % 2:
            assert until_settled(running, PATIENCE).life == "ready"
        with nothing_left(running):
            assert stop(running).stopped


@pytest.mark.fault("the state folder is deleted while a server runs", "it is listed as one that is not on record")
def test_the_records_are_deleted(make_plan: Plans, tmp_path: Path) -> None:
    from cockpit.supervisor.others import find_others

    command = tmp_path / "vllm"
    command.write_text(f"import runpy, sys\nrunpy.run_path({str(make_plan().argv[1])!r}, run_name='__main__')\n")
    plan = make_plan()
    running = start(msgspec.structs.replace(plan, argv=(sys.executable, str(command), "serve", *plan.argv[2:])))
    at = running.record.process
    assert at is not None
    (paths.instances_home() / f"{NAME}.json").unlink()
    assert wait_for(lambda: at.pid in {one.pid for one in find_others([])[0]}, PATIENCE)
    assert stop(running).stopped


@pytest.mark.fault("the host was restarted", "the record's server is dead, and whoever has its pid now is left alone")
def test_a_reboot(make_plan: Plans) -> None:
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    try:
        now = process.identity(stranger.pid)
        assert now is not None and now.birth
        ticks = now.birth.partition(":")[2]
        # Everything of it agrees, even the moment within the boot, but for which boot it was.
        before = msgspec.structs.replace(now, birth=f"00000000-0000-0000-0000-000000000000:{ticks}")
        running = start(make_plan())
        until_settled(running)
        stop(running)
        store.save(msgspec.structs.replace(running.record, process=before, descendants=(before,), ended_at=None))
        assert state_of(store.load(NAME)) == "dead" and process.members_of(store.load(NAME)) == ()
        assert stop(store.load(NAME)).stopped and stranger.poll() is None
        assert store.load_all() == ([], [])
    finally:
        stranger.kill()
        stranger.wait()


@pytest.mark.fault("the clock is set", "running servers stay theirs; nothing starts or stops for hours")
@pytest.mark.parametrize("hours", [-24, 24], ids=["back by a day", "ahead by a day"])
def test_the_clock_jumps(make_plan: Plans, hours: int) -> None:
    running = start(make_plan(*FAMILY))
    at_stage(running, "ready")
    shift = hours * 3600.0
    root = running.record.process
    assert root is not None
    moved = msgspec.structs.replace(root, start_time=root.start_time - shift)
    past = running.record.created_at - shift
    running.update(process=moved, ready_at=past, stop_requested_at=past)
    record = store.load(NAME)
    assert process.is_alive(moved) and state_of(record) == "ready"
    store.save(msgspec.structs.replace(record, name="never", process=None, descendants=(), created_at=past, log="/x"))
    assert state_of(store.load("never")) == "dead"
    store.remove(store.load("never"))
    with nothing_left(running):
        assert stop(record).stopped


@pytest.mark.fault("another server answers on the port of a record", "told by its owner, else by the model it serves")
@pytest.mark.parametrize("owned", [True, False, None], ids=["ours", "a stranger's", "owner unknown"])
def test_who_answers(make_plan: Plans, monkeypatch: pytest.MonkeyPatch, owned: bool | None) -> None:
    running = start(make_plan())
    assert until_settled(running).life == "ready"
    monkeypatch.setattr(process, "owns_port", lambda *_: owned)
    assert ready.serves(running.record) is (owned is not False)
    other = msgspec.structs.replace(running.record, served_model_name="another model")
    assert ready.serves(other) is (owned is True)
    monkeypatch.undo()
    assert stop(running).stopped
