"""What threads still ask for while the app shuts down and its widgets are gone already."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from cockpit.session import Session
from cockpit.tui.app import CockpitApp
from cockpit.tui.screens.catalog import CatalogScreen
from cockpit.tui.workers import tell

from .helpers import app_of, opened, until_shown

LATE: dict[str, Callable[[CockpitApp], object]] = {
    "facts of the app": lambda app: tell(app, app._have_facts, app.rig, app.engines),
    "instances of the app": lambda app: tell(app, app._have_instances, (), []),
    "the screen's own": lambda app: tell(app.screen, app.screen.rebuild),  # type: ignore[attr-defined]
}


@pytest.mark.parametrize("late", LATE)
async def test_an_answer_that_comes_too_late_ends_nothing(
    late: str, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    close_all, came = CockpitApp._close_all, []

    async def slowly(app: CockpitApp) -> None:
        assert isinstance(app.screen, CatalogScreen) and not app.is_running
        await app.screen.query_one("#slugs").remove()
        LATE[late](app)
        await asyncio.sleep(0.1)
        came.append(late)
        await close_all(app)

    async with opened(session) as pilot:
        await until_shown(pilot, "cpu/tiny-qwen3")
        assert app_of(pilot).is_running
        monkeypatch.setattr(CockpitApp, "_close_all", slowly)
    assert came == [late], "and the app has raised nothing at its end"
