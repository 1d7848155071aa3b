"""What is measured of a program in a terminal, as text: its first frame, its keys, its cost at rest."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from terminal import Terminal

MIB = 1 << 20
REST_SECONDS = 12.0
_SETTLE_SECONDS = 4.0


def first_frame(argv: Sequence[str], env: Mapping[str, str], text: str, runs: int = 12) -> str:
    """Start until ``text``, which stands on the first complete screen, warm."""
    clock, cpu = [], []
    for _ in range(runs):
        with Terminal(argv, env) as screen:
            clock.append(screen.until(text))
            cpu.append(screen.cpu_seconds())
    return f"min {min(clock):.3f} s, median {statistics.median(clock):.3f} s, CPU {min(cpu):.3f} s"


def repaint(screen: Terminal, keys: Sequence[str]) -> str:
    """Keypress to the first byte of the repaint."""
    times = [took for key in keys if (took := screen.press(key)) is not None]
    if not times:
        return "nothing was repainted"
    return f"median {statistics.median(times) * 1000:.1f} ms, max {max(times) * 1000:.1f} ms"


def rest(screen: Terminal, seconds: float = REST_SECONDS) -> str:
    """CPU, memory and output of a screen that nobody touches; what its child processes use counts too."""
    screen.drain(_SETTLE_SECONDS)
    share, rss, written = screen.cost(seconds)
    return f"CPU {share * 100:.2f} %, RSS {rss / MIB:.1f} MiB, {written:,} B/s written"


def rest_together(screens: Sequence[Terminal], seconds: float) -> list[str]:
    """The same of several at the same time, in their order."""
    with ThreadPoolExecutor(len(screens)) as readers:
        return list(readers.map(lambda screen: rest(screen, seconds), screens))
