"""Rows of text in a place of a size of its own: other text never lays the screen out again."""

from __future__ import annotations

from rich.segment import Segment as RichSegment
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from cockpit.tui.content import Row, row_text
from cockpit.tui.widgets.row_strips import RowStrips
from cockpit.tui.wrap import cut, one_line, wrap


class RowsView(ScrollView):
    """Lines without markup, wrapped with a hanging indent or cut at the right; only those that changed are painted.

    A layout of the whole screen costs 10 ms and paints all of it; this needs one when its place changes alone.
    """

    DEFAULT_CSS = "RowsView { overflow-x: hidden; }"

    def __init__(self, id: str, *, wraps: bool = False) -> None:
        super().__init__(id=id)
        self.rows: list[Row] = []
        """As they were given, in whole."""
        self._wraps = wraps
        self._lines: list[Row] = []
        self._strips = RowStrips(self)
        self._width = 0

    @property
    def text(self) -> str:
        """All of it, also what is scrolled out of view."""
        return "\n".join(row_text(one_line(row)) for row in self.rows)

    @property
    def text_width(self) -> int:
        """Cells for a line; 0 before it has a place."""
        return self.scrollable_content_region.width

    def show(self, rows: list[Row]) -> None:
        """Show these rows instead."""
        if rows == self.rows and self._width == self.text_width:
            return
        self.rows = rows
        self._arrange()

    def lines_of(self, rows: list[Row], width: int) -> list[Row]:
        """The rows as lines of ``width`` cells."""
        clean = [one_line(row) for row in rows]
        if not self._wraps:
            return [cut(row, width) for row in clean]
        return [line for row in clean for line in wrap(row, width)]

    def reveal(self, line: int) -> None:
        """Scroll as far as it takes to see that line."""
        top, height = self.scroll_offset.y, self.size.height
        wanted = max(min(top, line), line - height + 1)
        if height and wanted != top:
            self.scroll_to(y=wanted, animate=False, immediate=True)

    def _arrange(self) -> None:
        before, self._width = self._lines, self.text_width
        if not self._width:
            return
        self._lines = self.lines_of(self.rows, self._width)
        longest = max(len(before), len(self._lines))
        changed = [y for y in range(longest) if before[y : y + 1] != self._lines[y : y + 1]]
        for y in changed:
            self._strips.drop(y)
        if len(before) != len(self._lines):
            # As a reactive it would ask for a layout, and its place is the same.
            self.set_reactive(Widget.virtual_size, Size(1, len(self._lines)))
            self._scroll_update(self.virtual_size)
        top, height = self.scroll_offset.y, self.size.height
        if shown := [Region(0, y - top, self.size.width, 1) for y in changed if top <= y < top + height]:
            self.refresh(*shown)

    # Drawing

    def notify_style_update(self) -> None:
        """Another theme."""
        super().notify_style_update()
        self._strips.clear()

    def on_resize(self) -> None:
        """Another width wraps elsewhere."""
        if self.text_width != self._width:
            self._strips.clear()
            self._arrange()

    def render_line(self, y: int) -> Strip:
        """The line that is scrolled to this one."""
        at = y + self.scroll_offset.y
        if at >= len(self._lines):
            return self._strips.blank()
        strip = self._strips.strip(at, self._lines[at])
        selection = self.text_selection
        return strip if selection is None else self._selected(strip, selection, at)

    # Selecting with the mouse

    def _selected(self, strip: Strip, selection: Selection, at: int) -> Strip:
        span = selection.get_span(at)
        if span is None:
            return strip
        start, end = span[0], strip.cell_length if span[1] < 0 else span[1]
        middle = RichSegment.apply_style(strip.crop(start, end), post_style=self.selection_style)
        return Strip.join([strip.crop(0, start), Strip(middle), strip.crop(end)])

    def get_selection(self, selection: Selection) -> tuple[str, str]:
        """The selected text, as it stands on the screen."""
        return selection.extract("\n".join(row_text(line) for line in self._lines)), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        """Paint it."""
        self.refresh()
