"""Rows to choose from, under one line of titles: a row's cells are asked for only when the row is drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment as RichSegment
from rich.style import Style as RichStyle
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.style import Style

from cockpit.tui.content import STYLES, Segment, printable

Column = tuple[str, int]
"""Title, and width in terminal cells."""
Cells = Callable[[str], Sequence[Segment]]
"""The cells of the row of that key, one for each column."""


class MenuTable(ScrollView, can_focus=True):
    """One row is marked; Enter or a second click chooses it.

    A thousand rows cost what a screen of them costs. Enter stays with the table: a key of the screen would overtake
    arrow keys that are still on their way.
    """

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {"menu-table--titles", "menu-table--marked"}
    DEFAULT_CSS = """
    MenuTable {
        overflow-x: hidden;
        & > .menu-table--titles { color: $foreground 60%; }
        & > .menu-table--marked {
            background: $block-cursor-blurred-background;
            color: $block-cursor-blurred-foreground;
            text-style: $block-cursor-blurred-text-style;
        }
        &:focus > .menu-table--marked {
            background: $block-cursor-background;
            color: $block-cursor-foreground;
            text-style: $block-cursor-text-style;
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "open", key_display="↵"),
        Binding("up", "move(-1)", "up", show=False),
        Binding("down", "move(1)", "down", show=False),
        Binding("pageup", "move_page(-1)", "page up", show=False),
        Binding("pagedown", "move_page(1)", "page down", show=False),
        Binding("home,ctrl+home", "first", "first", show=False),
        Binding("end,ctrl+end", "last", "last", show=False),
    ]

    class Marked(Message):
        """Another row is marked."""

    class Chosen(Message):
        """A row was chosen: that of ``key``, whichever is marked by the time this is heard."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._columns: tuple[Column, ...] = ()
        self._cells: Cells = lambda _: ()
        self._marked = 0
        self._strips: dict[tuple[str, bool], Strip] = {}
        self.keys: tuple[str, ...] = ()

    def show(self, columns: Sequence[Column], keys: Sequence[str], cells: Cells) -> None:
        """Show these rows; the mark stays with its row, or with its place where that row is gone."""
        marked = self.marked_key()
        self._columns, self.keys, self._cells = tuple(columns), tuple(keys), cells
        self._marked = self.keys.index(marked) if marked in self.keys else min(self._marked, len(self.keys) - 1)
        self._marked = max(0, self._marked)
        self.virtual_size = Size(1, len(self.keys) + 1)
        self.redraw()
        self._scroll_to_marked()

    def redraw(self) -> None:
        """The cells of some rows are others now."""
        self._strips.clear()
        self.refresh()

    def marked_key(self) -> str | None:
        """The key of the marked row; None when there is none."""
        return self.keys[self._marked] if self.keys else None

    def mark(self, row: int) -> None:
        """Mark the row of that number, or the nearest there is."""
        row = max(0, min(row, len(self.keys) - 1))
        if row == self._marked:
            return
        before, self._marked = self._marked, row
        self._scroll_to_marked()
        top = 1 - self.scroll_offset.y
        self.refresh(*(Region(0, top + changed, self.size.width, 1) for changed in (before, row)))
        self.post_message(self.Marked())

    def mark_key(self, key: str) -> None:
        """Mark the row of that key, if there is one."""
        if key in self.keys:
            self.mark(self.keys.index(key))

    @property
    def _page(self) -> int:
        return max(1, self.size.height - 1)

    def _scroll_to_marked(self) -> None:
        top = self.scroll_offset.y
        wanted = max(min(top, self._marked), self._marked - self._page + 1)
        if wanted != top:
            self.scroll_to(y=wanted, animate=False, immediate=True)

    # Drawing

    def notify_style_update(self) -> None:
        """Another theme, or another focus."""
        super().notify_style_update()
        self._strips.clear()

    def on_resize(self) -> None:
        """The marked row stays in sight."""
        self._strips.clear()
        self._scroll_to_marked()

    def render_line(self, y: int) -> Strip:
        """The titles, or the row that is scrolled to this line."""
        row = y - 1 + self.scroll_offset.y
        if y == 0:
            style = self.get_visual_style("menu-table--titles")
            return self._strip([(title, "") for title, _ in self._columns], lambda _: style.rich_style)
        if row >= len(self.keys):
            return Strip.blank(self.size.width, self.rich_style)
        key, marked = self.keys[row], row == self._marked
        strip = self._strips.get((key, marked))
        if strip is None:
            strip = self._strips[key, marked] = self._strip(self._cells(key), self._style_of(marked))
        return strip

    def _style_of(self, marked: bool) -> Callable[[str], RichStyle]:
        if marked:
            style = self.get_visual_style("menu-table--marked").rich_style
            return lambda _: style
        base, variables = self.get_visual_style(), self.app.theme_variables
        return lambda name: (base + Style.parse(STYLES[name], variables)).rich_style

    def _strip(self, cells: Sequence[Segment], style_of: Callable[[str], RichStyle]) -> Strip:
        segments = [
            RichSegment(_fit(printable(text).replace("\n", " "), width) + " ", style_of(style))
            for (text, style), (_, width) in zip(cells, self._columns, strict=True)
        ]
        strip = Strip(segments, sum(width + 1 for _, width in self._columns))
        return strip.adjust_cell_length(self.size.width, style_of(""))

    # Keys and clicks

    def on_click(self, event: events.Click) -> None:
        """The first click marks, one on the marked row chooses."""
        row = event.y - 1 + self.scroll_offset.y
        if event.y == 0 or row >= len(self.keys):
            return
        if row == self._marked:
            self.post_message(self.Chosen(self.keys[row]))
        self.mark(row)
        event.stop()

    def action_choose(self) -> None:
        """Choose the marked row."""
        if self.keys:
            self.post_message(self.Chosen(self.keys[self._marked]))

    def action_move(self, rows: int) -> None:
        """Up or down."""
        self.mark(self._marked + rows)

    def action_move_page(self, pages: int) -> None:
        """A screen up or down."""
        self.mark(self._marked + pages * self._page)

    def action_first(self) -> None:
        """To the first row."""
        self.mark(0)

    def action_last(self) -> None:
        """To the last row."""
        self.mark(len(self.keys) - 1)


def _fit(text: str, width: int) -> str:
    """Exactly so many terminal cells, with an ellipsis where it had to be cut."""
    return set_cell_size(text, width) if cell_len(text) <= width else set_cell_size(text, width - 1) + "…"
