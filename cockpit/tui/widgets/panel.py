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
        self._needed: tuple[int, int] | None = None
        """Width and lines of what is shown; None before something is, and where that is not known."""
        self._wraps = wraps

    def render(self) -> Content:
        """The lines."""
        return self._content

    def show(self, rows: list[Row]) -> None:
        """Show these lines; those of a ``wraps`` panel may need more of the screen's lines, or fewer, than before."""
        if self._shown and rows == self._rows:
            return
        self._shown = True
        before, self._rows = self._rows, rows
        self._content = rows_content(rows)
        had, self._needed = self._needed, self._needs()
        if self._needed is None or had != self._needed:
            self.refresh(layout=True)
        elif self._wraps:
            self.refresh()
        else:
            changed = [y for y, (old, new) in enumerate(zip(before, rows, strict=True)) if old != new]
            self.refresh(*(Region(0, y, self.size.width, 1) for y in changed))

    def _needs(self) -> tuple[int, int] | None:
        """Width, and the lines of the screen that the text needs there; None as long as that cannot be known."""
        width = self.size.width
        if not self._wraps:
            return 0, len(self._rows)
        return (width, self._content.get_height(self.styles.get_rules(), width)) if width else None
