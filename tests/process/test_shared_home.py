"""A state home that several hosts or containers share: what was started elsewhere is neither judged nor touched."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from cockpit import paths
from cockpit.cli import main as cli
from cockpit.errors import CockpitError
from cockpit.launch.types import LaunchPlan
from cockpit.supervisor import process, store
from cockpit.supervisor.origin import here, is_elsewhere
from cockpit.supervisor.record import InstanceRecord, Origin
from cockpit.supervisor.spawn import Running, start
from cockpit.supervisor.stop import stop

from .conftest import until_settled

Plans = Callable[..., LaunchPlan]
ANOTHER = Origin(hostname="node-b", boot_id="11111111-2222-3333-4444-555555555555", pid_namespace="pid:[4026531836]")


def moved(running: Running, origin: Origin | None) -> InstanceRecord:
    """Its record, as if it had been started elsewhere, under pids that mean nothing here."""
    root = running.record.process
    assert root is not None
    far = msgspec.structs.replace(root, birth=f"{ANOTHER.boot_id}:77")
    record = msgspec.structs.replace(running.record, origin=origin, process=far, descendants=())
    store.save(record)
    return record


@pytest.mark.fault(
    "a record of a server on another host that shares the state home", "it is named, and nothing of it is changed"
)
def test_a_server_of_another_host_is_neither_dead_nor_stopped(
    make_plan: Plans, capsys: pytest.CaptureFixture[str]
) -> None:
    running = start(make_plan())
    until_settled(running)
    own = running.record
    moved(running, ANOTHER)
    file = paths.instances_home() / f"{own.name}.json"
    before = file.read_bytes()
    said = f"{own.name} was started on node-b, another host or container"
    assert cli.main(("ps",)) == 0
    assert said in capsys.readouterr().err
    for words in (("stop", own.name), ("stop", "--orphans"), ("stop", "cpu/fake"), ("top", own.name, "--once")):
        cli.main(words)
    assert said in capsys.readouterr().err and running.poll() is None
    with pytest.raises(CockpitError, match="was started on node-b"):
        store.load(own.name)
    assert store.update(own, ended_at=1.0) is None
    store.remove(own)
    assert file.read_bytes() == before
    # Another one of the same slug takes another name, and keeps its log.
    second = start(make_plan())
    assert second.record.name == "cpu-fake-2" and store.logs() == {own.log, second.record.log}
    assert stop(second).stopped
    store.save(own)
    assert stop(running).stopped and not file.exists()


def test_what_was_started_here_before_a_restart_is_judged_here(make_plan: Plans) -> None:
    running = start(make_plan())
    until_settled(running)
    own = running.record
    assert own.origin == here() and not is_elsewhere(own.origin)
    record = moved(running, msgspec.structs.replace(here(), boot_id=ANOTHER.boot_id, pid_namespace="pid:[1]"))
    assert store.load(own.name) == record and not process.is_alive(record.process)  # type: ignore[arg-type]
    store.save(own)
    assert stop(running).stopped


@pytest.mark.parametrize(
    ("changes", "elsewhere"),
    [
        ({}, False),
        ({"hostname": "renamed"}, False),
        ({"hostname": "node-b", "boot_id": ANOTHER.boot_id}, True),
        ({"hostname": "a-container", "pid_namespace": "pid:[4026532001]"}, True),
        ({"pid_namespace": "pid:[4026532001]"}, False),
        ({"hostname": "node-b", "boot_id": ""}, True),
        ({"hostname": "", "boot_id": ""}, False),
    ],
)
def test_where_something_was_started(changes: dict[str, str], elsewhere: bool) -> None:
    assert is_elsewhere(msgspec.structs.replace(here(), **changes)) is elsewhere
    assert not is_elsewhere(None) and here().hostname == socket.gethostname()


def test_the_name_of_another_host_reaches_no_terminal_raw(make_plan: Plans) -> None:
    running = start(make_plan("--no-listen"))
    moved(running, msgspec.structs.replace(ANOTHER, hostname="\x1b]52;c;x\x07" + "n" * 500))
    (problem,) = store.load_all()[1]
    assert problem.isprintable() and len(problem) < 300
    assert Path(running.record.log).exists()
    store.save(running.record)
    assert stop(running, grace_seconds=4).stopped
