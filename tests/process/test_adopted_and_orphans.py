"""Servers adopted by their address, and what dead ones leave: listed, watched, forgotten and ended by name."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from cockpit import paths
from cockpit.cli import main as cli
from cockpit.errors import CockpitError, FailedError
from cockpit.launch.types import LaunchPlan
from cockpit.rig.leftovers import find_leftovers
from cockpit.session import Session
from cockpit.supervisor import process, store
from cockpit.supervisor.others import find_others
from cockpit.supervisor.ready import answers_health
from cockpit.supervisor.record import InstanceRecord
from cockpit.supervisor.spawn import start

from .conftest import Serve, found, titled, until_settled, wait_for

Plans = Callable[..., LaunchPlan]


def test_an_adopted_url_is_listed_watched_and_forgotten(
    serve: Serve, free_port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"http://127.0.0.1:{free_port}"
    assert cli.main(("adopt", url)) == 1  # nothing answers yet
    server = serve("--boot-seconds", "0.1")
    assert wait_for(lambda: answers_health(url))
    session = Session()
    adopted = session.adopt(f"{url}/v1/", "mine")
    assert (adopted.name, adopted.url, adopted.model) == ("mine", url, "fake")
    other = found(server.pid)
    assert (other.name, other.kind, other.url) == ("mine", "adopted", url)
    watch = session.watch("mine")
    try:
        seen = watch.tick()
        assert seen.state == "foreign" and seen.frame.requests.running == 0 and session.is_on_record("mine")
    finally:
        watch.close()
    with pytest.raises(CockpitError, match="was not started by the cockpit"):
        session.stop("mine")
    server.kill()
    server.wait()
    assert Session().other("mine") is not None  # elsewhere or gone: still on the list
    with pytest.raises(CockpitError, match="no process of it is seen here"):
        session.stop("mine")
    assert cli.main(("adopt", "--forget", "mine")) == 0
    assert Session().other("mine") is None
    capsys.readouterr()


@pytest.mark.parametrize(
    "url", ["", "nonsense", "ftp://x", "http://", "http://u:pw@h:1", "http://h:99999999", "file:///"]
)
def test_what_is_no_server_url_is_refused(url: str) -> None:
    with pytest.raises(CockpitError) as caught:
        Session().adopt(url)
    assert caught.value.fix and not isinstance(caught.value, FailedError) and "pw" not in caught.value.sentence()


def test_a_broken_list_of_adopted_servers_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    paths.ensure_private(paths.state_home())
    far = b'{"format_version":1,"servers":[{"name":"a","url":"http://h:99999","model":null,"adopted_at":1.0}]}'
    for content in (b"{", b'{"format_version": 7}', b"\xff", b"[" * 100_000, far):
        (paths.state_home() / "adopted.json").write_bytes(content)
        assert cli.main(("ps",)) == 0
        assert "adopted" in capsys.readouterr().err


def titles_of(record: InstanceRecord) -> set[str]:
    return {Path(f"/proc/{who.pid}/comm").read_text().strip() for who in process.members_of(record)}


def orphaned(make_plan: Plans, *options: str) -> tuple[str, tuple[process.ProcessIdentity, ...], list[Path]]:
    """A server killed with -9 whose record is gone too: engines, workers and shared memory are all that is left."""
    running = start(make_plan("--fork-children", "1", *options))
    until_settled(running)
    log = Path(running.record.log)
    assert wait_for(lambda: {"VLLM::EngineCor", "VLLM::Worker_TP"} <= titles_of(running.record))
    held = 2 * ("--shared-memory" in options)
    assert wait_for(lambda: log.read_text(encoding="utf-8").count("holds psm_") == held)
    root, *rest = process.members_of(running.record)
    os.kill(root.pid, signal.SIGKILL)
    assert wait_for(lambda: running.poll() is not None)
    store.remove(running.record)
    said = log.read_text(encoding="utf-8")
    return f"orphans-{root.pid}", tuple(rest), [Path("/dev/shm", name) for name in re.findall(r"psm_\w+", said)]


@pytest.mark.skipif(
    Path("/proc/1/comm").read_text().startswith("python"), reason="init is a Python program here: no orphan is told"
)
@pytest.mark.parametrize("options", [(), ("--stubborn-children", "--shared-memory")])
def test_orphans_without_a_record_are_found_by_group_and_title_and_ended_on_request(
    make_plan: Plans, options: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    name, family, segments = orphaned(make_plan, *options)
    assert all(path.exists() for path in segments) and bool(segments) == ("--shared-memory" in options)
    other = next(one for one in find_others([])[0] if one.name == name)
    assert other.kind == "orphans" and {who.pid for who in other.processes} == {who.pid for who in family}
    assert "VLLM::EngineCor" in other.what and "VLLM::Worker" in other.what
    assert cli.main(("ps",)) == 0
    shown = capsys.readouterr()
    assert name in shown.out and f"cockpit stop {name}" in shown.err
    assert cli.main(("stop", name)) == 0
    assert not any(process.is_alive(who) for who in family)
    assert {left.pid for left in find_leftovers()}.isdisjoint(who.pid for who in family)
    assert not any(path.exists() for path in segments)


def test_orphans_of_a_dead_instance_are_in_ps_and_ended_by_its_name(
    make_plan: Plans, capsys: pytest.CaptureFixture[str]
) -> None:
    running = start(make_plan("--fork-children", "2", "--fork-setsid"))
    until_settled(running)
    assert wait_for(lambda: titled(running.record) == 4)
    root, *family = process.members_of(running.record)
    os.kill(root.pid, signal.SIGKILL)
    assert wait_for(lambda: running.poll() is not None)
    assert cli.main(("ps",)) == 0
    shown = capsys.readouterr()
    assert (
        "dead" in shown.out
        and f"({', '.join(str(who.pid) for who in sorted(family, key=lambda w: w.pid))})" in shown.err
    )
    assert cli.main(("stop", "--orphans")) == 0
    assert not any(process.is_alive(who) for who in family)
    assert store.load_all() == ([], [])


def test_stop_takes_one_thing(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(("stop",)) == 2 and cli.main(("stop", "x", "--orphans")) == 2
    assert capsys.readouterr().out == ""
