"""Draws the catalog and the serve card of the README: python scripts/screenshots.py writes docs/img/*.svg.

For two described RTX 3090 and without an engine, whatever this machine has.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

IMAGES = Path(__file__).parents[1] / "docs" / "img"
SLUG = "vllm/dual"


async def draw() -> None:
    """Both screens at the design's size."""
    from cockpit.rig.described import load_rig
    from cockpit.session import Session
    from cockpit.tui.app import CockpitApp
    from cockpit.tui.widgets.menu_table import MenuTable

    session = Session(described_rig=load_rig("2x3090"))
    app = CockpitApp(session, show_clock=False)
    async with app.run_test(size=(120, 35)) as pilot:
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


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        for kind in ("CONFIG", "STATE", "CACHE", "DATA"):
            os.environ[f"XDG_{kind}_HOME"] = home
        asyncio.run(draw())
