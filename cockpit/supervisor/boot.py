"""What a boot has done so far, read from the server's log as it grows."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from typing import Any

import msgspec

from cockpit.supervisor import boot_rules
from cockpit.supervisor.boot_state import BootDraft, BootState
from cockpit.supervisor.diagnose.lines import parse
from cockpit.supervisor.diagnose.matcher import conclude
from cockpit.supervisor.diagnose.reader import TroubleReader
from cockpit.supervisor.diagnose.types import Diagnosis, End
from cockpit.supervisor.logfile import open_log, read_lines

_CLOCK_SLACK_SECONDS = 2.0
"""Stamps have whole seconds, and the clock may be set by a little during a boot."""
_KNOWN = re.compile(rf"(?:\[[^\]]{{1,60}}\] )?(?P<text>(?:{boot_rules.OPENINGS}).*)")
_FIRST_WORDS = ("non-default args", "vLLM API server version", "vLLM server version")
"""Of a boot that logs anything at all."""
_MAX_LINE_CHARACTERS = 4000
_PROGRESS_BARS = ("Capturing ", "Loading safetensors", "Loading pt", "Loading np_cache", "Multi-thread ", "Fetching ")


class BootLog:
    """Reads a boot log a few lines at a time, in bounded memory.

    ``spawned_at`` is the Unix time of the spawn; None takes the first time found in the log as the start.
    """

    def __init__(self, spawned_at: float | None, arguments: dict[str, Any] | None = None) -> None:
        self._spawned_at = spawned_at
        self._arguments = arguments
        self._latest = 0.0
        self._draft = BootDraft()
        self._trouble = TroubleReader(arguments)
        self._told: tuple[BootState, BootState] | None = None
        """The boot and what a snapshot made of it, as long as nothing was read since."""

    def feed(self, lines: Iterable[str], now: float) -> None:
        """Read further lines, cleaned and whole, seen at Unix time ``now``.

        A line's own time is preferred, and a line without one has that of the line before it in the same call,
        so that a log read long after its boot gives the boot's own times.
        """
        stamped: float | None = None
        for raw in lines:
            self._told = None
            for line in parse(raw):
                if line.text.startswith(_FIRST_WORDS) and self._trouble.is_over(self._draft.ready):
                    self._begin_again()
                match = None if self._draft.ready else _KNOWN.match(line.text)
                if match is not None:
                    if line.stamp:
                        stamped = self._seconds_of(line.stamp, now)
                    self._apply(match["text"], self._since_spawn(now) if stamped is None else stamped)
                self._trouble.feed(line, self._draft.current)

    def _begin_again(self) -> None:
        """A restart loop writes one boot after another into its log: the last one counts."""
        self._spawned_at = None
        self._latest = 0.0
        self._draft = BootDraft()
        self._trouble = TroubleReader(self._arguments)

    def engine_began(self, at: float) -> None:
        """An engine process began at Unix time ``at``: whatever the log says, Python has imported vLLM by then."""
        if not self._draft.ready:
            self._draft.enter("config", self._since_spawn(at))

    def feed_unfinished(self, line: str, now: float) -> None:
        """Read the line that has no newline yet: only a progress bar says something before it ends."""
        if line.lstrip().startswith(_PROGRESS_BARS) or " pid=" in line:
            for part in parse(line):
                if part.text.startswith(_PROGRESS_BARS) and not self._draft.ready:
                    self._apply(part.text, self._since_spawn(now))

    @property
    def is_ready(self) -> bool:
        """Whether the server answered."""
        return self._draft.ready

    def snapshot(self) -> BootState:
        """The boot as it stands."""
        boot = self._draft.snapshot(None)
        # To weigh the incidents of a log takes milliseconds, and a screen asks every second.
        if self._told is None or self._told[0] != boot:
            self._told = boot, msgspec.structs.replace(boot, first_exception=self._trouble.first_exception(boot))
        return self._told[1]

    def diagnosis(self, end: End) -> Diagnosis:
        """What the log so far says about its server, of which ``end`` is known besides."""
        return conclude(self._trouble.reading(self.snapshot()), end)

    def _apply(self, text: str, at: float) -> None:
        was_ready = self._draft.ready
        # A clock that was set back during the boot stamps lines with times before those of earlier ones.
        self._latest = max(self._latest, at)
        boot_rules.apply(self._draft, text, self._latest)
        if self._draft.ready and not was_ready:
            self._trouble.boot_is_over()

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


def boot_of(path: str, spawned_at: float) -> BootState | None:
    """The boot that a log file tells of, read until the server answered; None when it cannot be read."""
    log = BootLog(spawned_at)
    try:
        with open_log(path) as stream:
            for line in read_lines(stream, _MAX_LINE_CHARACTERS):
                log.feed((line,), time.time())
                if log.is_ready:
                    break
    except OSError:
        return None
    return log.snapshot()
