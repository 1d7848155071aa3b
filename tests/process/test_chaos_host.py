"""Faults of the host around a server: its disk, its clock, its restart, and other cockpits and servers on it."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from faults import cycles

from cockpit import paths
from cockpit.errors import CockpitError
from cockpit.launch.types import LaunchPlan
from cockpit.supervisor import process, ready, store
from cockpit.supervisor.ready import state_of
from cockpit.supervisor.spawn import attach, start
from cockpit.supervisor.stop import stop

from .conftest import until_settled, wait_for
from .family import FAMILY, NAME, at_stage, begun, nothing_left

Plans = Callable[..., LaunchPlan]


@pytest.mark.fault("a disk without room", "servers are listed and stopped all the same; a start is refused")
def test_the_disk_is_full(make_plan: Plans) -> None:
    running = start(make_plan(*FAMILY))
    assert begun(running)
    full = ["bash", "-c", 'ulimit -f 0; exec "$@"', "bash", sys.executable, "-m", "cockpit"]

    def cockpit(*words: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run([*full, *words], capture_output=True, text=True, timeout=600, check=False)
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
            assert until_settled(running).life == "ready"
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
    assert wait_for(lambda: at.pid in {one.pid for one in find_others([])[0]})
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
