"""Every server at once, a row of figures each: own, foreign and adopted ones, or those of given URLs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType

from cockpit.fleet_watch import FleetWatch, Look, Target, unique_targets
from cockpit.tui.commands import bindings
from cockpit.tui.fleet_rows import cells, detail_rows, plain_lines, targets_of, title_row, visible_columns
from cockpit.tui.screens.base import CockpitScreen
from cockpit.tui.widgets.menu_table import MenuTable
from cockpit.tui.widgets.panel import Panel
from cockpit.tui.wrap import wrap


class FleetScreen(CockpitScreen):
    """Draws once a tick what the threads of a FleetWatch last saw: it waits for none of them."""

    COMMANDS_OF = "fleet"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("fleet")]

    def __init__(self, watch: FleetWatch, urls: Sequence[str] = ()) -> None:
        super().__init__()
        self._watch = watch
        self._url_targets: tuple[Target, ...] = unique_targets(urls)
        self._looks: dict[str, Look] = {}

    def compose_body(self) -> ComposeResult:
        """Title, table, what there is to say about the marked server."""
        yield Panel("fleet-title")
        yield MenuTable("fleet")
        yield Panel("fleet-detail")

    @property
    def _table(self) -> MenuTable:
        return self.query_one("#fleet", MenuTable)

    def on_mount(self) -> None:
        """Follow the app's servers, unless URLs were given."""
        if not self._url_targets:
            self.watch(self.app, "others", self.redraw)
        self.set_interval(self.cockpit.shelf.config.refresh_seconds, self.redraw)
        self._table.focus()
        self.redraw()

    def on_unmount(self) -> None:
        """Ask no longer."""
        self._watch.close()

    def on_screen_suspend(self) -> None:
        """Another screen lies over this one, and may follow one of these servers itself."""
        self._watch.rest(True)

    def on_screen_resume(self) -> None:
        """Go on."""
        self._watch.rest(False)

    def on_resize(self, event: events.Resize) -> None:
        """Other widths show other columns."""
        self.redraw()

    def _set_instances(self) -> None:
        super()._set_instances()
        self.redraw()

    def redraw(self) -> None:
        """The table as it is by now."""
        self._watch.follow(self._url_targets or targets_of(self.cockpit.instances, self.cockpit.others))
        self._looks = {look.target.name: look for look in self._watch.looks()}
        columns = visible_columns(self.size.width)
        rows = {name: cells(look) for name, look in self._looks.items()}
        self._table.show(
            [(title, width) for _, title, width in columns],
            tuple(rows),
            lambda name: [rows[name][key] for key, _, _ in columns],
        )
        self.query_one("#fleet-title", Panel).show([title_row(list(self._looks.values()), self.size.width)])
        self._tell_marked()

    @on(MenuTable.Marked)
    def _tell_marked(self) -> None:
        """What there is to say about the marked server."""
        look = self._marked()
        empty = " Nothing is served. esc leads to the catalog, ↵ there opens a slug's card."
        rows = [[(empty, "dim")]] if look is None else detail_rows(look, self.size.width)
        self.query_one("#fleet-detail", Panel).show([line for row in rows for line in wrap(row, self.size.width)])

    def _marked(self) -> Look | None:
        name = self._table.marked_key()
        return None if name is None else self._looks.get(name)

    @on(MenuTable.Chosen)
    def _row_chosen(self, message: MenuTable.Chosen) -> None:
        self._open(self._looks.get(message.key))

    def action_open(self) -> None:
        """The marked server's own screen; back leads here again."""
        self._open(self._marked())

    def _open(self, look: Look | None) -> None:
        if look is None:
            return
        if look.target.is_listed:
            self.cockpit.show_instance(look.target.name)
        elif look.target.url is not None:
            self.cockpit.show_url(look.target.url)

    def action_stop(self) -> None:
        """Stop the marked server; asks first."""
        look = self._marked()
        if look is None:
            return
        if look.target.is_listed:
            self.cockpit.ask_stop(look.target.name)
        else:
            self.cockpit.inform(f"{look.target.name} is known by its URL alone: stop it where it runs")

    def action_copy(self) -> None:
        """The table with all its columns."""
        self.app.copy_to_clipboard("\n".join(plain_lines(list(self._looks.values()))))
        self.cockpit.inform("the table was sent to the terminal's clipboard")

    def action_back(self) -> None:
        """Back."""
        self.app.pop_screen()
