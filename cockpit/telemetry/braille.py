"""A filled chart in braille: two columns and four levels a cell."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

_LEFT = (0x00, 0x40, 0x44, 0x46, 0x47)
"""Dots of a cell's left column filled from below to level 0 … 4; Unicode numbers them 7, 3, 2, 1."""
_RIGHT = (0x00, 0x80, 0xA0, 0xB0, 0xB8)
_BLANK = 0x2800
LEVELS = 4


def chart(columns: Sequence[float | None], height: int, top: float) -> list[str]:
    """``height`` lines of half as many cells as columns, the uppermost first; the scale runs from 0 to ``top``.

    Unknown is blank, zero the lowest dot: what was measured is never drawn as nothing.
    """
    levels = [_level(value, height * LEVELS, top) for value in columns]
    cells = [_cells(left, right, height) for left, right in zip(levels[::2], levels[1::2], strict=False)]
    return ["".join(line) for line in zip(*cells, strict=True)] if cells else [""] * height


def _level(value: float | None, levels: int, top: float) -> int:
    if value is None:
        return 0
    if value >= top:
        return levels if top > 0 else 1
    return max(1, round(value / top * levels))


@lru_cache(maxsize=1024)
def _cells(left: int, right: int, height: int) -> tuple[str, ...]:
    """The cells of two columns above each other, the uppermost first."""
    return tuple(_cell(left, right, row * LEVELS) for row in reversed(range(height)))


def _cell(left: int, right: int, below: int) -> str:
    return chr(_BLANK + _LEFT[_inside(left, below)] + _RIGHT[_inside(right, below)])


def _inside(level: int, below: int) -> int:
    return max(0, min(LEVELS, level - below))
