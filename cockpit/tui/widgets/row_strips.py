"""Lines of a widget as Textual paints them, made once a line instead of all at every repaint."""

from __future__ import annotations

from rich.segment import Segment as RichSegment
from rich.style import Style as RichStyle
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget

from cockpit.tui.content import STYLES, Row
from cockpit.tui.wrap import one_line


class RowStrips:
    """The strips of one widget by line; to be cleared when its styles or its width change."""

    def __init__(self, widget: Widget) -> None:
        self._widget = widget
        self._strips: dict[int, Strip] = {}
        self._styles: dict[str, RichStyle] = {}

    def clear(self) -> None:
        """Forget all: another theme, width or place."""
        self._styles.clear()
        self._strips.clear()

    def drop(self, line: int) -> None:
        """Another text is in this line."""
        self._strips.pop(line, None)

    def blank(self) -> Strip:
        """A line without text."""
        return Strip.blank(self._widget.size.width, self._style(""))

    def strip(self, line: int, row: Row) -> Strip:
        """The line with this text, as wide as the widget: filled up, or cut."""
        found = self._strips.get(line)
        if found is None or found.cell_length != self._widget.size.width:
            found = Strip([RichSegment(text, self._style(style)) for text, style in one_line(row)])
            found = found.adjust_cell_length(self._widget.size.width, self._style("")).apply_offsets(0, line)
            self._strips[line] = found
        return found

    def _style(self, name: str) -> RichStyle:
        found = self._styles.get(name)
        if found is None:
            style = self._widget.get_visual_style() + Style.parse(STYLES[name], self._widget.app.theme_variables)
            found = self._styles[name] = style.rich_style
        return found
