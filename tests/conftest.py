"""For every test, in whatever way the tests were started."""

from __future__ import annotations

import signal
import threading


def pytest_configure() -> None:
    """A shell's background job ignores SIGINT, and so would every server that a test starts and then interrupts."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
