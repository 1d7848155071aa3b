"""Ending a server so that nothing of it is left: neither processes, nor GPU memory, nor shared memory.

Asked politely first: SIGINT while it loads (it swallows SIGTERM then), SIGTERM when it is ready. A server that stays
is killed with its group, and whatever is then left of its descendants one by one.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable

import msgspec

from cockpit.supervisor import process, store
from cockpit.supervisor.ready import serves
from cockpit.supervisor.record import InstanceRecord, ProcessIdentity
from cockpit.supervisor.shared_memory import Segment, remove_leftovers, segments_of
from cockpit.supervisor.spawn import Running, attach

GRACE_SECONDS = 30.0
_POLL_SECONDS = 0.05
_LOOK_AGAIN_SECONDS = 1.0
_ORPHAN_GRACE_SECONDS = 5.0
"""How long engines and workers may take to end once the server is gone."""
_KILL_SECONDS = 10.0
"""How long the kernel may take to end what was killed: freeing tens of GiB takes seconds."""


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


def stop(
    target: Running | InstanceRecord,
    on_event: Callable[[str], None] = lambda _: None,
    grace_seconds: float = GRACE_SECONDS,
) -> StopResult:
    """Stop the server, wait until nothing of it is left, and remove its record; the log stays.

    ``on_event`` gets a sentence for each step. A dead server's surviving engines and workers are ended as well. When
    something cannot be ended, the record stays and the result names it. Raises CockpitError only when the record
    cannot be written.
    """
    running = target if isinstance(target, Running) else attach(target)
    return _Stop(running, on_event, grace_seconds).run()


class _Stop:
    """One stop under way."""

    def __init__(self, running: Running, on_event: Callable[[str], None], grace_seconds: float) -> None:
        self._running = running
        self._say = on_event
        self._grace_seconds = grace_seconds
        self._members: dict[ProcessIdentity, None] = {}
        """Everything of the instance ever seen during the stop, the server itself included."""
        self._segments: frozenset[Segment] = frozenset()

    def run(self) -> StopResult:
        """Do it."""
        began = time.monotonic()
        self._look()
        self._running.update(stop_requested_at=time.time(), descendants=self._descendants())
        root = self._running.record.process
        if root is not None and self._running.poll() is None:
            self._end_server(root)
        self._end_rest()
        orphans = tuple(sorted(who.pid for who in self._alive()))
        exit_ = self._running.poll()
        if not orphans:
            removed = remove_leftovers(self._segments)
            if removed:
                self._say(f"removed {removed} shared memory segments that it left")
            store.remove(self._running.record)
        return StopResult(
            instance=self._running.record.name,
            stopped=not orphans,
            seconds=time.monotonic() - began,
            orphans=orphans,
            exit_code=None if exit_ is None else exit_.code,
        )

    def _look(self) -> None:
        """Collect what belongs to the instance; before a signal, for afterwards the family tree is lost."""
        found = process.members_of(self._running.record)
        self._members.update(dict.fromkeys(found))
        self._segments |= segments_of(found)

    def _descendants(self) -> tuple[ProcessIdentity, ...]:
        root = self._running.record.process
        return tuple(who for who in self._members if root is None or not process.same(who, root))

    def _alive(self) -> list[ProcessIdentity]:
        return [who for who in self._members if process.is_alive(who)]

    def _end_server(self, root: ProcessIdentity) -> None:
        ready = self._running.record.ready_at is not None or serves(self._running.record)
        self._signal(root, signal.SIGTERM if ready else signal.SIGINT)
        half = self._grace_seconds / 2
        if self._wait(lambda: self._running.poll() is not None, half):
            return
        self._signal(root, signal.SIGINT)
        if self._wait(lambda: self._running.poll() is not None, half):
            return
        self._look()
        if process.leads_own_group(root):
            self._say(f"process {root.pid} did not end in {self._grace_seconds:.0f} s: killing its group")
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(root.pid, signal.SIGKILL)
        else:
            self._signal(root, signal.SIGKILL)
        self._wait(lambda: self._running.poll() is not None, _KILL_SECONDS)

    def _end_rest(self) -> None:
        """End what outlived the server: it gets a moment, then SIGTERM, then SIGKILL."""
        self._look()
        for number, patience in (
            (None, 1.0),
            (signal.SIGTERM, _ORPHAN_GRACE_SECONDS),
            (signal.SIGKILL, _KILL_SECONDS),
        ):
            for who in self._alive():
                if number is not None:
                    self._signal(who, number)
            if self._wait(lambda: not self._alive(), patience):
                return
            self._look()

    def _signal(self, who: ProcessIdentity, number: signal.Signals) -> None:
        try:
            if process.send_signal(who, number):
                self._say(f"sent {number.name} to process {who.pid}")
        except PermissionError:
            self._say(f"process {who.pid} belongs to another user and cannot be signalled")

    def _wait(self, over: Callable[[], bool], seconds: float) -> bool:
        """Wait until ``over``; meanwhile look for processes that came since."""
        limit = time.monotonic() + seconds
        look_again = time.monotonic() + _LOOK_AGAIN_SECONDS
        while not over():
            now = time.monotonic()
            if now >= limit:
                return False
            if now >= look_again:
                self._look()
                look_again = now + _LOOK_AGAIN_SECONDS
            time.sleep(_POLL_SECONDS)
        return True
