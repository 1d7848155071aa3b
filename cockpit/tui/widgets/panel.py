"""Lines of text: only those that changed are drawn again, and only another height lays the screen out again."""

from __future__ import annotations

from textual.content import Content
from textual.geometry import Region
from textual.widget import Widget

from cockpit.tui.content import Row, rows_content


class Panel(Widget):
    """Text without markup, a line a row. A layout of the whole screen costs 5 ms, a repaint of a line hardly any."""

    DEFAULT_CSS = "Panel { height: auto; }"

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._rows: list[Row] | None = None
        self._content = Content("")

    def render(self) -> Content:
        """The lines."""
        return self._content

    def show(self, rows: list[Row]) -> None:
        """Show these lines instead."""
        before, self._rows = self._rows, rows
        if rows == before:
            return
        self._content = rows_content(rows)
        if before is None or len(before) != len(rows):
            self.refresh(layout=True)
            return
        changed = [y for y, (old, new) in enumerate(zip(before, rows, strict=True)) if old != new]
        self.refresh(*(Region(0, y, self.size.width, 1) for y in changed))
