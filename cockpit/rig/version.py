"""Version texts of vLLM as numbers, for comparing; one that says nothing has none."""

from __future__ import annotations

import re

_NUMBERS = re.compile(r"v?(\d{1,4}(?:\.\d{1,4})+)(?![0-9])")
_UNTAGGED = re.compile(r"v?0\.1\.(?:dev|0\.dev)")
"""What setuptools-scm makes of a checkout without tags: it says nothing of what is in it."""


def version_numbers(text: str) -> tuple[int, ...]:
    """``0.33.0rc1`` → (0, 33, 0); () for ``dev``, ``unknown`` and builds that bear no release's number.

    () compares as older than every version: ask for it first.
    """
    found = None if _UNTAGGED.match(text) else _NUMBERS.match(text)
    return tuple(int(part) for part in found[1].split(".")) if found else ()
