"""A lock between processes that is never waited for without end: its holder may be stopped, or hang on its disk."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

_PATIENCE_SECONDS = 10.0
"""What is done under a lock takes milliseconds."""
_POLL_SECONDS = 0.01


@contextlib.contextmanager
def hold(file: Path) -> Iterator[None]:
    """Hold the lock of that file, which is made where it is not there; the kernel lets it go when its holder dies.

    Raises OSError when the file cannot be opened or locked; TimeoutError, one of those, when another holds it on.
    """
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _take(descriptor, file)
        yield
    finally:
        os.close(descriptor)


def way_out(error: OSError, otherwise: str) -> str:
    """What to do about an error of `hold`, or of what was written under it."""
    if isinstance(error, TimeoutError) and error.errno is None:  # else a disk on the network says so
        return "See which cockpit hangs or was stopped (Ctrl-Z), and let it go on or end it."
    return otherwise


def _take(descriptor: int, file: Path) -> None:
    limit = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= limit:
                raise TimeoutError(f"another process has held {file} for {_PATIENCE_SECONDS:.0f} s") from None
            time.sleep(_POLL_SECONDS)
