"""Seconds that pass whether or not this machine sleeps."""

from __future__ import annotations

import sys
import time


def elapsed() -> float:
    """Seconds since some moment, never back: over a suspend too, where time.monotonic stands still.

    A laptop that slept for an hour would else divide an hour of a server's tokens by one second.
    """
    return time.clock_gettime(_CLOCK)


_CLOCK = time.CLOCK_BOOTTIME if sys.platform == "linux" else time.CLOCK_MONOTONIC
"""CLOCK_MONOTONIC stands still in Linux' sleep, and goes on in macOS'."""
