"""A table whose rows are opened with Enter or a double click, and whose footer says so."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import DataTable


class MenuTable(DataTable[Content]):
    """Enter stays with the table: a key of the screen would overtake arrow keys that are still on their way."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "select_cursor", "open", key_display="↵"),
        # A row is marked, never a cell: these lead to the first and last row, not to a column.
        Binding("home", "scroll_top", "first", show=False),
        Binding("end", "scroll_bottom", "last", show=False),
    ]

    def __init__(self, id: str) -> None:
        super().__init__(id=id, cursor_type="row", cell_padding=0)

    def marked_key(self) -> str | None:
        """The key of the marked row; None when there is none."""
        if self.row_count == 0:
            return None
        return self.coordinate_to_cell_key(self.cursor_coordinate).row_key.value
