"""Prompt tokens by the log of a server that was started with --enable-logging-iteration-details."""

from __future__ import annotations

import re
from collections.abc import Iterable

_ITERATION = re.compile(r"Iteration\(\d+\): \d+ context requests, (\d{1,9}) context tokens, ")


class IterationCounter:
    """Adds up the context tokens of every iteration, each of which the log names as it ends (0.20 to 0.33)."""

    def __init__(self) -> None:
        self._tokens: float | None = None

    def feed(self, lines: Iterable[str]) -> None:
        """Take new lines of the log in."""
        for line in lines:
            # The plain search is 20 times as fast, and few lines are of this kind.
            if "Iteration(" in line and (found := _ITERATION.search(line)):
                self._tokens = (self._tokens or 0.0) + float(found[1])

    @property
    def tokens(self) -> float | None:
        """Context tokens so far; None when no line of the kind was seen."""
        return self._tokens
