"""Servers that no cockpit started, on the screen: listed, watched, stopped only after a question that names them."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from cockpit.session import Session
from cockpit.supervisor import foreign
from cockpit.supervisor.others import Other
from cockpit.supervisor.ready import answers_health
from cockpit.supervisor.record import ProcessIdentity
from cockpit.tui.screens.instance import InstanceScreen
from cockpit.tui.screens.instances import InstancesScreen

from .helpers import opened, shown, until, until_shown, until_told
from .world import tiny_model

PORT = 31_000 + os.getpid() % 1000


@pytest.fixture
def server(session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """A ``vllm serve`` from a shell, the only one that this test's cockpit sees."""
    command = [str(tmp_path / "engines" / "cpu" / "bin" / "vllm"), "serve", str(tiny_model()), "--port", str(PORT)]
    one = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    monkeypatch.setattr(
        "cockpit.supervisor.others.find_foreign",
        lambda known: tuple(found for found in foreign.find_foreign(known) if found.process.pid == one.pid),
    )
    yield one
    if one.poll() is None:
        os.killpg(one.pid, signal.SIGKILL)
        one.wait()


async def test_a_foreign_server_is_listed_opened_and_stopped_after_a_question(
    session: Session, server: subprocess.Popen[bytes]
) -> None:
    async with opened(session) as pilot:
        await until(pilot, lambda: answers_health(f"http://127.0.0.1:{PORT}"))
        await pilot.press("i")
        await until_shown(
            pilot, "◇ foreign", f"foreign-{server.pid}", f"127.0.0.1:{PORT}", "not started by a cockpit"
        )
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, InstanceScreen))
        await until_shown(pilot, "◇ foreign", "decode", "90.", "running 2")
        await pilot.press("K")
        await until_shown(pilot, f"Stop foreign-{server.pid}?", "No cockpit started it", f"process {server.pid}")
        await pilot.press("enter")  # the default keeps it
        await until(pilot, lambda: isinstance(pilot.app.screen, InstanceScreen))
        assert server.poll() is None
        await pilot.press("i")
        await until(pilot, lambda: isinstance(pilot.app.screen, InstancesScreen))
        await until_shown(pilot, f"foreign-{server.pid}")
        await pilot.press("K")
        await until_shown(pilot, "No cockpit started it")
        await pilot.press("y")
        await until_told(pilot, f"foreign-{server.pid} stopped after")
        assert server.wait(60) == 0
        await until(pilot, lambda: f"foreign-{server.pid}" not in shown(pilot))


async def test_one_that_does_not_listen_yet_is_listed_as_starting_and_stopped_only_by_name(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    who = ProcessIdentity(pid=os.getpid(), start_time=psutil.Process().create_time())
    loads = Other(
        name="foreign-1", kind="foreign", processes=(who,), what="vllm serve m", url="http://h:1", listens=False
    )
    monkeypatch.setattr(session, "others", lambda: ([loads], []))
    async with opened(session) as pilot:
        await pilot.press("i")
        await until_shown(pilot, "◐ starting", "foreign-1")
        await pilot.press("K")
        await until_shown(pilot, "Stop foreign-1?", "No cockpit started it")
        await pilot.press("enter")  # the default keeps it


async def test_leaving_says_nothing_of_servers_that_are_not_ours(
    session: Session, server: subprocess.Popen[bytes]
) -> None:
    async with opened(session) as pilot:
        await pilot.press("i")
        await until_shown(pilot, f"foreign-{server.pid}")
        await pilot.press("q")
        await until(pilot, lambda: not pilot.app.is_running)
    assert server.poll() is None


async def test_the_cockpit_itself_listens_on_no_port(session: Session) -> None:
    async with opened(session) as pilot:
        await pilot.press("i")
        await until(pilot, lambda: isinstance(pilot.app.screen, InstancesScreen))
        listening = [one for one in psutil.Process().net_connections(kind="inet") if one.status == psutil.CONN_LISTEN]
        assert listening == []
