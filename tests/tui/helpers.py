"""Driving the app: open it, wait on conditions, read what it shows."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakKeyDictionary

import psutil
from textual.pilot import Pilot
from textual.widgets import Static

from cockpit.session import Session
from cockpit.supervisor import store
from cockpit.supervisor.record import InstanceRecord
from cockpit.tui.app import CockpitApp
from cockpit.tui.screens.card import CardScreen
from cockpit.tui.screens.catalog import CatalogScreen
from cockpit.tui.screens.instance import InstanceScreen
from cockpit.tui.widgets.menu_table import MenuTable
from cockpit.tui.widgets.rows_view import RowsView

DESIGN, SMALLEST = (120, 35), (80, 24)
SIZES = (SMALLEST, DESIGN)

Cockpit = Pilot[None]
_TOASTS: WeakKeyDictionary[CockpitApp, list[str]] = WeakKeyDictionary()
PATIENCE = 90.0
"""Seconds; only what fails takes them, and everything here also runs on machines that have other things to do."""


@asynccontextmanager
async def opened(session: Session, size: tuple[int, int] = DESIGN) -> AsyncIterator[Cockpit]:
    """The app on its home screen, with the rig and the engines read."""
    app = noting_toasts(CockpitApp(session, show_clock=False))
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: app.engines is not None)
        await pilot.pause()
        yield pilot


def noting_toasts(app: CockpitApp) -> CockpitApp:
    """The app, which keeps every toast: one may have left the screen before it is looked for."""
    notify, _TOASTS[app] = app.notify, []

    def noted(message: str, **options: Any) -> None:
        _TOASTS[app].append(message)
        notify(message, **options)

    app.notify = noted  # type: ignore[method-assign]
    return app


async def until(pilot: Cockpit, condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Wait until ``condition`` holds; fails with the screen as it then is."""
    limit = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > limit:
            raise AssertionError(f"not within {seconds:.0f} s; the screen shows:\n{shown(pilot)}")
        await pilot.pause(0.02)


async def until_shown(pilot: Cockpit, *texts: str, seconds: float = PATIENCE) -> None:
    """Wait until every text is on the screen."""
    await until(pilot, lambda: all(text in shown(pilot) for text in texts), seconds)


def shown(pilot: Cockpit) -> str:
    """The screen as lines of text, trailing blanks stripped."""
    strips = pilot.app.screen._compositor.render_strips()
    return "\n".join(strip.text.rstrip() for strip in strips)


async def settled(pilot: Cockpit) -> str:
    """The screen as lines of text, once it has stopped changing."""
    limit = time.monotonic() + PATIENCE
    looks = [""]
    while len(looks) < 4 or len(set(looks[-4:])) > 1:
        assert time.monotonic() < limit, f"the screen never stands still:\n{looks[-1]}"
        await pilot.pause(0.05)
        looks.append(shown(pilot))
    return looks[-1]


async def until_told(pilot: Cockpit, *texts: str, seconds: float = PATIENCE) -> None:
    """Wait until one toast says every text."""
    await until(pilot, lambda: any(all(text in told for text in texts) for told in toasts(pilot)), seconds)


def toasts(pilot: Cockpit) -> list[str]:
    """The texts of all toasts so far, whole and unwrapped."""
    return _TOASTS[app_of(pilot)]


def words_of(text: str) -> str:
    """Text with every run of blanks and line ends as one blank: independent of where a widget wraps it."""
    return " ".join(text.split())


def content_of(pilot: Cockpit, selector: str) -> str:
    """The whole text of a Static, a Panel or a RowsView, also what is scrolled out of view."""
    widget = pilot.app.screen.query_one(selector)
    if isinstance(widget, RowsView):
        return widget.text
    return str(widget.content if isinstance(widget, Static) else widget.render())


def app_of(pilot: Cockpit) -> CockpitApp:
    """The app with its type."""
    assert isinstance(pilot.app, CockpitApp)
    return pilot.app


async def mark(pilot: Cockpit, name: str) -> None:
    """Put the catalog's cursor on a slug."""
    table = pilot.app.screen.query_one(MenuTable)
    table.focus()
    table.mark_key(name)
    await until(pilot, lambda: name in marked_title(pilot))


def cell_of(pilot: Cockpit, name: str, column: str) -> str:
    """What the catalog's row of a slug says under a title."""
    table = pilot.app.screen.query_one(MenuTable)
    titles = [title.strip() for title, _ in table._columns]
    return table._cells(name)[titles.index(column)][0].strip()


async def open_card(pilot: Cockpit, name: str) -> CardScreen:
    """The serve card of a slug, with its plan drawn."""
    await mark(pilot, name)
    await pilot.press("enter")
    await until(pilot, lambda: isinstance(pilot.app.screen, CardScreen) and pilot.app.screen.plan is not None)
    await pilot.pause()
    screen = pilot.app.screen
    assert isinstance(screen, CardScreen)
    return screen


async def serve(pilot: Cockpit, name: str) -> InstanceRecord:
    """Enter, S, and wait until the server is ready and its figures are on the screen."""
    await open_card(pilot, name)
    await pilot.press("S")
    await until(pilot, lambda: isinstance(pilot.app.screen, InstanceScreen))
    await until_shown(pilot, "● ready", "tok/s")
    return store.find(name)


async def type_text(pilot: Cockpit, text: str) -> None:
    """Type it, letter by letter."""
    names = {" ": "space", "/": "slash", ".": "full_stop", "-": "minus", "_": "underscore", ",": "comma"}
    await pilot.press(*(names.get(letter, letter) for letter in text))


def marked_title(pilot: Cockpit) -> str:
    """The title of the catalog's detail pane."""
    assert isinstance(pilot.app.screen, CatalogScreen)
    return content_of(pilot, "#detail-title")


def command_shown(pilot: Cockpit) -> str:
    """The command on the serve card, unwrapped."""
    below = content_of(pilot, "#lower").partition("── command ─")[2]
    return words_of(below.partition("── findings ─")[0].strip("─"))


def lives(record: InstanceRecord) -> bool:
    """Whether the server process of a record runs (a zombie does not)."""
    if record.process is None:
        return False
    try:
        return psutil.Process(record.process.pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
