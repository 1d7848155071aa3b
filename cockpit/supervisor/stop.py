"""Ending a server so that nothing of it is left: neither processes, nor GPU memory, nor shared memory.

Asked politely first: SIGTERM when it is ready, SIGINT while it loads, as it swallows SIGTERM then, and two more
of them unless it begins to end. Before that, while Python imports torch, SIGINT is lost and SIGTERM ends it at
once; no engine is there yet. A server that stays is ended with its group, and whatever is then left of its
descendants one by one.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable

import msgspec

from cockpit.supervisor import process, store
from cockpit.supervisor.ready import serves
from cockpit.supervisor.record import InstanceRecord, ProcessIdentity
from cockpit.supervisor.spawn import Running, attach
from cockpit.supervisor.sweep import KILL_SECONDS, Sweep

GRACE_SECONDS = 30.0
_INTERRUPT_PAUSES_SECONDS = (0.5, 1.0)
"""Between the signals to a server that loads."""
_FOLLOW_SECONDS = 2.0
"""How long it, and then its engine, may take to follow them."""


class StopResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a stop."""

    instance: str
    stopped: bool
    """Nothing of the instance runs any more."""
    seconds: float
    orphans: tuple[int, ...] = ()
    """Pids that withstood even SIGKILL (stuck in the kernel), or that belong to another user."""
    gpu_bytes_freed: int | None = None
    """Filled by who reads the GPUs."""
    exit_code: int | None = None
    """Of the server, where this cockpit had started it."""
    was_dead: bool = False
    """The server had ended before: only what it left was cleared away."""
    left_processes: int = 0
    """Engines and workers that a dead server had left."""
    segments_removed: int = 0
    """Segments of shared memory that nobody needed any more."""
    log: str = ""
    """Path of the log, which stays."""


def stop(
    target: Running | InstanceRecord,
    on_event: Callable[[str], None] = lambda _: None,
    grace_seconds: float = GRACE_SECONDS,
) -> StopResult:
    """Stop the server, wait until nothing of it is left, and remove its record; the log stays.

    ``on_event`` gets a sentence for each step. A dead server's surviving engines and workers are ended as well. When
    something cannot be ended, the record stays and the result names it. A record that cannot be written is no reason
    to fail; raises CockpitError when it cannot be removed.
    """
    running = target if isinstance(target, Running) else attach(target)
    return _Stop(running, on_event, grace_seconds).run()


def end_processes(
    name: str, members: Iterable[ProcessIdentity], on_event: Callable[[str], None] = lambda _: None
) -> StopResult:
    """End these very processes and all below them, without a server or a record: orphans, say."""
    began = time.monotonic()
    known = tuple(members)

    def look() -> Iterable[ProcessIdentity]:
        return [below for who in known if process.is_alive(who) for below in (who, *process.children_of(who))]

    left = Sweep(look, on_event).end_rest()
    return StopResult(instance=name, stopped=not left, seconds=time.monotonic() - began, orphans=left)


class _Stop:
    """One stop under way."""

    def __init__(self, running: Running, on_event: Callable[[str], None], grace_seconds: float) -> None:
        self._running = running
        self._grace_seconds = grace_seconds
        self._sweep = Sweep(lambda: process.members_of(running.record), on_event, running.record.segments)

    def run(self) -> StopResult:
        """Do it."""
        began = time.monotonic()
        self._sweep.look()
        was_dead = self._running.poll() is not None
        left = len(self._descendants()) if was_dead else 0
        # On a full disk the server is stopped all the same.
        self._running.note(stop_requested_at=time.time(), descendants=self._descendants())
        root = self._running.record.process
        if root is not None and self._running.poll() is None:
            self._end_server(root)
        orphans = self._sweep.end_rest()
        exit_ = self._running.poll()
        if not orphans:
            store.remove(self._running.record)
        return StopResult(
            instance=self._running.record.name,
            stopped=not orphans,
            seconds=time.monotonic() - began,
            orphans=orphans,
            exit_code=None if exit_ is None else exit_.code,
            was_dead=was_dead,
            left_processes=left,
            segments_removed=self._sweep.segments_removed,
            log=self._running.record.log,
        )

    def _descendants(self) -> tuple[ProcessIdentity, ...]:
        root = self._running.record.process
        return tuple(who for who in self._sweep.members if root is None or not process.same(who, root))

    def _end_server(self, root: ProcessIdentity) -> None:
        ready = self._running.record.ready_at is not None or serves(self._running.record)
        by_sigterm = ready or process.ends_by(root, signal.SIGTERM)
        below = process.children_of(root)
        self._sweep.signal(root, signal.SIGTERM if by_sigterm else signal.SIGINT)
        half = self._grace_seconds / 2
        asked_at = time.monotonic()
        if not by_sigterm:
            self._interrupt_boot(root, below, asked_at + half)
        rest = max(0.0, asked_at + half - time.monotonic())
        if self._await_end(rest, "the server to end, then it is asked once more"):
            return
        self._sweep.signal(root, signal.SIGINT)
        if self._await_end(half, "the server to end, then it is killed"):
            return
        self._sweep.look()
        if process.leads_own_group(root):
            self._sweep.say(f"process {root.pid} did not end in {self._grace_seconds:.0f} s: killing its group")
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(root.pid, signal.SIGKILL)
        else:
            self._sweep.signal(root, signal.SIGKILL)
        self._await_end(KILL_SECONDS, "the kernel to end it")

    def _interrupt_boot(self, root: ProcessIdentity, below: Iterable[ProcessIdentity], until: float) -> None:
        """Two more SIGINT unless a server that loads begins to end, which shows by its children; then end those.

        While vLLM waits for its engine, asyncio's Runner takes the first as a wish to cancel at the next await, which
        comes once the engine is ready. The second raises KeyboardInterrupt, which zmq_socket_ctx of
        utils/network_utils.py swallows (0.20 to 0.32); the third ends it. An engine that loads may follow late, and
        without one only Python's own end is waited for.
        """
        for pause in _INTERRUPT_PAUSES_SECONDS:
            if self._ends_within(pause, until):
                return
            if all(process.is_alive(who) for who in below):
                self._sweep.signal(root, signal.SIGINT)
        for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGKILL):
            if self._ends_within(_FOLLOW_SECONDS, until):
                return
            engines = [who for who in process.children_of(root) if _is_to_end(who)]
            for who in engines:
                self._sweep.signal(who, number)
            if not engines:
                self._sweep.signal(root, signal.SIGINT)
                return

    def _ends_within(self, seconds: float, until: float) -> bool:
        """Whether the server ends meanwhile, or there is no time for it."""
        return time.monotonic() + seconds > until or self._await_end(seconds, "the server to end")

    def _await_end(self, seconds: float, what: str) -> bool:
        return self._sweep.wait(lambda: self._running.poll() is not None, seconds, what)


def _is_to_end(who: ProcessIdentity) -> bool:
    """Whether it is an engine or will be one; the resource tracker, which unlinks shared memory, ignores SIGTERM."""
    return process.is_engine(who) or process.ends_by(who, signal.SIGTERM)
