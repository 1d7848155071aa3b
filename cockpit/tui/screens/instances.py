"""Every server of this host: those on record, foreign ones, and what dead ones left behind."""

from __future__ import annotations

import time
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import Static

from cockpit import units
from cockpit.session import InstanceView
from cockpit.supervisor.others import Other
from cockpit.tui.catalog_rows import STATE_CELLS
from cockpit.tui.commands import bindings
from cockpit.tui.content import Row, Segment, row_content
from cockpit.tui.screens.base import CockpitScreen
from cockpit.tui.widgets.menu_table import MenuTable

_COLUMNS = (("state", 10), ("instance", 25), ("url", 23), ("pid", 7), ("up", 8))


class InstancesScreen(CockpitScreen):
    """The same list as `cockpit ps`, kept current."""

    COMMANDS_OF = "instances"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("instances")]

    def compose_body(self) -> ComposeResult:
        """One table, and a line about the marked row."""
        yield Static(
            row_content([("── instances ", "title"), ("─" * 300, "dim")]), id="instances-title", markup=False
        )
        yield MenuTable("instances")
        yield Static("", id="instances-note", markup=False)
        yield Static("", id="instances-empty", markup=False)

    @property
    def _table(self) -> MenuTable:
        return self.query_one("#instances", MenuTable)

    def on_mount(self) -> None:
        """Follow the app."""
        self.watch(self.app, "others", self._set_rows)
        self._table.focus()

    def _set_instances(self) -> None:
        super()._set_instances()
        self._set_rows()

    def _set_rows(self) -> None:
        """The table as it should be, row by row."""
        rows = {view.record.name: _instance_texts(view) for view in self.cockpit.instances}
        rows |= {other.name: _other_texts(other) for other in self.cockpit.others if other.name not in rows}
        self._table.show(_COLUMNS, tuple(rows), rows.__getitem__)
        empty = "" if rows else " Nothing is served. esc leads to the catalog, ↵ there opens a slug's card."
        self.query_one("#instances-empty", Static).update(Content(empty))
        self._tell_marked()

    def show_step(self, name: str, step: str) -> None:
        """What a stop in progress does now."""
        self.query_one("#instances-note", Static).update(row_content([(f" {name}: {step}", "warn")]))

    @on(MenuTable.Marked)
    def _tell_marked(self) -> None:
        """What there is to say about the marked row."""
        name = self._table.marked_key()
        other = next((other for other in self.cockpit.others if other.name == name), None)
        self.query_one("#instances-note", Static).update(row_content([] if other is None else _note(other)))

    @on(MenuTable.Chosen)
    def _row_chosen(self, message: MenuTable.Chosen) -> None:
        self._open(message.key)

    def action_open(self) -> None:
        """The marked server's screen."""
        self._open(self._table.marked_key())

    def _open(self, name: str | None) -> None:
        if any(other.name == name and other.kind == "orphans" for other in self.cockpit.others):
            self.cockpit.inform("they serve nothing; K ends them")
        elif name is not None:
            self.cockpit.show_instance(name, replace=True)

    def action_stop(self) -> None:
        """Stop the marked server; asks first."""
        name = self._table.marked_key()
        if name is not None:
            self.cockpit.ask_stop(name)

    def action_back(self) -> None:
        """Back."""
        self.app.pop_screen()


def _instance_texts(view: InstanceView) -> list[Segment]:
    record = view.record
    pid = str(record.process.pid) if record.process else units.UNKNOWN
    up = units.duration((record.ended_at or time.time()) - record.created_at)
    return [STATE_CELLS[view.state], (record.name, ""), (record.url, ""), (pid, ""), (up, "")]


def _other_texts(other: Other) -> list[Segment]:
    state = ("⚠ orphans", "warn") if other.kind == "orphans" else STATE_CELLS[other_state(other)]
    pid = units.UNKNOWN if other.pid is None else str(other.pid)
    up = units.UNKNOWN if other.started_at is None else units.duration(max(0.0, time.time() - other.started_at))
    return [state, (other.name, ""), (other.url or units.UNKNOWN, ""), (pid, ""), (up, "")]


def other_state(other: Other) -> str:
    """What a server that no cockpit started is doing, as far as its process shows."""
    return "starting" if other.is_starting else "foreign"


def _note(other: Other) -> Row:
    if other.kind == "orphans":
        return [(" left by a dead server: ", "warn"), (other.what, ""), (" · K ends them", "dim")]
    return [(" not started by a cockpit: ", "dim"), (other.what, "")]
