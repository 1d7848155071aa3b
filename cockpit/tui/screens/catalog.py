"""Home: the slugs, what each allows, and what is serving."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult, SuspendNotSupported
from textual.binding import BindingType
from textual.widgets import Input, Static

from cockpit.catalog.load import Catalog, Entry, Problem
from cockpit.errors import CockpitError
from cockpit.tui.catalog_rows import (
    BY_FITS,
    SORTS,
    cells,
    detail_rows,
    problem_cells,
    problem_rows,
    sort_entries,
    visible_columns,
)
from cockpit.tui.commands import bindings
from cockpit.tui.content import Row, Segment, row_content
from cockpit.tui.screens.base import CockpitScreen
from cockpit.tui.widgets.edit_box import EditBox
from cockpit.tui.widgets.menu_table import MenuTable
from cockpit.tui.widgets.rows_view import RowsView
from cockpit.tui.workers import run_in_thread, tell

if TYPE_CHECKING:
    from cockpit.launch.plan import Facts
    from cockpit.rules.finding import ToggleState

_BARS = 4
"""Lines of the status bar, the filter, the detail's title and the footer."""
_LEAST_TABLE = 7
"""Lines that the table keeps, its titles among them."""
_USUAL_DETAIL = 8
"""Lines of the detail that most slugs do with: the table does not jump from one to the next."""


class CatalogScreen(CockpitScreen):
    """One row a slug; the detail pane says why what is blocked is blocked."""

    COMMANDS_OF = "catalog"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("catalog")]

    def __init__(self) -> None:
        super().__init__()
        self._sort = SORTS[0]
        self._shown: dict[str, Entry | Problem] = {}
        self._drawn: Catalog | None = None
        self._built_width = 0
        self._detail_height = 0
        self._columns: list[tuple[str, str, int]] = []

    def compose_body(self) -> ComposeResult:
        """Filter, table, detail."""
        yield EditBox(placeholder="/ filter: words of name, model or weights · by name", id="filter", compact=True)
        yield MenuTable("slugs")
        yield Static("", id="detail-title", markup=False)
        yield RowsView("detail", wraps=True)

    @property
    def _table(self) -> MenuTable:
        return self.query_one("#slugs", MenuTable)

    def on_mount(self) -> None:
        """Fill the table, and follow the app's knowledge."""
        self._table.focus()
        self.watch(self.app, "instances", self._refresh_states, init=False)
        self.watch(self.app, "rig", self.rebuild, init=False)
        self.watch(self.app, "judged", self._refresh_fits, init=False)

    def on_resize(self, event: events.Resize) -> None:
        """Other widths show other columns."""
        if event.size.width != self._built_width:
            self.rebuild()
        elif self._shown:
            self._show_detail()

    def on_screen_resume(self) -> None:
        """The catalog may have been read again meanwhile."""
        self._table.focus()
        if self._drawn is not self.cockpit.shelf.catalog:
            self.rebuild()

    def _facts(self, entry: Entry) -> Facts:
        """What is known so far, for the int8 column and the detail pane; never blocks."""
        return self.cockpit.display_facts(entry)

    def _int8(self, entry: Entry) -> tuple[ToggleState, str] | None:
        """Whether int8 is offered, and its value; None until the rig is known."""
        if self.cockpit.rig is None:
            return None
        from cockpit.launch.plan import context_for, toggle_states

        ctx = context_for(entry.slug, {}, self._facts(entry))
        return toggle_states(ctx)["int8"], ctx.values["int8"]

    def _toggles(self, entry: Entry) -> dict[str, ToggleState]:
        """What every toggle of a slug may do; nothing until the rig is known."""
        if self.cockpit.rig is None:
            return {}
        from cockpit.launch.plan import context_for, toggle_states

        return toggle_states(context_for(entry.slug, {}, self._facts(entry)))

    def _cells(self, name: str) -> list[Segment]:
        """The row of a slug or of a broken file, as the table draws it."""
        item = self._shown[name]
        if isinstance(item, Problem):
            texts = problem_cells(item)
        else:
            texts = cells(item, self.cockpit.state_of(name), self._int8(item), self.cockpit.judged.get(name))
        return [texts[key] for key, _, _ in self._columns]

    def rebuild(self) -> None:
        """Draw the whole table anew, keeping the marked row."""
        if not self.is_mounted or self.size.width == 0:
            return
        self._built_width = self.size.width
        catalog = self._drawn = self.cockpit.shelf.catalog
        words = self.query_one("#filter", Input).value
        items: list[Entry | Problem] = [*sort_entries(catalog.matching(words), self._sort, self.cockpit.judged)]
        items += [problem for problem in catalog.problems if words.lower() in problem.name.lower()]
        self._columns = visible_columns(self.size.width)
        self._shown = {item.slug.name if isinstance(item, Entry) else f"broken {item.file}": item for item in items}
        columns = [(title, width) for _, title, width in self._columns]
        self._table.show(columns, tuple(self._shown), self._cells)
        self._show_detail()

    def _refresh_states(self) -> None:
        """Rows are where they were."""
        self._table.redraw()

    def _refresh_fits(self) -> None:
        """Rows are where they were, unless they are sorted by their fit."""
        if self._sort == BY_FITS:
            self.rebuild()
            return
        self._table.redraw()
        self._show_detail()

    def marked(self) -> Entry | Problem | None:
        """What the marked row stands for."""
        return self._shown.get(self._table.marked_key() or "")

    @on(MenuTable.Marked)
    def _show_detail(self) -> None:
        item = self.marked()
        title, rows = self.query_one("#detail-title", Static), self._detail_rows(item)
        head: Segment = ("", "")
        if isinstance(item, Entry):
            head = (f"── {item.slug.name} ", "title")
        elif item is not None:
            head = (f"── {item.name} ", "bad")
        title.update(row_content([head, ("─" * self.size.width, "dim")]), layout=False)
        detail = self.query_one("#detail", RowsView)
        detail.show(rows)
        detail.scroll_to(y=0, animate=False, immediate=True)
        self._make_room(len(detail.lines_of(rows, self.size.width - 1)))

    def _detail_rows(self, item: Entry | Problem | None) -> list[Row]:
        if item is None:
            return [[(" No slug matches. Escape in the filter clears it.", "")]]
        if isinstance(item, Problem):
            return problem_rows(item)
        return detail_rows(item, self._toggles(item), self.cockpit.judged.get(item.slug.name))

    def _make_room(self, lines: int) -> None:
        """The detail has what the table leaves, and more where this slug needs it."""
        room = self.size.height - _BARS
        needed = max(_USUAL_DETAIL, lines)
        height = max(room - len(self._shown) - 1, min(needed, room - _LEAST_TABLE), 2)
        if height != self._detail_height:
            self._detail_height = height
            self.query_one("#detail").styles.height = height

    @on(Input.Changed, "#filter")
    def _filter_changed(self) -> None:
        """The mark stays with its row; where that one is filtered out, the first match is marked."""
        marked = self._table.marked_key()
        self.rebuild()
        if marked not in self._table.keys:
            self._table.mark(0)

    @on(Input.Submitted, "#filter")
    def _filter_done(self) -> None:
        self._table.focus()

    @on(MenuTable.Chosen)
    def _row_chosen(self, message: MenuTable.Chosen) -> None:
        self._open(self._shown.get(message.key))

    def on_key(self, event: events.Key) -> None:
        """Escape clears the filter; in it, ↓ leads to the table as well."""
        box = self.query_one("#filter", Input)
        if event.key == "escape" and (box.has_focus or box.value):
            box.value = ""
        elif not (event.key == "down" and box.has_focus):
            return
        self._table.focus()
        event.stop()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """In the filter its own key is a letter."""
        if action == "filter" and self.is_mounted and self.query_one("#filter", Input).has_focus:
            return False
        return super().check_action(action, parameters)

    def action_open(self) -> None:
        """The marked slug's card, or its instance when it is being served."""
        self._open(self.marked())

    def _open(self, item: Entry | Problem | None) -> None:
        if isinstance(item, Problem):
            self.cockpit.warn(item.title, item.fix)
        elif item is not None:
            self.cockpit.open_slug(item)

    def action_filter(self) -> None:
        """Begin typing, with the very next key."""
        self.set_focus(self.query_one("#filter", Input))

    def action_sort(self) -> None:
        """The next order."""
        self._sort = SORTS[(SORTS.index(self._sort) + 1) % len(SORTS)]
        self.query_one("#filter", Input).placeholder = f"/ filter: words of name, model or weights · by {self._sort}"
        self.rebuild()

    def action_refresh_facts(self) -> None:
        """Read everything again."""
        self.cockpit.gather_facts(again=True)

    def action_stop(self) -> None:
        """Stop the marked slug's server."""
        item = self.marked()
        if isinstance(item, Entry):
            self.cockpit.ask_stop_slug(item.slug.name)

    def action_new(self) -> None:
        """A slug for a checkpoint; the new row is marked."""
        from cockpit.tui.screens.dialogs import new_slug_question

        self.app.push_screen(new_slug_question(), self._new_answered)

    def _new_answered(self, source: str | None) -> None:
        if source is not None:
            run_in_thread(self, lambda: self._write_slug(source), "new", partial(self._new_failed, source))

    def _new_failed(self, source: str, title: str, fix: str) -> None:
        """The same question again, with what was typed and what is wrong with it."""
        from cockpit.tui.screens.dialogs import new_slug_question

        self.app.push_screen(new_slug_question(source, f"{title}. {fix}"), self._new_answered)

    def _write_slug(self, source: str) -> None:
        """In a thread: reading headers of a large checkpoint takes a moment."""
        file, slug = self.cockpit.session.new_slug(source)
        tell(self, self._slug_written, slug.name, str(file))

    def _slug_written(self, name: str, file: str) -> None:
        self.query_one("#filter", Input).value = ""
        self.rebuild()
        self._table.mark_key(name)
        self.cockpit.inform(f"{name} is written to {file}; e opens it")
        self.cockpit.gather_facts()

    def action_edit(self) -> None:
        """The marked file in the user's editor, with the screen set aside."""
        item = self.marked()
        if item is None:
            return
        from cockpit.tui.editor import edit, editor_words, own_copy

        try:
            words = editor_words()
            file = own_copy(item) if isinstance(item, Entry) else item.file
            with self.app.suspend():
                edit(file, words)
        except CockpitError as error:
            self.cockpit.warn(error.title, error.fix)
            return
        except SuspendNotSupported:
            self.cockpit.warn("this terminal cannot set the screen aside", f"Edit {item.file} in another one.")
            return
        # At once: Enter must not open the slug as it was before.
        self.cockpit.shelf.reread_slugs()
        self.rebuild()
        self.cockpit.gather_facts(again=True)
