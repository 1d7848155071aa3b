"""How the parts of the serve card share the screen: toggles beside the forecast, findings and command below. Pure."""

from __future__ import annotations

import msgspec

_WIDE_SIDE, _NARROW_SIDE = 46, 35
"""Cells of the forecast's column without the line at its left and a scrollbar; `card.tcss` has two more."""
_AROUND_SIDE = 3
"""The line, the scrollbar and a blank."""
_WIDE_LOWER, _NARROW_LOWER = 10, 7
"""Lines that findings and command have at least."""
_LONGEST_SIDE = 25
"""Lines of a forecast of two GPUs that does not fit, and of the rig below it."""
_BARS = 4
"""Lines of the status bar, the title, the marked toggle's effect and the footer."""


class CardLayout(msgspec.Struct, frozen=True, kw_only=True):
    """Of a screen of ``width`` by ``height`` cells."""

    width: int
    height: int
    wide: bool
    """Whether the screen counts as wide."""
    forecast: bool
    """Whether there is one of GPUs."""

    @property
    def has_side(self) -> bool:
        """Whether the forecast has a column of its own."""
        return self.wide or self.forecast

    @property
    def side_width(self) -> int:
        """Cells of a line in that column."""
        return _WIDE_SIDE if self.wide else _NARROW_SIDE

    @property
    def toggles_width(self) -> int:
        """Cells of a toggle's row."""
        return self.width - self.side_width - _AROUND_SIDE if self.has_side else self.width

    def upper(self, needed: int, before: int) -> int:
        """Lines of the upper part, which grows to what it holds and does not shrink: each key would move the rest.

        For GPUs it is at once as high as their forecast may get.
        """
        if self.forecast:
            needed = max(needed, _LONGEST_SIDE)
        most = self.height - _BARS - (_WIDE_LOWER if self.wide else _NARROW_LOWER)
        return max(before, min(needed, max(most, 1)))

    def lower(self, upper: int) -> int:
        """Lines below an upper part of so many."""
        return self.height - _BARS - upper
