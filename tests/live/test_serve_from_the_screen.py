"""A real server from the screen: Enter, S, ready, figures under load, leave, come back, stop."""

from __future__ import annotations

from pathlib import Path

import pytest
from tui.helpers import content_of, lives, open_card, opened, shown, until, until_shown, until_told

from cockpit.bench.load import Load
from cockpit.session import Session
from cockpit.supervisor import store
from cockpit.supervisor.ready import state_of
from cockpit.tui.screens.catalog import CatalogScreen
from cockpit.tui.screens.instance import InstanceScreen

from .conftest import CAPACITY_TOKENS, SLUG, Family, serving

pytestmark = pytest.mark.live
_BOOT_SECONDS = 1200.0


def rate_shown(text: str, row: str) -> float:
    """The first figure of a row of the live panel; 0 while it is unknown."""
    for line in text.splitlines():
        words = line.split()
        if words[:1] == [row]:
            figure = words[1].replace(",", "")
            return float(figure) if figure.replace(".", "").isdigit() else 0.0
    return 0.0


async def test_the_whole_way_from_enter_to_nothing_left(home: Path) -> None:
    async with opened(Session()) as pilot:
        await open_card(pilot, SLUG)
        assert "--load-format dummy" in content_of(pilot, "#lower")
        await pilot.press("S")
        await until(pilot, lambda: isinstance(pilot.app.screen, InstanceScreen))
        await until_shown(pilot, "◐ starting", "environment")
        await until_shown(pilot, "● ready", f"{CAPACITY_TOKENS:,}", "decode", seconds=_BOOT_SECONDS)
        record = store.find(SLUG)
        assert record.process is not None
        family = Family(record.process.pid)
        assert len(family.processes) >= 2 and serving(record.model, home)
        load = Load(record.url, record.served_model_name)
        load.start()
        try:
            await until(pilot, lambda: rate_shown(shown(pilot), "decode") > 0)
            await until(pilot, lambda: rate_shown(shown(pilot), "prefill") > 0)
        finally:
            counts = load.stop()
        assert counts.failures == 0 and counts.generated_tokens > 0
        await pilot.press("q")
        await until_shown(pilot, "1 server is running", "leave running")
        await pilot.press("enter")
        await until(pilot, lambda: not pilot.app.is_running)
    assert lives(record) and state_of(store.find(SLUG)) == "ready"

    async with opened(Session()) as pilot:
        await until_shown(pilot, "● ready", "1 serving")
        await pilot.press("enter")
        await until_shown(pilot, "● ready", f"{CAPACITY_TOKENS:,}", "Application startup complete")
        await pilot.press("K")
        await until_shown(pilot, "Stop cpu-tiny-qwen3?")
        await pilot.press("y")
        await until_told(pilot, "cpu-tiny-qwen3 stopped after", "nothing is left of it", seconds=240)
        await until(pilot, lambda: isinstance(pilot.app.screen, CatalogScreen))
        await until_shown(pilot, "0 serving")
    assert family.left() == []
    assert serving(record.model, home) == []
    assert store.load_all()[0] == []
