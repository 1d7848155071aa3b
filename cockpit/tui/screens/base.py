"""What every full screen has: the status bar, the footer, and a plain word when the terminal is too small."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from textual import events
from textual.app import ComposeResult
from textual.screen import Screen
from textual.widgets import Footer, Static

from cockpit.terminal import MIN_COLUMNS, MIN_ROWS
from cockpit.tui.widgets.status_bar import StatusBar

if TYPE_CHECKING:
    from cockpit.tui.app import CockpitApp


class CockpitScreen(Screen[None]):
    """Base of the full screens. Subclasses give ``compose_body``.

    Textual calls the handlers of both classes, the subclass's first: no ``super().on_…``.
    """

    COMMANDS_OF: ClassVar[str] = ""
    """The screen's name in the table of commands."""

    @property
    def cockpit(self) -> CockpitApp:
        """The app, with its type."""
        return cast("CockpitApp", self.app)

    def compose(self) -> ComposeResult:
        """Status bar, body, footer."""
        yield StatusBar(markup=False)
        yield from self.compose_body()
        yield Footer(compact=True, show_command_palette=False)
        yield Static("", id="too-small", markup=False)

    def compose_body(self) -> ComposeResult:
        """The screen's own widgets."""
        yield from ()

    def show_step(self, name: str, step: str) -> None:
        """What the stop of a server does now; screens that show the server say it."""

    def on_mount(self) -> None:
        """Follow what the app knows."""
        self.watch(self.app, "rig", self._set_rig)
        self.watch(self.app, "engines", self._set_engines)
        self.watch(self.app, "instances", self._set_instances)

    def _set_rig(self) -> None:
        self.query_one(StatusBar).rig = self.cockpit.rig

    def _set_engines(self) -> None:
        self.query_one(StatusBar).engines = self.cockpit.engines

    def _set_instances(self) -> None:
        states = [view.state for view in self.cockpit.instances]
        bar = self.query_one(StatusBar)
        bar.starting, bar.serving = states.count("starting"), states.count("ready")

    def on_screen_resume(self) -> None:
        """The clock stood still meanwhile."""
        self.query_one(StatusBar).tell_time()

    def on_resize(self, event: events.Resize) -> None:
        """Say so when the terminal became too small to be truthful in."""
        small = event.size.width < MIN_COLUMNS or event.size.height < MIN_ROWS
        self.set_class(small, "-too-small")
        if small:
            has, needs = f"{event.size.width}x{event.size.height}", f"{MIN_COLUMNS}x{MIN_ROWS}"
            self.query_one("#too-small", Static).update(f"{has} is too small.\nEnlarge the window to {needs}.")
