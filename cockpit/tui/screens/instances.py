"""Every server on record."""

from __future__ import annotations

import time
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import DataTable, Static

from cockpit import units
from cockpit.tui.catalog_rows import STATE_CELLS
from cockpit.tui.commands import bindings
from cockpit.tui.content import cell_content, row_content
from cockpit.tui.screens.base import CockpitScreen
from cockpit.tui.widgets.menu_table import MenuTable

_COLUMNS = (("state", 11), ("instance", 26), ("url", 24), ("pid", 8), ("up", 9))


class InstancesScreen(CockpitScreen):
    """The same list as `cockpit ps`, kept current."""

    COMMANDS_OF = "instances"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("instances")]

    def compose_body(self) -> ComposeResult:
        """One table."""
        yield Static(
            row_content([("── instances ", "title"), ("─" * 300, "dim")]), id="instances-title", markup=False
        )
        yield MenuTable("instances")
        yield Static("", id="instances-empty", markup=False)

    @property
    def _table(self) -> MenuTable:
        return self.query_one("#instances", MenuTable)

    def on_mount(self) -> None:
        """Columns, and follow the app."""
        for title, width in _COLUMNS:
            self._table.add_column(title, width=width, key=title)
        super().on_mount()
        self._table.focus()

    def _set_instances(self) -> None:
        super()._set_instances()
        views = self.cockpit.instances
        table = self._table
        wanted = {view.record.name for view in views}
        for key in [row.value for row in table.rows]:
            if key not in wanted and key is not None:
                table.remove_row(key)
        for view in views:
            record = view.record
            word, style = STATE_CELLS[view.state]
            up = units.duration((record.ended_at or time.time()) - record.created_at)
            texts = (word, record.name, record.url, str(record.process.pid) if record.process else units.UNKNOWN, up)
            cells = [cell_content(text, style if index == 0 else "") for index, text in enumerate(texts)]
            if record.name in table.rows:
                for (title, _), cell in zip(_COLUMNS, cells, strict=True):
                    table.update_cell(record.name, title, cell)
            else:
                table.add_row(*cells, key=record.name)
        empty = "" if views else " Nothing is served. esc leads to the catalog, ↵ there opens a slug's card."
        self.query_one("#instances-empty", Static).update(Content(empty))

    @on(DataTable.RowSelected)
    def _row_chosen(self) -> None:
        self.action_open()

    def action_open(self) -> None:
        """The marked server's screen."""
        name = self._table.marked_key()
        if name is not None:
            self.cockpit.show_instance(name, replace=True)

    def action_stop(self) -> None:
        """Stop the marked server; asks first."""
        name = self._table.marked_key()
        if name is not None:
            self.cockpit.ask_stop(name)

    def action_back(self) -> None:
        """Back."""
        self.app.pop_screen()
