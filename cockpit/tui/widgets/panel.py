"""Lines of text: only those that changed are drawn again, and only another height lays the screen out again."""

from __future__ import annotations

from textual.content import Content
from textual.geometry import Region
from textual.widget import Widget

from cockpit.tui.content import Row, rows_content


class Panel(Widget):
    """Text without markup. A layout of the whole screen costs 5 ms, a repaint of one line a fraction of one."""

    DEFAULT_CSS = "Panel { height: auto; }"

    def __init__(self, id: str, *, wraps: bool = False) -> None:
        super().__init__(id=id)
        self._rows: list[Row] = []
        self._content = Content("")
        self._shown = False
        self._wraps = wraps

    def render(self) -> Content:
        """The lines."""
        return self._content

    def show(self, rows: list[Row]) -> None:
        """Show these lines; ``wraps`` panels may change their height with any change of their text."""
        if self._shown and rows == self._rows:
            return
        before, self._rows = self._rows, rows
        self._content = rows_content(rows)
        if not self._shown or self._wraps or len(rows) != len(before):
            self._shown = True
            self.refresh(layout=True)
            return
        changed = [y for y, (old, new) in enumerate(zip(before, rows, strict=True)) if old != new]
        self.refresh(*(Region(0, y, self.size.width, 1) for y in changed))
