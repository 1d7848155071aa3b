"""Memory of the screen's own process."""

from __future__ import annotations

import contextlib

_M_ARENA_MAX = -8
"""Of malloc.h of the GNU C library."""


def share_one_heap() -> None:
    """Let all threads allocate from one heap: each of their own would keep what it held at its busiest (mallopt(3)).

    Python's lock lets them allocate one after the other anyway. Does nothing where the C library has no such setting.
    """
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
