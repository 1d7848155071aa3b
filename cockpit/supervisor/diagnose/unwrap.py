"""Lines that a terminal has broken at its width, made whole again: what was copied from a screen."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, islice

_SAMPLE = 400
_MAX_CHARACTERS = 8000
"""Of a line that was made whole; nobody reads further, and a blob of text may go on for ever."""
_NARROWEST, _WIDEST = 60, 240
_ENOUGH = 2
"""Full lines among the sample, below which nothing was wrapped."""
_COMMON = 6
"""Characters that a line and the next one share where both were written by the same logger."""
_BEGINS = re.compile(
    r"\s*(?:\([A-Za-z]\w*(?:[- ]\S{1,40})? pid=|\[|\{\"|(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)[ :]"
    r"|\d{4}-\d\d|Traceback|File \"|(?:\w+\.)*\w+(?:Error|Exception)(?::|$)|Process \w|During handling"
    r"|The above exception|-{3}|[>$#|+] )"
)
"""How a line begins that is no rest of another one."""


def width_of(lines: Iterable[str]) -> int | None:
    """The terminal's width that the lines were broken at; None when they were not."""
    lengths = Counter(map(len, lines))
    widest = max(lengths, default=0)
    # A control character that was cleaned away may have hidden one or two of a line's own.
    width = max(range(widest - 2, widest + 1), key=lambda length: lengths[length])
    if not _NARROWEST <= width <= _WIDEST or lengths[width] < _ENOUGH:
        return None
    return width if lengths[width] > max(lengths[length] for length in range(width - 3, width)) else None


def unwrapped(lines: Iterator[str]) -> Iterator[str]:
    """The lines, with those joined that only the width of a terminal has parted."""
    sample = list(islice(lines, _SAMPLE))
    width = width_of(sample)
    if not sample:
        return
    whole = previous = sample[0]
    for line in chain(sample[1:], lines):
        if width and len(previous) >= width and _goes_on(previous, line):
            whole += line[: _MAX_CHARACTERS - len(whole)] if len(whole) < _MAX_CHARACTERS else ""
        else:
            yield whole
            whole = line
        previous = line
    yield whole


def _goes_on(previous: str, line: str) -> bool:
    return bool(line) and not _BEGINS.match(line) and previous[:_COMMON] != line[:_COMMON]
