"""Regular expressions that a checkpoint brings along: bounded before they run, because they may be anything.

Python cannot interrupt a match. So a pattern is measured first: how many ways there are, at worst, to lay it over a
name of ``NAME_LENGTH`` characters. Nested repeats make that number explode and are refused; what passes takes
milliseconds, and a clock between the matches ends the rest.
"""

from __future__ import annotations

import math
import re
import time
import warnings
from typing import Any

from cockpit.checkpoint.keys import shown
from cockpit.errors import CockpitError

MAX_PATTERN = 2048
"""Characters. A pattern that lists 64 layers by number has 250."""
MAX_NAME = 96
"""Characters of a module name that a pattern is laid over; today's longest have 70."""
NAME_LENGTH = 64
MAX_WAYS = 10**8
"""A second of matching. Six stars in a row come to 64⁶ / 6! = 95 million ways."""
_ENDLESS = 10**40
MAX_SECONDS = 2.0
USUAL_SECONDS = 50e-6
"""Of one match, many times over: a large mixture of experts has a hundred thousand names to go through."""
_FIX = "Correct quantization_config in config.json, or download the checkpoint again."


def _items_ways(items: Any) -> int:
    ways, stars = 1, 0
    for name, value in items:
        factor: int = _ways(str(name), value)
        stars += factor >= NAME_LENGTH and "REPEAT" in str(name)
        ways = min(ways * factor, _ENDLESS)
    # Stars in a row share one name out among themselves: their order is fixed.
    return ways // math.factorial(min(stars, 20))


def _branch_ways(branches: Any) -> int:
    """Alternatives of plain letters: only prefixes of one another can match at one place, e.g. 1, 10 and 100."""
    if all(str(name) == "LITERAL" for branch in branches for name, _ in branch):
        words = {tuple(letter for _, letter in branch) for branch in branches}
        if len(words) == len(branches):
            return min(len(branches), 1 + max(map(len, words)))
        return len(branches)
    return sum(_items_ways(branch) for branch in branches)


def _repeat_ways(low: int, high: int, body: Any) -> int:
    inner = _items_ways(body)
    high = min(high, NAME_LENGTH)
    if inner == 1:
        return max(1, high - low + 1)
    # Every round has the inner number of ways again.
    rounds: int = inner ** min(high, 24)
    return min(rounds * (high - low + 1), _ENDLESS)


def _ways(name: str, value: Any) -> int:
    match name:
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            low, high, body = value
            return _repeat_ways(int(low), int(high), body)
        case "BRANCH":
            return _branch_ways(value[1])
        case "SUBPATTERN":
            return _items_ways(value[3])
        case "ASSERT" | "ASSERT_NOT":
            return _items_ways(value[1])
        case "ATOMIC_GROUP":
            return _items_ways(value)
        case "GROUPREF_EXISTS":
            return _items_ways(value[1]) + _items_ways(value[2] or ())
        case _:
            return 1


def compile_pattern(text: str, origin: str) -> re.Pattern[str]:
    """``text`` as a pattern that is safe to run over module names.

    Raises CockpitError when it is not a regular expression, too long, or could take more than ``MAX_WAYS`` steps.
    """
    named = f"{origin}: the pattern {shown(text)} in quantization_config"
    if len(text) > MAX_PATTERN:
        raise CockpitError(f"{named} is longer than {MAX_PATTERN} characters", fix=_FIX)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # The parsed form has no public name; the compiled pattern does not give it away.
            parsed = getattr(re, "_parser").parse(text)  # noqa: B009
            ways = _items_ways(parsed)
            if ways <= MAX_WAYS:
                return re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        detail = shown(str(error))[1:-1]
        raise CockpitError(f"{named} is not a regular expression", detail, _FIX) from error
    raise CockpitError(f"{named} could run for hours", "it repeats what already repeats", _FIX)


class Clock:
    """The time that all patterns of one checkpoint may take together."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self._spent = 0.0
        self._allowed = MAX_SECONDS

    def search(self, pattern: re.Pattern[str], name: str, *, anchored: bool = False) -> bool:
        """Whether ``pattern`` is in ``name`` (at its start when ``anchored``).

        Raises CockpitError when the name is too long, or the matches took ``MAX_SECONDS`` longer than is usual.
        """
        if len(name) > MAX_NAME:
            raise CockpitError(f"{self.origin}: the module name {shown(name)} is longer than {MAX_NAME} characters")
        if self._spent > self._allowed:
            raise CockpitError(
                f"{self.origin}: the patterns in quantization_config take too long",
                f"more than {self._allowed:.0f} s over all module names",
                _FIX,
            )
        self._allowed += USUAL_SECONDS
        begin = time.thread_time()
        found = pattern.match(name) if anchored else pattern.search(name)
        self._spent += time.thread_time() - begin
        return found is not None
