"""A log that stays at its end until its reader scrolls up, and returns to it when they scroll down again."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from cockpit.tui.wrap import spans

_MORE = "…"
"""In the last cell of a line that goes on."""
_INDENT = "    "
"""Before what a wrapped line goes on with."""


class LogView(ScrollView, can_focus=True):
    """The last ``max_lines`` lines of clean text; only those in sight are drawn.

    Textual's own Log measures every line in a thread of its own, and lays the screen out anew with each.
    """

    DEFAULT_CSS = """
    LogView {
        background: $surface;
        color: $foreground;
        overflow: scroll;
        scrollbar-size-horizontal: 0;
        scrollbar-size-vertical: 1;
        &:focus { background-tint: $foreground 5%; }
    }
    """

    def __init__(self, *, max_lines: int, id: str) -> None:
        super().__init__(id=id)
        self._lines: deque[str] = deque(maxlen=max_lines)
        self._pieces: deque[str] = deque()
        """The lines as they are drawn when they are wrapped."""
        self._wrapped_to = 0
        """Cells that long lines are wrapped to; 0 where they are cut."""
        self._style = Style()
        self.wraps = False
        self.following = True

    @property
    def allow_select(self) -> bool:
        """Text can be marked with the mouse and copied."""
        return True

    def add_lines(self, lines: Sequence[str]) -> None:
        """Append, and show the end if it was being followed, else what was in sight."""
        most = self._lines.maxlen or 0
        new = lines[-most:]
        gone = max(0, len(self._lines) + len(new) - most)
        if self._wrapped_to:
            gone = sum(len(self._drop(line)) for line in islice(self._lines, gone))
            self._pieces.extend(piece for line in new for piece in wrapped(line, self._wrapped_to))
        self._lines.extend(new)
        self._resize_to(self._wrapped_to or max(self.virtual_size.width, _widest(new)))
        if self.following:
            self.scroll_end(animate=False, immediate=True, x_axis=False)
        elif gone:
            self.scroll_to(y=max(0, self.scroll_offset.y - gone), animate=False, immediate=True)
        self.refresh()

    def show_lines(self, lines: Sequence[str]) -> None:
        """These instead of all there are, from their end."""
        self._lines.clear()
        self._pieces.clear()
        self.following = True
        self.set_reactive(Widget.virtual_size, Size(0, 0))
        self.add_lines(lines)

    def toggle_wrap(self) -> None:
        """Long lines over several, or each cut at the edge; what is in sight stays there."""
        self.wraps = not self.wraps
        self._wrap_again()

    def _wrap_again(self) -> None:
        following, top = self.following, self._line_at(self.scroll_offset.y)
        self._wrapped_to = self._room if self.wraps else 0
        self.show_lines(list(self._lines))
        if not following:
            self.following = False
            rows = sum(len(wrapped(line, self._wrapped_to)) for line in islice(self._lines, top))
            self.scroll_to(y=rows, animate=False, immediate=True)

    def _line_at(self, row: int) -> int:
        """Which of the lines, from 0, a row belongs to."""
        for number, line in enumerate(self._lines):
            row -= len(wrapped(line, self._wrapped_to))
            if row < 0:
                return number
        return 0

    @property
    def _room(self) -> int:
        """Cells beside the scrollbar."""
        return int(self.scrollable_content_region.width)

    def _drop(self, line: str) -> list[str]:
        return [self._pieces.popleft() for _ in wrapped(line, self._wrapped_to)]

    @property
    def _drawn(self) -> deque[str]:
        return self._pieces if self._wrapped_to else self._lines

    def _resize_to(self, width: int) -> None:
        """Tell the scrollbar alone: where the log lies does not depend on its lines, and a layout costs 5 ms."""
        size = Size(width, len(self._drawn))
        if size != self.virtual_size:
            self.set_reactive(Widget.virtual_size, size)
            self._scroll_update(size)

    # Drawing

    def render_lines(self, crop: Region) -> list[Strip]:
        """The lines in sight, in one style: looking it up costs more than a line."""
        self._style = self.rich_style
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """The line that is scrolled to this place."""
        left, top = self.scroll_offset
        row, width = top + y, self.size.width
        if row >= len(self._drawn):
            return Strip.blank(width, self._style)
        text = self._drawn[row]
        cells = cell_len(text)
        strip = Strip(self._segments(row, text), cells).crop_extend(left, left + width, self._style)
        if cells > left + self._room:
            strip = Strip([*strip.crop(0, self._room - 1), Segment(_MORE, self._style)], self._room)
        return strip.apply_offsets(left, row)

    def _segments(self, row: int, text: str) -> list[Segment]:
        """The text, with what is marked of it."""
        span = None if self.text_selection is None else self.text_selection.get_span(row)
        if span is None:
            return [Segment(text, self._style)]
        start, end = span[0], len(text) if span[1] == -1 else span[1]
        marked = self._style + self.screen.get_component_rich_style("screen--selection")
        parts = ((text[:start], self._style), (text[start:end], marked), (text[end:], self._style))
        return [Segment(part, style) for part, style in parts if part]

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """What is marked, as text."""
        return selection.extract("\n".join(self._drawn)), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        """Draw what is marked now."""
        self.refresh()

    # Following

    def on_resize(self) -> None:
        """Keep the end in view, and what is wrapped in the width that there is."""
        if self.wraps and self._wrapped_to != self._room:
            self._wrap_again()
        if self.following:
            self.scroll_end(animate=False, immediate=True, x_axis=False)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Back at the end, by whatever way."""
        super().watch_scroll_y(old_value, new_value)
        if new_value >= self.max_scroll_y:
            self.following = True

    def _looked_up(self) -> None:
        self.following = self.max_scroll_y <= 0

    def on_mouse_scroll_up(self, _event: events.MouseScrollUp) -> None:
        """Reading back."""
        self._looked_up()

    def on_key(self, event: events.Key) -> None:
        """The same by keys."""
        if event.key in ("up", "pageup", "home", "ctrl+home"):
            self._looked_up()


def _widest(lines: Sequence[str]) -> int:
    if all(map(str.isascii, lines)):
        return max(map(len, lines), default=0)
    return max(map(cell_len, lines))


def wrapped(line: str, width: int) -> list[str]:
    """The line in pieces of ``width`` cells at most, indented but for the first; words whole where they fit.

    It stays whole where there is no width to speak of.
    """
    if width <= 2 * len(_INDENT) or (len(line) if line.isascii() else cell_len(line)) <= width:
        return [line]
    first, *more = spans(line, width, len(_INDENT))
    return [line[first[0] : first[1]], *(_INDENT + line[start:end] for start, end in more)]
