"""The last minutes of a few figures, and their picture in one line of text."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import pairwise
from math import isfinite

from cockpit.telemetry.frame import Frame

TWO_MINUTES = 120
"""Ticks at one a second."""
BLOCKS = "▁▂▃▄▅▆▇█"


def _power(frame: Frame) -> float | None:
    """Watts of all GPUs that say theirs."""
    known = [gpu.power_watts for gpu in frame.gpus if gpu.power_watts is not None]
    return sum(known) if known else None


SERVED: dict[str, Callable[[Frame], float | None]] = {
    "prefill": lambda frame: frame.throughput.prefill_tokens_per_second,
    "cached": lambda frame: frame.throughput.cached_prefill_tokens_per_second,
    "decode": lambda frame: frame.throughput.decode_tokens_per_second,
    "kv": lambda frame: frame.kv.used_fraction,
    "running": lambda frame: frame.requests.running,
    "waiting": lambda frame: frame.requests.waiting,
}
"""Series out of /metrics: a stale frame leaves a gap in them, because nothing was measured."""
MACHINE: dict[str, Callable[[Frame], float | None]] = {
    "power": _power,
    "cpu": lambda frame: None if frame.host is None else frame.host.cpu_fraction,
}
"""Series that are read on this machine at every tick."""


class History:
    """A ring of values a series, one value a pushed frame."""

    def __init__(self, length: int = TWO_MINUTES) -> None:
        self.length = length
        self._rings: dict[str, deque[float | None]] = {name: deque(maxlen=length) for name in (*SERVED, *MACHINE)}

    def push(self, frame: Frame) -> None:
        """Take one frame's figures in; the oldest value leaves when the ring is full."""
        for name, read in SERVED.items():
            self._rings[name].append(None if frame.stale else read(frame))
        for name, read in MACHINE.items():
            self._rings[name].append(read(frame))

    @property
    def names(self) -> tuple[str, ...]:
        """The series there are."""
        return tuple(self._rings)

    def series(self, name: str) -> tuple[float | None, ...]:
        """Values of one series, oldest first, at most ``length``; raises KeyError for a name not in ``names``."""
        return tuple(self._rings[name])


def sparkline(values: Sequence[float | None], width: int, ceiling: float | None = None) -> str:
    """Exactly ``width`` characters, the newest value at the right.

    The scale runs from 0 to ``ceiling``, or to the largest value shown. Unknown values are spaces, zero is the
    lowest block. More values than cells: each cell shows the largest of its values, so no peak is lost; fewer:
    the left stays empty.
    """
    cells = _cells(values, max(0, width))
    top = ceiling if ceiling is not None else max((cell for cell in cells if cell is not None), default=0.0)
    return "".join(" " if cell is None else _block(cell, top) for cell in cells)


def _cells(values: Sequence[float | None], width: int) -> list[float | None]:
    """One value a cell, unknown ones as None."""
    if len(values) <= width:
        return [None] * (width - len(values)) + [_known(value) for value in values]
    edges = [len(values) * cell // width for cell in range(width + 1)] if width else [0]
    return [_largest(values[start:end]) for start, end in pairwise(edges)]


def _largest(values: Sequence[float | None]) -> float | None:
    known = [value for raw in values if (value := _known(raw)) is not None]
    return max(known) if known else None


def _known(value: float | None) -> float | None:
    """A drawable value: finite, not below zero."""
    return None if value is None or not isfinite(value) else max(0.0, value)


def _block(value: float, top: float) -> str:
    """The block of a value between 0 and ``top``."""
    if top <= 0:
        return BLOCKS[0]
    if value >= top:
        return BLOCKS[-1]
    return BLOCKS[min(len(BLOCKS) - 1, int(value / top * len(BLOCKS)))]
