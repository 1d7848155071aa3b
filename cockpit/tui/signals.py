"""Signals that end the screen: politely, and for certain. Without this they would leave the terminal raw."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType

_PATIENCE_SECONDS = {signal.SIGTERM: 9.0, signal.SIGHUP: 3.0}
"""How long the screen may take to leave: without a terminal it waits for ever for someone to read what it draws."""


def catch_signals(leave: Callable[[], object]) -> Callable[[], None]:
    """On SIGTERM and SIGHUP call ``leave`` in the running loop; what gives the old handlers back.

    A handler of the loop would not do: the loop may be stuck in a write to a terminal that is gone. Nothing that runs
    on is lost by the hard end: records are replaced in one step, and servers are not the cockpit's to take along.
    """
    loop = asyncio.get_running_loop()

    def handle(number: int, _: FrameType | None) -> None:
        timer = threading.Timer(_PATIENCE_SECONDS[signal.Signals(number)], os._exit, (128 + number,))
        timer.daemon = True
        timer.start()
        with contextlib.suppress(RuntimeError):  # the loop is closed: it leaves already
            loop.call_soon_threadsafe(leave)

    before: dict[int, signal.Handlers | Callable[[int, FrameType | None], object] | int | None] = {}
    for number in _PATIENCE_SECONDS:
        # Only the main thread may; a test can run the app in another one. One that is ignored (nohup) stays so.
        with contextlib.suppress(ValueError):
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, handle)

    def restore() -> None:
        for number, handler in before.items():
            with contextlib.suppress(ValueError, TypeError):
                signal.signal(number, handler)

    return restore
