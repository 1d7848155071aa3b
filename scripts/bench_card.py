"""How long the serve card takes from a key to the last byte drawn, plan and forecast included: prints milliseconds.

python scripts/bench_card.py [RIG] [SLUG]
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from typing import Any

from cockpit.rig.described import load_rig
from cockpit.session import Session
from cockpit.tui.app import CockpitApp
from cockpit.tui.screens.card import CardScreen

KEYS = ("k", "v", "e", "p", "down", "right", "r") * 6
QUIET_SECONDS = 0.15
"""Nothing drawn for so long means that all is drawn."""


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


async def measure(rig: str, slug: str) -> list[tuple[float, float]]:
    """Milliseconds a key press: of the clock, and of the CPU."""
    session = Session(described_rig=load_rig(rig))
    clock = Clock()
    timed(clock)
    app = CockpitApp(session, show_clock=False)
    found: list[tuple[float, float]] = []
    async with app.run_test(size=(120, 35)) as pilot:
        while not app.judged:
            await pilot.pause(0.05)
        app.push_screen(CardScreen(session.catalog.get(slug)))
        while not (isinstance(app.screen, CardScreen) and app.screen.plan is not None):
            await pilot.pause(0.05)
        for key in KEYS:
            await pilot.pause(QUIET_SECONDS)
            pressed, used = time.perf_counter(), time.process_time()
            await pilot.press(key)
            await pilot.pause(QUIET_SECONDS)
            if clock.drawn_at > pressed:
                found.append(((clock.drawn_at - pressed) * 1000, (clock.cpu_seconds - used) * 1000))
    return found


def main() -> None:
    """Print the figures."""
    rig = sys.argv[1] if len(sys.argv) > 1 else "2x3090"
    slug = sys.argv[2] if len(sys.argv) > 2 else "vllm/qwen38-27b-int6-mixed"
    figures = asyncio.run(measure(rig, slug))
    print(f"{len(figures)} keys on the card of {slug} on {rig}")
    for name, times in zip(("clock", "CPU"), zip(*figures, strict=True), strict=True):
        print(f"  {name:<6} median {statistics.median(times):6.1f} ms   slowest {max(times):6.1f} ms")


if __name__ == "__main__":
    main()
