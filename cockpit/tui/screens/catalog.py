"""Home: the slugs, what each allows, and what is serving."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult, SuspendNotSupported
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import DataTable, Input, Static

from cockpit.catalog.load import Catalog, Entry, Problem
from cockpit.errors import CockpitError
from cockpit.launch.plan import Facts, context_for, toggle_states
from cockpit.tui.catalog_rows import (
    BY_FITS,
    SORTS,
    STATE_CELLS,
    cells,
    detail_rows,
    fit_cell,
    problem_cells,
    sort_entries,
    visible_columns,
)
from cockpit.tui.commands import bindings
from cockpit.tui.content import cell_content, row_content, rows_content
from cockpit.tui.editor import edit, editor_words, own_copy
from cockpit.tui.screens.base import CockpitScreen
from cockpit.tui.screens.dialogs import new_slug_question
from cockpit.tui.widgets.menu_table import MenuTable
from cockpit.tui.workers import run_in_thread


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

    def compose_body(self) -> ComposeResult:
        """Filter, table, detail."""
        yield Input(placeholder="/ filter: words of name, model or weights · by name", id="filter", compact=True)
        yield MenuTable("slugs")
        yield Static("", id="detail-title", markup=False)
        with VerticalScroll(id="detail-scroll", can_focus=False):
            yield Static("", id="detail", markup=False)

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

    def on_screen_resume(self) -> None:
        """The catalog may have been read again meanwhile."""
        self._table.focus()
        if self._drawn is not self.cockpit.session.catalog:
            self.rebuild()

    def _facts(self, entry: Entry) -> Facts:
        """What is known so far, for the int8 column and the detail pane; never blocks."""
        return self.cockpit.display_facts(entry)

    def _row(self, item: Entry | Problem, columns: list[tuple[str, str, int]]) -> list[Content]:
        if isinstance(item, Problem):
            texts = problem_cells(item)
        else:
            ctx = context_for(item.slug, {}, self._facts(item))
            int8 = toggle_states(ctx)["int8"]
            name = item.slug.name
            judged = self.cockpit.judged.get(name)
            texts = cells(item, self.cockpit.state_of(name), (int8, ctx.values["int8"]), judged)
        return [cell_content(_fit(texts[key][0], width) + " ", texts[key][1]) for key, _, width in columns]

    def rebuild(self) -> None:
        """Draw the whole table anew, keeping the marked row."""
        if not self.is_mounted or self.size.width == 0:
            return
        self._built_width = self.size.width
        marked = self._table.marked_key()
        catalog = self._drawn = self.cockpit.session.catalog
        words = self.query_one("#filter", Input).value
        items: list[Entry | Problem] = [*sort_entries(catalog.matching(words), self._sort, self.cockpit.judged)]
        items += [problem for problem in catalog.problems if words.lower() in problem.name.lower()]
        columns = visible_columns(self.size.width)
        table = self._table
        with self.app.batch_update():
            table.clear(columns=True)
            for key, title, width in columns:
                table.add_column(title, width=width + 1, key=key)
            self._shown = {}
            for item in items:
                name = item.slug.name if isinstance(item, Entry) else f"broken {item.file}"
                self._shown[name] = item
                table.add_row(*self._row(item, columns), key=name)
        if marked in self._shown:
            table.move_cursor(row=table.get_row_index(marked))
        self._show_detail()

    def _refresh_states(self) -> None:
        """Only the state cells: the rest cannot have changed."""
        for name, item in self._shown.items():
            if isinstance(item, Entry):
                text, style = STATE_CELLS[self.cockpit.state_of(name) or "idle"]
                self._table.update_cell(name, "state", cell_content(f"{text:<11}", style))

    def _refresh_fits(self) -> None:
        """The cells alone, unless the rows are sorted by them."""
        if self._sort == BY_FITS:
            self.rebuild()
            return
        for name, item in self._shown.items():
            if isinstance(item, Entry):
                text, style = fit_cell(self.cockpit.judged.get(name))
                self._table.update_cell(name, "fits", cell_content(f"{text:<23}", style))
        self._show_detail()

    def marked(self) -> Entry | Problem | None:
        """What the marked row stands for."""
        return self._shown.get(self._table.marked_key() or "")

    @on(DataTable.RowHighlighted)
    def _show_detail(self) -> None:
        item = self.marked()
        title, detail = self.query_one("#detail-title", Static), self.query_one("#detail", Static)
        if item is None:
            title.update("")
            detail.update(Content(" No slug matches. Escape in the filter clears it."))
        elif isinstance(item, Problem):
            title.update(row_content([(f"── {item.name} ", "bad")]))
            detail.update(row_content([(f" {item.title}. {item.detail} {item.fix}", "")]))
        else:
            title.update(row_content([(f"── {item.slug.name} ", "title"), ("─" * self.size.width, "dim")]))
            ctx = context_for(item.slug, {}, self._facts(item))
            judged = self.cockpit.judged.get(item.slug.name)
            detail.update(rows_content(detail_rows(item, toggle_states(ctx), judged)))

    @on(Input.Changed, "#filter")
    def _filter_changed(self) -> None:
        self.rebuild()

    @on(Input.Submitted, "#filter")
    def _filter_done(self) -> None:
        self._table.focus()

    @on(DataTable.RowSelected)
    def _row_clicked(self) -> None:
        self.action_open()

    def on_key(self, event: events.Key) -> None:
        """Escape clears the filter; in it, ↓ leads to the table as well."""
        box = self.query_one("#filter", Input)
        if event.key == "escape" and (box.has_focus or box.value):
            box.value = ""
        elif not (event.key == "down" and box.has_focus):
            return
        self._table.focus()
        event.stop()

    def action_open(self) -> None:
        """The marked slug's card, or its instance when it is being served."""
        item = self.marked()
        if isinstance(item, Problem):
            self.cockpit.warn(item.title, item.fix)
        elif item is not None:
            self.cockpit.open_slug(item)

    def action_filter(self) -> None:
        """Begin typing."""
        self.query_one("#filter", Input).focus()

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
        self.app.push_screen(new_slug_question(), self._new_answered)

    def _new_answered(self, source: str | None) -> None:
        if source is not None:
            run_in_thread(self, lambda: self._write_slug(source), "new", partial(self._new_failed, source))

    def _new_failed(self, source: str, title: str, fix: str) -> None:
        """The same question again, with what was typed and what is wrong with it."""
        self.app.push_screen(new_slug_question(source, f"{title}. {fix}"), self._new_answered)

    def _write_slug(self, source: str) -> None:
        """In a thread: reading headers of a large checkpoint takes a moment."""
        file, slug = self.cockpit.session.new_slug(source)
        self.call_later(self._slug_written, slug.name, str(file))

    def _slug_written(self, name: str, file: str) -> None:
        self.query_one("#filter", Input).value = ""
        self.rebuild()
        if name in self._shown:
            self._table.move_cursor(row=self._table.get_row_index(name))
        self.cockpit.inform(f"{name} is written to {file}; e opens it")
        self.cockpit.gather_facts()

    def action_edit(self) -> None:
        """The marked file in the user's editor, with the screen set aside."""
        item = self.marked()
        if item is None:
            return
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
        self.cockpit.session.reread_slugs()
        self.rebuild()
        self.cockpit.gather_facts(again=True)


def _fit(text: str, width: int) -> str:
    return f"{text:<{width}}" if len(text) <= width else text[: width - 1] + "…"
