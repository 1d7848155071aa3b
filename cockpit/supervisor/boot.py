"""What a boot has done so far, read from the server's log as it grows.

A line of vLLM is ``(Process pid=N) LEVEL MM-DD HH:MM:SS [file:line] text``; uvicorn, progress bars and tracebacks
lack parts of that.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable

from cockpit.supervisor import boot_errors, boot_rules
from cockpit.supervisor.boot_state import BootDraft, BootState

_CLOCK_SLACK_SECONDS = 2.0
"""Stamps have whole seconds, and the clock may be set by a little during a boot."""
_CARRIERS = (
    r"(?:[\w.-]{1,80} {1,20}\| )?"  # docker compose
    r"(?:\d{4}-\d\d-\d\dT[\d:.,]{8,24}(?:Z|[+-]\d\d:?\d\d)? (?:std(?:out|err) F )?)?"  # docker, kubernetes
    r"(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S{1,80} \S{1,80}: )?"  # journald
)
"""What programs that collect logs put before each line."""
_LINE = re.compile(
    rf"{_CARRIERS}(?:\((?P<process>[^\s()]{{1,60}})(?: rank=\d+)? pid=\d+\) )?"
    r"(?:(?P<level>[A-Z]{4,8}) (?P<stamp>\d\d-\d\d \d\d:\d\d:\d\d) \[[^\]]*\] |[A-Z]{4,8}: +)?"
    r"(?:\[[^\]]{1,60}\] )?"
    rf"(?P<text>(?:{boot_rules.OPENINGS}|{boot_errors.OPENINGS}).*)"
)
_PROGRESS_BARS = ("Capturing CUDA", "Loading safetensors", "Loading pt")


class BootLog:
    """Reads a boot log a few lines at a time, in bounded memory.

    ``spawned_at`` is the Unix time of the spawn; None takes the first time found in the log as the start.
    """

    def __init__(self, spawned_at: float | None) -> None:
        self._spawned_at = spawned_at
        self._draft = BootDraft()
        self._exceptions = boot_errors.ExceptionFinder()

    def feed(self, lines: Iterable[str], now: float) -> None:
        """Read further lines, cleaned and whole, seen at Unix time ``now``.

        A line's own time is preferred, and a line without one has that of the line before it in the same call,
        so that a log read long after its boot gives the boot's own times.
        """
        stamped: float | None = None
        for line in lines:
            match = _LINE.match(line)
            if match is None:
                continue
            if match["stamp"] is not None:
                stamped = self._seconds_of(match["stamp"], now)
            self._exceptions.feed(match["process"], match["level"], match["text"])
            if not self._draft.ready:
                self._apply(match["text"], self._since_spawn(now) if stamped is None else stamped)

    def feed_unfinished(self, line: str, now: float) -> None:
        """Read the line that has no newline yet: only a progress bar says something before it ends."""
        match = _LINE.match(line)
        if match is not None and match["text"].startswith(_PROGRESS_BARS) and not self._draft.ready:
            self._apply(match["text"], self._since_spawn(now))

    def snapshot(self) -> BootState:
        """The boot as it stands."""
        return self._draft.snapshot(self._exceptions.found)

    def _apply(self, text: str, at: float) -> None:
        boot_rules.apply(self._draft, text, at)
        if self._draft.ready:
            self._exceptions.boot_is_over()

    def _since_spawn(self, at: float) -> float:
        if self._spawned_at is None:
            self._spawned_at = at
        return max(0.0, at - self._spawned_at)

    def _seconds_of(self, stamp: str, now: float) -> float | None:
        """Seconds since the spawn of a local ``MM-DD HH:MM:SS``; None when it cannot belong to this boot.

        It bears no year: the latest one counts that does not put it after ``now``.
        """
        this_year = time.localtime(now).tm_year
        for year in (this_year, this_year - 1):
            try:
                at = time.mktime(time.strptime(f"{year}-{stamp}", "%Y-%m-%d %H:%M:%S"))
            except (ValueError, OverflowError):
                continue
            if at <= now + _CLOCK_SLACK_SECONDS:
                before_spawn = self._spawned_at is not None and at < self._spawned_at - _CLOCK_SLACK_SECONDS
                return None if before_spawn else self._since_spawn(at)
        return None
