"""A log that stays at its end until its reader scrolls up, and returns to it when they scroll down again."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.widgets import Log


class LogView(Log):
    """Textual's Log loses the end when its own height changes; this one remembers that it follows."""

    DEFAULT_CSS = "LogView { scrollbar-size-horizontal: 0; scrollbar-size-vertical: 1; }"

    def __init__(self, *, max_lines: int, id: str) -> None:
        super().__init__(id=id, max_lines=max_lines, highlight=False)
        self.following = True

    def add_lines(self, lines: Sequence[str]) -> None:
        """Append, and show the end if it was being followed."""
        self.write_lines(lines, scroll_end=self.following)

    def on_resize(self) -> None:
        """Keep the end in view."""
        if self.following:
            self.scroll_end(animate=False)

    def _looked_up(self) -> None:
        self.following = False

    def _looked_down(self) -> None:
        self.call_after_refresh(self._follow_if_at_end)

    def _follow_if_at_end(self) -> None:
        self.following = self.scroll_offset.y >= self.max_scroll_y

    def on_mouse_scroll_up(self, _event: events.MouseScrollUp) -> None:
        """Reading back."""
        self._looked_up()

    def on_mouse_scroll_down(self, _event: events.MouseScrollDown) -> None:
        """Perhaps back at the end."""
        self._looked_down()

    def on_key(self, event: events.Key) -> None:
        """The same by keys."""
        if event.key in ("up", "pageup", "home", "ctrl+home"):
            self._looked_up()
        elif event.key in ("down", "pagedown", "end", "ctrl+end"):
            self._looked_down()
