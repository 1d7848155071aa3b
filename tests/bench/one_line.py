"""The least that Textual can show: what remains of a first frame is the cockpit's own."""

from __future__ import annotations

from textual.app import App, ComposeResult
from textual.widgets import Static


class OneLine(App[None]):
    def compose(self) -> ComposeResult:
        yield Static("/ filter")


OneLine().run()
