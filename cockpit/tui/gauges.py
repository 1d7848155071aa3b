"""The parts that rows of figures are made of."""

from __future__ import annotations

from cockpit.tui.content import Segment

LABEL_WIDTH = 9


def label(name: str) -> Segment:
    """A row's name, in a column of its own."""
    return (f" {name:<{LABEL_WIDTH}}", "dim")


def bar(fraction: float | None, width: int) -> str:
    """A gauge of ``width`` cells; unknown is an empty one."""
    if fraction is None:
        return "·" * width
    filled = round(max(0.0, min(1.0, fraction)) * width)
    # Something that is not nothing is never drawn as nothing.
    if filled == 0 and fraction > 0:
        return "▏" + "·" * (width - 1)
    return "█" * filled + "·" * (width - filled)
