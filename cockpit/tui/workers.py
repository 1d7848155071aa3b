"""Worker threads: how they are started, sleep, and end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

from textual.dom import DOMNode
from textual.worker import Worker, get_current_worker

from cockpit.errors import CockpitError

_THREADS = 64
"""asyncio has four more than processors: on a small machine the lasting looks and a few stops use them all up."""
_stopped: ContextVar[threading.Event] = ContextVar("stopped")
"""Of the worker that a thread belongs to: set once it is cancelled."""


def make_room() -> None:
    """Give the running loop threads for everything that an app may do at the same time; they start when needed."""
    pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="work")
    asyncio.get_running_loop().set_default_executor(pool)


def run_in_thread(
    node: DOMNode, work: Callable[[], None], group: str, warn: Callable[[str, str], None], exclusive: bool = False
) -> None:
    """Run ``work`` in a thread that belongs to ``node`` (an app or a screen).

    A CockpitError becomes a warning on the screen; anything else is a bug and ends the app through its guard.
    """

    def guarded() -> None:
        try:
            work()
        except CockpitError as error:
            if not get_current_worker().is_cancelled:
                tell(node.app, warn, error.title, f"{error.detail} {error.fix}".strip())

    async def aside() -> None:
        stopped = threading.Event()
        _stopped.set(stopped)
        try:
            await asyncio.to_thread(guarded)
        finally:
            stopped.set()

    _: Worker[None] = node.run_worker(aside, group=group, exclusive=exclusive)


def tell(node: DOMNode, callback: Callable[..., None], *arguments: Any) -> None:
    """From a thread: have ``node`` call it, unless it is leaving by then."""
    node.call_later(_unless_leaving, node, callback, arguments)


def _unless_leaving(node: DOMNode, callback: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    if not is_leaving(node):
        callback(*arguments)


def is_leaving(node: DOMNode) -> bool:
    """Whether its screen was closed or the app shuts down: widgets go one by one, and messages still come."""
    return not (node.app.is_running and node.is_attached)


def cancelled(worker: Worker[None]) -> bool:
    """Whether the thread should end."""
    return worker.is_cancelled


def sleep(seconds: float) -> None:
    """In a thread of ``run_in_thread``: sleep so long, or until its worker is cancelled.

    Without naps: a screen at rest would wake up thirty times a second for them.
    """
    if seconds > 0:
        _stopped.get().wait(seconds)
