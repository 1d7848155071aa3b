"""A boot, followed: its stages, its log, and whatever keeps it from becoming ready."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from cockpit.errors import CockpitError
from cockpit.supervisor import boot_history, process
from cockpit.supervisor.boot import BootLog
from cockpit.supervisor.boot_clock import WORTH_SAYING_SECONDS, BootClock, boot_seconds, slept_through
from cockpit.supervisor.boot_pace import Pace, pace_of
from cockpit.supervisor.boot_state import BootState
from cockpit.supervisor.diagnose.files import end_of
from cockpit.supervisor.diagnose.types import Diagnosis
from cockpit.supervisor.log_bounds import bound
from cockpit.supervisor.logfile import Tail
from cockpit.supervisor.port_watch import PortWatch, shared_port
from cockpit.supervisor.ready import Life, note_descendants, probe
from cockpit.supervisor.record import InstanceRecord
from cockpit.supervisor.silence import Silence
from cockpit.supervisor.silence_watch import SilenceWatch
from cockpit.supervisor.spawn import Running

_TICK_SECONDS = 0.25
_NOTE_EVERY_SECONDS = 2.0
_LOG_LAG_SECONDS = 2.0
"""How long after the first answer the log may still lack the lines about it."""
_STAMP_SECONDS = 2.0
"""Stamps have whole seconds: what differs by less is the same time, and the record has it better."""
_MAX_LINES = 5000
_LAST_WORDS_SECONDS = 20.0
"""For reading what a dead server left in its log; what it orphaned may write on for ever."""
GIVE_UP_SECONDS = 600.0
"""Of a silence that alarms, before waiting without a time-out ends: the time that vLLM itself gives its engine
(VLLM_ENGINE_READY_TIMEOUT_S of envs.py)."""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """A boot, a few times a second."""

    life: Life
    boot: BootState
    seconds: float
    """Since the spawn."""
    lines: tuple[str, ...]
    """New lines of the log, cleaned; only the last few thousand of a flood at the end."""
    behind: bool = False
    """The log holds more than was read."""
    timed_out: bool = False
    hopeless: bool = False
    """Not worth waiting for: ``silence`` says why."""
    exit_code: int | None = None
    pace: Pace | None = None
    """Against earlier boots; None when there were none like it, or the host slept meanwhile."""
    silence: Silence | None = None
    """Why a booting server writes nothing; None while it writes."""
    problem: str | None = None
    """What else the user should know, such as a port that others listen on, told once."""
    diagnosis: Diagnosis | None = None
    """Why it died; None while it lives."""


class BootWatch:
    """Follows one boot: every ``tick`` reads the log and looks at the process."""

    def __init__(self, running: Running) -> None:
        record = running.record
        self.running = running
        self._clock = BootClock(record)
        self._ended: float | None = None
        self._tail = Tail(record.log)
        self._log = BootLog(record.created_at, end_of(record, dead=False).arguments)
        self._noted_at = -_NOTE_EVERY_SECONDS
        self._expected = boot_history.expected_of(record)
        self._problems = [boot_history.remembered(record.slug).problem]
        self._remembered = False
        self._was_starting = self._seen_starting = self._seen_alive = False
        self._port = PortWatch()
        self._silence = SilenceWatch(record, self._expected.stages if self._expected else {})

    def tick(self) -> Progress:
        """One look. Dead comes with every line that the server left, ready with those that say how it came up."""
        life = probe(self.running, self._port.patience(self._clock.awake))
        if life == "starting" or self._was_starting:
            self._problems.append(self._clock.told_sleep())
        if life == "starting":
            self._look_around()
        lines = self._read()
        if life == "dead":
            lines = self._read_to_the_end(lines)
        if life == "ready" and self._was_starting:
            lines += self._await_last_lines()
            self._problems.append(shared_port(self.running.record))
        self._was_starting = life == "starting"
        self._seen_starting |= self._was_starting
        boot = self._log.snapshot()
        record = self.running.record
        if life == "ready" and boot.ready and not self._remembered:
            self._remember(record, boot)
        seconds = self._seconds(life, boot)
        self._seen_alive |= life != "dead"
        return Progress(
            life=life,
            boot=boot,
            seconds=seconds,
            lines=tuple(lines),
            behind=self._tail.unread_bytes > 0,
            exit_code=record.exit_code,
            pace=None if self._host_slept(record) else pace_of(boot, seconds, self._expected),
            silence=self._silence_now(record, boot) if life == "starting" else None,
            problem=self._told_once(),
            diagnosis=self._log.diagnosis(end_of(record, dead=True)) if life == "dead" else None,
        )

    def _host_slept(self, record: InstanceRecord) -> bool:
        if record.ready_at is None:
            return self._clock.slept >= WORTH_SAYING_SECONDS
        return slept_through(record)

    def _took(self, boot: BootState) -> float | None:
        """Until the first answer. Where nobody looked for it then, as after a `serve` that did not wait, the log has
        it, and the record only when somebody came."""
        took = boot_seconds(self.running.record)
        said = boot.stages[-1].ended if boot.ready and boot.stages else None
        if took is None or said is None or self._seen_starting or took - said < _STAMP_SECONDS:
            return took
        return said

    def _seconds(self, life: Life, boot: BootState) -> float:
        """Of the boot; it ends with the first answer or with the server."""
        record = self.running.record
        took = self._took(boot)
        if took is not None:
            return took
        if life == "dead" and self._ended is None:
            said = max(0.0, (record.ended_at or record.created_at) - record.created_at)
            self._ended = self._clock.seconds if self._seen_alive else said
        return self._clock.seconds if self._ended is None else self._ended

    def _silence_now(self, record: InstanceRecord, boot: BootState) -> Silence | None:
        seconds = self._clock.awake
        unreachable = self._port.unreachable(record, boot.ready, seconds)
        return unreachable or self._silence.tick(record, self._tail.read_bytes, boot, seconds, self._clock.slept)

    def _told_once(self) -> str | None:
        problems, self._problems = self._problems, []
        return "; ".join(filter(None, problems)) or None

    def _look_around(self) -> None:
        """What a booting server has begun, and who is on its port."""
        seconds = self._clock.awake
        self._problems.append(self._port.warning(self.running.record, seconds))
        if seconds - self._noted_at < _NOTE_EVERY_SECONDS:
            return
        self._noted_at = seconds
        note_descendants(self.running)
        # A server that is told to log little shows by its processes that its engine has begun.
        engines = [who for who in self.running.record.descendants if process.is_engine(who)]
        oldest = max((process.age_seconds(who) or 0.0 for who in engines), default=None)
        if oldest is not None:
            self._log.engine_began(self._clock.unix - oldest)

    def _remember(self, record: InstanceRecord, boot: BootState) -> None:
        """Keep its times for the next boot; a home that cannot be written to costs no more than those."""
        self._remembered = True
        self._problems.append(boot_history.smaller_pool(record, boot))
        try:
            boot_history.remember(msgspec.structs.replace(record, boot_seconds=self._took(boot)), boot)
        except CockpitError as error:
            self._problems.append(error.sentence())

    def _read(self) -> list[str]:
        bound(Path(self.running.record.log))
        lines = self._tail.read()
        now = self._clock.unix
        self._log.feed(lines, now)
        if self._tail.unfinished:
            self._log.feed_unfinished(self._tail.unfinished, now)
        return lines

    def _read_to_the_end(self, lines: list[str]) -> list[str]:
        limit = time.monotonic() + _LAST_WORDS_SECONDS
        before = -1
        while self._tail.unread_bytes and self._tail.read_bytes != before and time.monotonic() < limit:
            before = self._tail.read_bytes
            lines = (lines + self._read())[-_MAX_LINES:]
        return lines

    def _await_last_lines(self) -> list[str]:
        lines: list[str] = []
        limit = time.monotonic() + _LOG_LAG_SECONDS
        while not self._log.snapshot().ready and time.monotonic() < limit:
            if not self._tail.unread_bytes:
                time.sleep(0.05)
            lines = (lines + self._read())[-_MAX_LINES:]
        return lines


def wait_ready(running: Running, timeout: float | None = None) -> Iterator[Progress]:
    """Progress about four times a second until the server is ready or dead, or ``timeout`` seconds are over.

    It also ends where waiting is hopeless: when the server cannot be reached although its log says that it is
    ready, and, without a ``timeout``, when nothing has come of it for so long that something must be wrong. The last
    one says which; the server is left as it is in every case.
    """
    watch = BootWatch(running)
    limit = None if timeout is None else time.monotonic() + timeout
    while True:
        progress = watch.tick()
        starting = progress.life == "starting"
        out_of_time = starting and limit is not None and time.monotonic() >= limit
        hopeless = starting and _is_hopeless(progress.silence, limit is None)
        yield msgspec.structs.replace(progress, timed_out=out_of_time, hopeless=hopeless)
        if out_of_time or hopeless or not starting:
            return
        time.sleep(_TICK_SECONDS)


def _is_hopeless(silence: Silence | None, endless: bool) -> bool:
    if silence is None:
        return False
    return silence.final or (endless and silence.alarm and silence.seconds >= GIVE_UP_SECONDS)
