"""Ending processes that nobody needs any more, and unlinking the shared memory that they leave."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable

from cockpit.supervisor import process
from cockpit.supervisor.record import ProcessIdentity, Segment
from cockpit.supervisor.shared_memory import remove_leftovers, segments_of

Look = Callable[[], Iterable[ProcessIdentity]]
Say = Callable[[str], None]

_POLL_SECONDS = 0.05
_LOOK_AGAIN_SECONDS = 1.0
_TELL_FIRST_SECONDS, _TELL_EVERY_SECONDS = 2.0, 5.0
ORPHAN_GRACE_SECONDS = 5.0
"""How long engines and workers may take to end once the server is gone."""
KILL_SECONDS = 30.0
"""How long the kernel may take to end what was killed: freeing tens of GiB takes seconds, more on a busy machine."""


class Sweep:
    """Everything of one server that was ever seen, and how it is ended.

    ``look`` finds what belongs to it now; ``say`` gets a sentence for each step and for each long wait.
    """

    def __init__(self, look: Look, say: Say, segments: Iterable[Segment] = ()) -> None:
        self._find = look
        self.say = say
        self.members: dict[ProcessIdentity, None] = {}
        self.segments_removed = 0
        self._segments: frozenset[Segment] = frozenset(segments)

    def look(self) -> None:
        """Collect what belongs to it; before a signal, for afterwards the family tree is lost."""
        found = tuple(self._find())
        self.members.update(dict.fromkeys(found))
        self._segments |= segments_of(found)

    def alive(self) -> list[ProcessIdentity]:
        """Those that still run."""
        return [who for who in self.members if process.is_alive(who)]

    def end_rest(self) -> tuple[int, ...]:
        """End what is left: it gets a moment, then SIGTERM, then SIGKILL. Pids that withstood, or are another user's.

        When none did, their shared memory is unlinked.
        """
        self.look()
        for number, patience in (
            (None, 1.0),
            (signal.SIGTERM, ORPHAN_GRACE_SECONDS),
            (signal.SIGKILL, KILL_SECONDS),
        ):
            for who in self.alive():
                if number is not None:
                    self.signal(who, number)
            if self.wait(lambda: not self.alive(), patience, "what is left of it"):
                break
            self.look()
        left = tuple(sorted(who.pid for who in self.alive()))
        self.segments_removed = 0 if left else remove_leftovers(self._segments)
        if self.segments_removed:
            self.say(f"removed {self.segments_removed} shared memory segments that it left")
        return left

    def signal(self, who: ProcessIdentity, number: signal.Signals) -> None:
        """Signal this very process and say so."""
        try:
            if process.send_signal(who, number):
                self.say(f"sent {number.name} to process {who.pid}")
        except PermissionError:
            self.say(f"process {who.pid} belongs to another user and cannot be signalled")

    def wait(self, over: Callable[[], bool], seconds: float, what: str) -> bool:
        """Wait until ``over``, or for ``seconds``; meanwhile look for processes that came since, and say what for."""
        began = time.monotonic()
        look_at, tell_at = began + _LOOK_AGAIN_SECONDS, began + _TELL_FIRST_SECONDS
        while not over():
            now = time.monotonic()
            if now >= began + seconds:
                return False
            if now >= look_at:
                self.look()
                look_at = now + _LOOK_AGAIN_SECONDS
            if now >= tell_at:
                self.say(f"waiting for {what}, at most {began + seconds - now:.0f} s more")
                tell_at = now + _TELL_EVERY_SECONDS
            time.sleep(_POLL_SECONDS)
        return True
