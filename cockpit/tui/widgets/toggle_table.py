"""The list of toggles on the serve card: drawn as text, clickable by row."""

from __future__ import annotations

from textual import events
from textual.message import Message

from cockpit.tui.widgets.rows_view import RowsView


class ToggleTable(RowsView):
    """Row n of its text belongs to toggle n; a click on a row presses that toggle's key."""

    class Pressed(Message):
        """A row was clicked."""

        def __init__(self, row: int) -> None:
            super().__init__()
            self.row = row

    def __init__(self, id: str) -> None:
        super().__init__(id, wraps=True)

    def on_click(self, event: events.Click) -> None:
        """Say which row; only the last one may be longer than a line."""
        self.post_message(self.Pressed(event.y + self.scroll_offset.y))
