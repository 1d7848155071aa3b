"""What somebody may have meant who mistyped a name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_ALIKE = 0.6
"""Share of characters in common, by which a mistyped word still resembles the right one."""
_AS_GOOD = 0.1
"""What is less alike than the best by more than this is not named beside it."""
_LONGEST = 100
"""Characters of a word that are looked at."""
_LEAST_PART = 2
"""Characters of a word that may be meant as part of a name."""


def nearest(word: str, known: Iterable[str], most: int = 3, alike: float = _ALIKE) -> list[str]:
    """The names most like ``word``, the best first: those that it is a part of, else those that look like it.

    ``alike`` is the share of characters in common from which a name resembles the word.
    """
    names, text = list(dict.fromkeys(known)), word[:_LONGEST].lower()
    parts = [name for name in names if text in name.lower()] if len(text) >= _LEAST_PART else []
    if 0 < len(parts) <= most:
        return parts
    shares = {name: difflib.SequenceMatcher(None, text, name.lower()).ratio() for name in names}
    best = max(shares.values(), default=0.0)
    near = [name for name in names if shares[name] >= max(alike, best - _AS_GOOD)]
    return sorted(near, key=lambda name: -shares[name])[:most]


def did_you_mean(word: str, known: Iterable[str], otherwise: str, most: int = 3, alike: float = _ALIKE) -> str:
    """``Did you mean A or B?``, or ``otherwise`` where nothing is like it."""
    near = nearest(word, known, most, alike)
    return f"Did you mean {' or '.join(near)}?" if near else otherwise
