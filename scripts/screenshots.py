"""Draws the screens of the README: python scripts/screenshots.py writes docs/img/*.svg.

Catalog and serve card are for two described RTX 3090 and without an engine, whatever this machine has; the live
screen is of the tape of an H200.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

import msgspec

IMAGES = Path(__file__).parents[1] / "docs" / "img"
TAPE = Path(__file__).parents[1] / "tests" / "fixtures" / "tapes" / "h200-0.26-int8.tape"
BUSY_SECONDS = 20
"""How much of the tape is played: its load is at its height then."""
SIZE = (120, 35)
SLUG = "vllm/dual"


async def draw_choice() -> None:
    """Catalog and card, at the design's size."""
    from cockpit.rig.described import load_rig
    from cockpit.session import Session
    from cockpit.tui.app import CockpitApp
    from cockpit.tui.widgets.menu_table import MenuTable

    session = Session(described_rig=load_rig("2x3090"))
    app = CockpitApp(session, show_clock=False)
    async with app.run_test(size=SIZE) as pilot:
        while len(app.judged) < len(session.catalog.entries):
            await pilot.pause(0.1)
        app.screen.query_one(MenuTable).mark_key(SLUG)
        await pilot.pause(0.5)
        (IMAGES / "catalog.svg").write_text(app.export_screenshot(title="cockpit"), encoding="utf-8")
        await pilot.press("enter")
        while getattr(app.screen, "plan", None) is None:
            await pilot.pause(0.1)
        await pilot.pause(0.5)
        (IMAGES / "card.svg").write_text(app.export_screenshot(title="cockpit"), encoding="utf-8")


async def draw_live() -> None:
    """The tape of a real session, under load."""
    from cockpit.rig.described import load_rig
    from cockpit.session import Session
    from cockpit.tape import Replay, read_tape
    from cockpit.tui.app import CockpitApp

    tape = read_tape(TAPE)
    replay = Replay(msgspec.structs.replace(tape, observations=tape.observations[: BUSY_SECONDS + 1]), speed=100.0)
    session = Session(described_rig=load_rig("1xh200"))
    session.config = msgspec.structs.replace(session.config, refresh_seconds=0.1)
    app = CockpitApp(session, show_clock=False, replay=replay)
    async with app.run_test(size=SIZE) as pilot:
        while not replay.at_end:
            await pilot.pause(0.1)
        await pilot.pause(1.0)
        (IMAGES / "live.svg").write_text(app.export_screenshot(title="cockpit"), encoding="utf-8")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        for kind in ("CONFIG", "STATE", "CACHE", "DATA"):
            os.environ[f"XDG_{kind}_HOME"] = home
        asyncio.run(draw_choice())
        asyncio.run(draw_live())
