"""A state home that several hosts or containers share: what was started elsewhere is neither judged nor touched."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec
import psutil
import pytest

from cockpit import paths
from cockpit.cli import main as cli
from cockpit.errors import CockpitError
from cockpit.launch.types import LaunchPlan
from cockpit.supervisor import process, store
from cockpit.supervisor.adopted import remember
from cockpit.supervisor.origin import here, is_elsewhere, is_seen_to_live
from cockpit.supervisor.record import InstanceRecord, Origin
from cockpit.supervisor.spawn import Running, start
from cockpit.supervisor.stop import stop

from .conftest import until_settled, wait_for

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


def far_record(name: str, origin: Origin = ANOTHER) -> InstanceRecord:
    record = InstanceRecord(
        name=name,
        slug="cpu/fake",
        model="m",
        served_model_name="m",
        argv=("vllm",),
        env={},
        cwd="/",
        host="0.0.0.0",
        port=8000,
        url="http://127.0.0.1:8000",
        log=str(paths.logs_home() / f"{name}.log"),
        origin=origin,
        created_at=1.0,
    )
    store.save(record)
    return record


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert cli.main(("forget", *words)) == 2
    return " ".join(capsys.readouterr().err.split())


def test_what_a_host_that_is_gone_left_on_record_is_forgotten_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    first, second, kept = (
        far_record("a"),
        far_record("b"),
        far_record("c", Origin(hostname="node-c", boot_id=ANOTHER.boot_id, pid_namespace=ANOTHER.pid_namespace)),
    )
    assert cli.main(("ps",)) == 0
    assert "Once that is gone: `cockpit forget a --host node-b`." in capsys.readouterr().err
    assert cli.main(("stop", "a")) == 2
    assert "Once that is gone: `cockpit forget a --host node-b`." in " ".join(capsys.readouterr().err.split())
    assert cli.main(("forget", "a", "--host", "node-b", "--json")) == 0
    assert json.loads(capsys.readouterr().out) == {
        "instance": "a",
        "host": "node-b",
        "slug": "cpu/fake",
        "url": first.url,
        "log": first.log,
    }
    assert store.everywhere() == [second, kept]
    far_record("a")
    assert cli.main(("forget", "--host", "node-b", "--json")) == 0
    assert [row["instance"] for row in json.loads(capsys.readouterr().out)] == ["a", "b"]
    assert store.everywhere() == [kept]


def test_nothing_is_forgotten_without_the_users_word_that_its_host_is_gone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    record = far_record("a")
    Path(record.log).parent.mkdir(parents=True)
    Path(record.log).touch()
    said = refusal(capsys, "a")
    assert "If node-b is gone: `cockpit forget a --host node-b`." in said and "its log was last written" in said
    assert "was started on node-b, not on node-c" in refusal(capsys, "a", "--host", "node-c")
    assert "Did you mean node-b?" in refusal(capsys, "--host", "node-d")
    assert "Did you mean a-long-name?" in (far_record("a-long-name") and refusal(capsys, "a-long-nam"))
    assert "forget needs a record" in refusal(capsys)
    assert record in store.everywhere()


def test_a_server_of_this_host_and_an_adopted_one_are_not_forgotten_that_way(
    capsys: pytest.CaptureFixture[str],
) -> None:
    record = far_record("mine", here())
    remember("http://127.0.0.1:9", None, "there")
    assert "`cockpit stop mine`" in refusal(capsys, "mine", "--host", socket.gethostname())
    assert "All records are of this host" in refusal(capsys, "--host", socket.gethostname())
    assert "`cockpit adopt --forget there`" in refusal(capsys, "there", "--host", "node-b")
    assert store.everywhere() == [record]


def namespace_of_child(parent: subprocess.Popen[bytes]) -> str | None:
    for child in psutil.Process(parent.pid).children():
        namespace = str(Path(f"/proc/{child.pid}/ns/pid").readlink())
        return namespace if namespace != here().pid_namespace else None
    return None


@pytest.mark.fault(
    "the record of a container that still runs is to be forgotten", "it is refused while a process of it is seen"
)
def test_a_container_whose_processes_are_seen_is_not_gone(capsys: pytest.CaptureFixture[str]) -> None:
    apart = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child")
    box = subprocess.Popen([*apart, "sleep", "600"])
    try:
        assert wait_for(lambda: box.poll() is not None or namespace_of_child(box) is not None)
        inner = None if box.poll() is not None else namespace_of_child(box)
        if inner is None:
            pytest.skip("this machine lets its users make no PID namespace")
        origin = Origin(hostname="box", boot_id=here().boot_id, pid_namespace=inner)
        record = far_record("a", origin)
        assert "may live" in refusal(capsys, "a", "--host", "box")
        assert store.everywhere() == [record]
    finally:
        box.kill()
        box.wait()
    assert wait_for(lambda: not is_seen_to_live(origin))
    assert cli.main(("forget", "a", "--host", "box")) == 0
