"""Lines of text that are drawn again only when they changed, and laid out again only when their number did."""

from __future__ import annotations

from textual.widgets import Static

from cockpit.tui.content import Row, rows_content


class Panel(Static):
    """Text without markup. A layout of the whole screen costs 5 ms, a repaint of one panel a fraction of that."""

    def __init__(self, id: str, *, wraps: bool = False) -> None:
        super().__init__("", id=id, markup=False)
        self._rows: list[Row] | None = None
        self._wraps = wraps

    def show(self, rows: list[Row]) -> None:
        """Show these lines; ``wraps`` panels may change their height with any change of their text."""
        if rows == self._rows:
            return
        layout = self._wraps or self._rows is None or len(rows) != len(self._rows)
        self._rows = rows
        self.update(rows_content(rows), layout=layout)
