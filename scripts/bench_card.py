"""How long the serve card takes from a key to the last byte drawn, plan and forecast included: prints milliseconds.

python scripts/bench_card.py [RIG] [SLUG|all]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import time
from typing import Any, NamedTuple

from textual.pilot import Pilot

from cockpit.errors import CockpitError
from cockpit.rig.described import load_rig
from cockpit.session import Session
from cockpit.tui.app import CockpitApp
from cockpit.tui.screens.card import CardScreen

KEYS = ("a", "k", "v", "e", "p", "down", "right", "left", "r")
TIMES = {"one": 5, "all": 2}
QUIET_SECONDS = 0.15
"""Nothing drawn for so long means that all is drawn."""


class Redraw(NamedTuple):
    """One key."""

    slug: str
    key: str
    clock: float
    """Milliseconds until it was drawn."""
    cpu: float
    """Of them this process's on the CPU."""


class Clock:
    """When the app last drew, and how much CPU this process had used by then."""

    drawn_at = 0.0
    cpu_seconds = 0.0


def timed(clock: Clock) -> None:
    """Have every drawing of the app tell the clock."""
    draw = CockpitApp._display

    def display(app: CockpitApp, screen: Any, renderable: Any) -> None:
        draw(app, screen, renderable)
        clock.drawn_at, clock.cpu_seconds = time.perf_counter(), time.process_time()

    CockpitApp._display = display  # type: ignore[method-assign]


async def on_card(pilot: Pilot[None], clock: Clock, slug: str, times: int) -> list[Redraw]:
    """Every key of one card."""
    app = pilot.app
    assert isinstance(app, CockpitApp)
    app.push_screen(CardScreen(app.session.catalog.get(slug)))
    while not (isinstance(app.screen, CardScreen) and app.screen.plan is not None):
        await pilot.pause(0.05)
    found: list[Redraw] = []
    for key in KEYS * times:
        await pilot.pause(QUIET_SECONDS)
        pressed, used = time.perf_counter(), time.process_time()
        await pilot.press(key)
        await pilot.pause(QUIET_SECONDS)
        if clock.drawn_at > pressed:
            took = (clock.drawn_at - pressed) * 1000, (clock.cpu_seconds - used) * 1000
            found.append(Redraw(slug, key, *took))
    app.pop_screen()
    return found


async def measure(rig: str, wanted: str) -> list[Redraw]:
    """The keys of one card, or of every slug's."""
    session = Session(described_rig=load_rig(rig))
    clock = Clock()
    timed(clock)
    app = CockpitApp(session, show_clock=False)
    slugs = [entry.slug.name for entry in session.catalog.entries] if wanted == "all" else [wanted]
    async with app.run_test(size=(120, 35)) as pilot:
        while not app.judged:
            await pilot.pause(0.05)
        times = TIMES["all" if wanted == "all" else "one"]
        return [one for slug in slugs for one in await on_card(pilot, clock, slug, times)]


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rig", nargs="?", default="2x3090", help="a known rig or its file")
    parser.add_argument("slug", nargs="?", default="vllm/qwen38-27b-int6-mixed", help="a slug, or all")
    words = parser.parse_args()
    rig, wanted = words.rig, words.slug
    try:
        figures = asyncio.run(measure(rig, wanted))
    except CockpitError as error:
        parser.error(str(error))
    print(f"{len(figures)} keys, cards of {wanted} on {rig}, load average {os.getloadavg()[0]:.1f}")
    for name in ("clock", "cpu"):
        times = [getattr(one, name) for one in figures]
        slowest = max(figures, key=lambda one: float(getattr(one, name)))
        where = f"{slowest.key} on {slowest.slug}"
        print(f"  {name:<6} median {statistics.median(times):6.1f} ms   slowest {max(times):6.1f} ms ({where})")


if __name__ == "__main__":
    main()
