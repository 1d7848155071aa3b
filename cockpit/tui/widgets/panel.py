"""Lines of text: only those that changed are drawn again, and only another height lays the screen out again."""

from __future__ import annotations

from textual.content import Content
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from cockpit.tui.content import Row, rows_content
from cockpit.tui.widgets.row_strips import RowStrips
from cockpit.tui.wrap import cut, one_line


class Panel(Widget):
    """Text without markup, a line a row. A layout of the whole screen costs 5 ms, a repaint of a line hardly any."""

    DEFAULT_CSS = "Panel { height: auto; }"

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._rows: list[Row] | None = None
        self._strips = RowStrips(self)

    def render(self) -> Content:
        """The lines, for the layout and while some of them are selected."""
        return rows_content(map(one_line, self._rows or []))

    def render_line(self, y: int) -> Strip:
        """One line; all of them are rendered together only to show what is selected."""
        if self.text_selection is not None:
            return super().render_line(y)
        if self._rows is None or y >= len(self._rows):
            return self._strips.blank()
        has_ellipsis = self.styles.text_overflow == "ellipsis"
        row = self._rows[y]
        return self._strips.strip(y, cut(row, self.size.width) if has_ellipsis else row)

    def notify_style_update(self) -> None:
        """Another theme, or other styles of its own."""
        super().notify_style_update()
        self._strips.clear()

    def show(self, rows: list[Row]) -> None:
        """Show these lines instead."""
        before, self._rows = self._rows, rows
        if rows == before:
            return
        if before is None or len(before) != len(rows):
            self._strips.clear()
            self.refresh(layout=True)
            return
        changed = [y for y, (old, new) in enumerate(zip(before, rows, strict=True)) if old != new]
        for y in changed:
            self._strips.drop(y)
        self.refresh(*(Region(0, y, self.size.width, 1) for y in changed))
