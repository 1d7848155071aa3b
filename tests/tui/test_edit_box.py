"""The line to type in: letters cost no layout of the screen, and a text longer than its place scrolls in it."""

from __future__ import annotations

from typing import Any

import pytest
from textual.screen import Screen
from textual.widgets import Input

from .helpers import SMALLEST, open_card, opened, settled, shown, type_text, until
from .still_life import StillSession
from .world import rig_of


async def test_a_letter_lays_nothing_out(monkeypatch: pytest.MonkeyPatch) -> None:
    layouts: list[str] = []
    laid_out, letter = Screen._refresh_layout, ""

    def counted(screen: Screen[None], *args: Any, **named: Any) -> None:
        layouts.append(letter)
        laid_out(screen, *args, **named)

    async with opened(StillSession(rig_of(2)), SMALLEST) as pilot:
        await open_card(pilot, "vllm/dual")
        await pilot.press("l")
        box = pilot.app.screen.query_one("#editor", Input)
        await until(pilot, lambda: box.has_focus)
        await settled(pilot)
        monkeypatch.setattr(Screen, "_refresh_layout", counted)
        for letter in ("ctrl+u", "1", "3", "1", "backspace", "left", "0"):
            await pilot.press(letter)
            await pilot.pause(0.1)
        assert (box.value, layouts) == ("103", [])


async def test_a_long_text_scrolls_with_its_cursor() -> None:
    async with opened(StillSession(rig_of(2)), SMALLEST) as pilot:
        await pilot.press("slash")
        await until(pilot, lambda: pilot.app.screen.query_one("#filter", Input).has_focus)
        text = "".join(f"{at:02d}" for at in range(60))
        await type_text(pilot, text)
        await until(pilot, lambda: text[-20:] in shown(pilot))
        assert text[:20] not in shown(pilot)
        await pilot.press("home")
        await until(pilot, lambda: text[:20] in shown(pilot) and text[-20:] not in shown(pilot))
