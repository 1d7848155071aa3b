"""Faults under an open screen: it stays alive, and says what happened."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from cockpit.session import Session
from cockpit.supervisor import process, store
from cockpit.supervisor.record import InstanceRecord
from cockpit.tui.screens.catalog import CatalogScreen
from cockpit.tui.screens.instance import InstanceScreen

from .helpers import Cockpit, open_card, opened, shown, until, until_shown, until_told
from .world import cpu_slug

FAMILY = "--fork-children 1 --dies-with-engine --shared-memory"


async def serve(pilot: Cockpit, name: str) -> InstanceRecord:
    """Start it from its card, and wait until its figures are on the screen."""
    await open_card(pilot, name)
    await pilot.press("S")
    await until(pilot, lambda: isinstance(pilot.app.screen, InstanceScreen))
    await until_shown(pilot, "● ready", "tok/s")
    return store.find(name)


def member(record: InstanceRecord, which: int) -> int:
    """The pid of the server (0), the engine (1) or the worker (2)."""
    return process.members_of(store.load(record.name))[which].pid


async def stopped_by_key(pilot: Cockpit, name: str) -> None:
    """K and yes: gone, and the catalog is there again."""
    await pilot.press("K")
    await until(pilot, lambda: f"Stop {name}?" in shown(pilot) or isinstance(pilot.app.screen, CatalogScreen))
    if not isinstance(pilot.app.screen, CatalogScreen):
        await pilot.press("y")
    await until(pilot, lambda: not store.exists(name))
    await until(pilot, lambda: isinstance(pilot.app.screen, CatalogScreen))
    assert pilot.app.is_running


@pytest.mark.fault("SIGKILL under the live screen", "the screen says what died and how, and K clears what is left")
@pytest.mark.parametrize(
    ("which", "words"),
    [
        (0, ("✕ dead", "killed by signal 9 (SIGKILL)", "still run")),
        (1, ("✕ dead", "after it was ready", "exit code 0", "EngineDeadError")),
    ],
    ids=["server", "engine"],
)
async def test_a_process_is_killed_under_the_screen(session: Session, which: int, words: tuple[str, ...]) -> None:
    cpu_slug("cpu/victim", options=FAMILY)
    async with opened(session) as pilot:
        record = await serve(pilot, "cpu/victim")
        family = process.members_of(record)
        os.kill(member(record, which), signal.SIGKILL)
        await until_shown(pilot, *words)
        await stopped_by_key(pilot, "cpu-victim")
    assert not any(process.is_alive(who) for who in family)


@pytest.mark.fault("a hang under the live screen", "figures are marked as old, then gone; K ends the server")
async def test_a_server_hangs_under_the_screen(session: Session) -> None:
    cpu_slug("cpu/hangs", options=FAMILY)
    async with opened(session) as pilot:
        record = await serve(pilot, "cpu/hangs")
        os.kill(member(record, 0), signal.SIGSTOP)
        await until_shown(pilot, "/metrics does not answer")
        os.kill(member(record, 0), signal.SIGCONT)
        await until(pilot, lambda: "/metrics does not answer" not in shown(pilot))
        await stopped_by_key(pilot, "cpu-hangs")


@pytest.mark.fault("a log flood under the live screen", "keys still work")
async def test_a_flood_under_the_screen(session: Session) -> None:
    cpu_slug("cpu/floods", options="--chatty")
    async with opened(session) as pilot:
        await serve(pilot, "cpu/floods")
        await pilot.press("L")
        await until_shown(pilot, "200 OK")
        await pilot.press("L")
        await until_shown(pilot, "decode")
        await stopped_by_key(pilot, "cpu-floods")


@pytest.mark.fault("the record vanishes or breaks under the live screen", "it is told, and the screen goes on")
@pytest.mark.parametrize("how", ["deleted", "half written"])
async def test_the_record_breaks_under_the_screen(session: Session, how: str, homes: Path) -> None:
    cpu_slug("cpu/broken")
    async with opened(session) as pilot:
        record = await serve(pilot, "cpu/broken")
        file = homes / "state" / "cockpit" / "instances" / "cpu-broken.json"
        whole = file.read_bytes()
        if how == "deleted":
            file.unlink()
            await until(pilot, lambda: isinstance(pilot.app.screen, CatalogScreen))
        else:
            file.write_bytes(whole[: len(whole) // 2])
            await until_told(pilot, "cpu-broken.json is not an instance record")
        assert pilot.app.is_running
        file.write_bytes(whole)
        await until_shown(pilot, "1 serving")
        pid = member(record, 0)
    os.kill(pid, signal.SIGKILL)


async def test_a_key_in_the_log_is_not_on_the_screen(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_API_KEY", "screen-secret-1")
    line = "non-default:{'api_key':['other-secret'],'x':'screen-secret-1','port':8000}"
    cpu_slug("cpu/secret", options=f"--secret-line {line}".replace("'", '"'))
    async with opened(session) as pilot:
        await serve(pilot, "cpu/secret")
        await pilot.press("L")
        await until_shown(pilot, "non-default", "<redacted>")
        assert "screen-secret-1" not in shown(pilot) and "other-secret" not in shown(pilot)
