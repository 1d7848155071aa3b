"""The top line: the rig, the engines, what is serving, the time."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from textual.reactive import reactive
from textual.widgets import Static

from cockpit import units
from cockpit.tui.content import Row, row_content

if TYPE_CHECKING:
    from cockpit.rig.types import Engine, Rig

_TOLD_SECONDS = 0.99
"""A clock that was told so lately is right."""


def rig_text(rig: Rig | None) -> str:
    """``2x RTX 3090 24 GiB``, or the host where there is no GPU."""
    if rig is None:
        return "reading the rig…"
    if not rig.gpus:
        return f"no GPU · {rig.cpu_count} cores · {units.gib(rig.memory_total_bytes, 0)} GiB"
    kinds = Counter((gpu.name.removeprefix("NVIDIA ").removeprefix("GeForce "), gpu.total_bytes) for gpu in rig.gpus)
    return " + ".join(f"{count}x {name} {units.gib(size, 0)} GiB" for (name, size), count in kinds.items())


def engine_text(engines: tuple[Engine, ...] | None) -> str:
    """The preferred vLLM, and how many more there are."""
    if engines is None:
        return "looking for vLLM…"
    if not engines:
        return "no vLLM"
    more = f" +{len(engines) - 1}" if len(engines) > 1 else ""
    return f"vLLM {engines[0].version} {engines[0].platform}{more}"


def servers_row(serving: int, starting: int) -> Row:
    """``● 1 serving``, ``◐ 1 starting``, both, or ``○ 0 serving``."""
    row: Row = []
    if serving:
        row.append((f"● {serving} serving ", "good"))
    if starting:
        row.append((f"◐ {starting} starting ", "warn"))
    return row or [("○ 0 serving ", "dim")]


class StatusBar(Static):
    """One line that every screen has at its top."""

    DEFAULT_CSS = "StatusBar { height: 1; background: $panel; color: $foreground; }"

    rig: reactive[Rig | None] = reactive(None, repaint=False)
    engines: reactive[tuple[Engine, ...] | None] = reactive(None, repaint=False)
    serving: reactive[int] = reactive(0, repaint=False)
    starting: reactive[int] = reactive(0, repaint=False)
    clock: reactive[str] = reactive("", repaint=False)

    _told_at = 0.0
    """Monotonic."""

    def on_mount(self) -> None:
        """Keep the time."""
        self.set_interval(1.0, self._tell_again)
        self.tell_time()

    def _tell_again(self) -> None:
        """Unless the screen told it with what else it paints once a second: two repaints cost twice as much."""
        if time.monotonic() - self._told_at >= _TOLD_SECONDS:
            self.tell_time()

    def tell_time(self) -> None:
        """Show the clock, unless another screen lies over this one: Textual would paint all of that anew."""
        if self.screen is not self.app.screen:
            return
        self._told_at = time.monotonic()
        self.clock = time.strftime("%H:%M:%S") if getattr(self.app, "show_clock", True) else ""

    def _redraw(self) -> None:
        left: Row = [
            (" cockpit ", "title"),
            (f" {rig_text(self.rig)} ", ""),
            (f"  {engine_text(self.engines)} ", "dim"),
        ]
        right: Row = [*servers_row(self.serving, self.starting), (f" {self.clock} ", "dim")]
        used = sum(len(text) for text, _ in (*left, *right))
        gap = max(1, self.size.width - used)
        self.update(row_content([*left, (" " * gap, ""), *right]), layout=False)

    def watch_rig(self) -> None:
        """Redraw."""
        self._redraw()

    def watch_engines(self) -> None:
        """Redraw."""
        self._redraw()

    def watch_serving(self) -> None:
        """Redraw."""
        self._redraw()

    def watch_starting(self) -> None:
        """Redraw."""
        self._redraw()

    def watch_clock(self) -> None:
        """Redraw."""
        self._redraw()

    def on_resize(self) -> None:
        """Redraw for the new width."""
        self._redraw()
