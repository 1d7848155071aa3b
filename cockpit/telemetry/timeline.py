"""Figures over time: two minutes at every tick, an hour by the peaks of a quarter of a minute."""

from __future__ import annotations

from collections import deque
from math import isfinite

from cockpit.telemetry.frame import Frame
from cockpit.telemetry.history import MACHINE, SERVED

TWO_MINUTES, ONE_HOUR = 120.0, 3600.0
"""The spans that can be asked for, in seconds."""
_BIN_SECONDS = 15.0
_FINE_HOLD_SECONDS = 2.5
"""How long a value stands for the time after it: a tick that came late leaves no gap."""
_NAMES = (*SERVED, *MACHINE)

Values = tuple[float | None, ...]
"""One a name."""


class Timeline:
    """Values by time; frames are pushed in their order."""

    def __init__(self) -> None:
        self._fine: deque[tuple[float, Values]] = deque()
        self._coarse: deque[tuple[float, Values]] = deque(maxlen=int(ONE_HOUR / _BIN_SECONDS) + 1)

    def push(self, frame: Frame) -> None:
        """Take one frame in; figures of a stale one are a gap, because nothing was measured."""
        served = tuple(None if frame.stale else _known(read(frame)) for read in SERVED.values())
        values = served + tuple(_known(read(frame)) for read in MACHINE.values())
        if self._fine and frame.at < self._fine[-1][0]:
            # The clock was set back: what was drawn has no place on the new axis.
            self._fine.clear()
            self._coarse.clear()
        self._fine.append((frame.at, values))
        while self._fine[0][0] < frame.at - TWO_MINUTES - _FINE_HOLD_SECONDS:
            self._fine.popleft()
        start = frame.at // _BIN_SECONDS * _BIN_SECONDS
        if self._coarse and self._coarse[-1][0] == start:
            self._coarse[-1] = (start, tuple(map(_larger, self._coarse[-1][1], values)))
        else:
            self._coarse.append((start, values))

    def columns(self, name: str, span: float, count: int) -> list[float | None]:
        """The ``span`` seconds up to the newest frame in ``count`` columns, oldest first, each its largest value.

        Columns lie on a fixed grid of time, so that the picture moves by whole columns. Raises KeyError for an
        unknown name.
        """
        if name not in _NAMES:
            raise KeyError(name)
        if not self._fine or count < 1:
            return [None] * count
        points, hold = (self._fine, _FINE_HOLD_SECONDS) if span <= TWO_MINUTES else (self._coarse, _BIN_SECONDS)
        width, which = span / count, _NAMES.index(name)
        last = int(self._fine[-1][0] // width)
        reach = max(0, int(hold // width))
        own: dict[int, float | None] = {}
        for at, values in points:
            index = int(at // width) - last + count - 1
            own[index] = _larger(own.get(index), values[which])
        return _held(own, count, reach)


def _held(own: dict[int, float | None], count: int, reach: int) -> list[float | None]:
    """What was measured in each column, or in the nearest of the ``reach`` before it."""
    held: list[float | None] = []
    newest, value = -reach - 1, None
    for index in range(-reach, count):
        if index in own:
            newest, value = index, own[index]
        if index >= 0:
            held.append(value if index - newest <= reach else None)
    return held


def _known(value: float | None) -> float | None:
    """A drawable value: finite, not below zero."""
    return None if value is None or not isfinite(value) else max(0.0, value)


def _larger(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)
