"""Whether a server is starting, ready or dead: asked cheaply, and never fooled by a stranger on its port."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from cockpit.errors import CockpitError
from cockpit.supervisor import boot_history, memory_history, process
from cockpit.supervisor.boot import BootLog
from cockpit.supervisor.boot_pace import Pace, pace_of
from cockpit.supervisor.boot_state import BootState
from cockpit.supervisor.diagnose.files import end_of
from cockpit.supervisor.diagnose.types import Diagnosis
from cockpit.supervisor.endpoint import answers_health, served_models
from cockpit.supervisor.log_bounds import bound
from cockpit.supervisor.logfile import Tail
from cockpit.supervisor.record import InstanceRecord
from cockpit.supervisor.shared_memory import segments_of
from cockpit.supervisor.silence import Silence
from cockpit.supervisor.silence_watch import SilenceWatch
from cockpit.supervisor.spawn import Running, attach

Life = Literal["starting", "ready", "dead"]
State = Literal["starting", "ready", "stopping", "dead"]
_TICK_SECONDS = 0.25
_NOTE_EVERY_SECONDS = 2.0
_LOG_LAG_SECONDS = 2.0
"""How long after the first answer the log may still lack the lines about it."""
_MAX_LINES = 5000
_SPAWN_SECONDS = 10.0
"""How long another cockpit may need between its record and its spawn."""
_STOP_SECONDS = 120.0
"""A stop that was asked for longer ago was given up: its cockpit died or the server withstood it."""


def serves(record: InstanceRecord) -> bool:
    """Whether the instance answers on its port, and not a stranger that has the port.

    Where nobody can say whose listener it is, the name of the model that it serves decides, if it gives one.
    """
    if not answers_health(record.url):
        return False
    owned = process.owns_port(record, record.port)
    if owned is None:
        models = served_models(record.url)
        return models is None or record.served_model_name in models
    return owned


def probe(running: Running) -> Life:
    """Where the server is now. Notes readiness, descendants and death in the record when it first sees them.

    Ready means that its own process answered /health with 200 once; after that it is ready until the process is
    gone (vLLM ends it when an engine dies). A listener on its port that is known to be another's never counts.
    """
    end = running.poll()
    if end is not None:
        if running.record.ended_at is None:
            running.note_death(end.code)
        return "dead"
    record = running.record
    if record.ready_at is not None:
        return "ready"
    if not serves(record):
        return "starting"
    running.note(ready_at=time.time(), **_belongings(record))
    with contextlib.suppress(CockpitError):  # a home that cannot be written to costs the lesson, not the server
        memory_history.learn(running.record)
    return "ready"


def note_descendants(running: Running) -> None:
    """Record the engine and worker processes as they come, so that they can be found when their parent dies."""
    record = running.record
    found = _belongings(record)
    if found["descendants"] and found != {"descendants": record.descendants, "segments": record.segments}:
        running.note(**found)


def _belongings(record: InstanceRecord) -> dict[str, Any]:
    """The fields of a record that say what belongs to its server: processes and shared memory."""
    members = process.members_of(record)
    return {
        "descendants": tuple(who for who in members if who != record.process),
        "segments": tuple(sorted(segments_of(members), key=lambda one: one.path)),
    }


def state_of(record: InstanceRecord) -> State:
    """One word for ``ps``; costs at most one short request, and only while the server is not known to be ready."""
    now = time.time()
    # Times are compared both ways: a clock that was set back must not keep anything starting or stopping for hours.
    if record.process is None and record.ended_at is None and abs(now - record.created_at) < _SPAWN_SECONDS:
        return "starting"
    running = attach(record)
    stopping = record.stop_requested_at is not None and abs(now - record.stop_requested_at) < _STOP_SECONDS
    if stopping and (running.poll() is None or process.members_of(record)):
        return "stopping"
    return probe(running)


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
    exit_code: int | None = None
    pace: Pace | None = None
    """Against earlier boots; None when there were none like it."""
    silence: Silence | None = None
    """Why a booting server writes nothing; None while it writes."""
    problem: str | None = None
    """What is wrong with the file of earlier boots, told once."""
    diagnosis: Diagnosis | None = None
    """Why it died; None while it lives."""


class BootWatch:
    """Follows one boot: every ``tick`` reads the log and looks at the process."""

    def __init__(self, running: Running) -> None:
        self.running = running
        self._tail = Tail(running.record.log)
        self._log = BootLog(running.record.created_at, end_of(running.record, dead=False).arguments)
        self._noted_at = 0.0
        self._expected = boot_history.expected_of(running.record)
        self._problem = boot_history.remembered(running.record.slug).problem
        self._remembered = False
        self._silence = SilenceWatch(running.record, self._expected.stages if self._expected else {})

    def tick(self) -> Progress:
        """One look. Dead comes with every line that the server left, ready with those that say how it came up."""
        life = probe(self.running)
        now = time.time()
        if life == "starting" and now - self._noted_at >= _NOTE_EVERY_SECONDS:
            self._noted_at = now
            note_descendants(self.running)
            self._look_at_the_tree()
        lines = self._read()
        while life == "dead" and self._tail.unread_bytes:
            lines = (lines + self._read())[-_MAX_LINES:]
        record = self.running.record
        if life == "ready" and record.ready_at is not None and now - record.ready_at < _LOG_LAG_SECONDS:
            lines += self._await_last_lines()
        boot = self._log.snapshot()
        if life == "ready" and boot.ready and not self._remembered:
            self._remember(record, boot)
        seconds = (record.ready_at or record.ended_at or now) - record.created_at
        problem, self._problem = self._problem, None
        return Progress(
            life=life,
            boot=boot,
            seconds=seconds,
            lines=tuple(lines),
            behind=self._tail.unread_bytes > 0,
            exit_code=record.exit_code,
            pace=pace_of(boot, seconds, self._expected),
            silence=self._silence.tick(record, self._tail.read_bytes, boot, now) if life == "starting" else None,
            problem=problem,
            diagnosis=self._log.diagnosis(end_of(record, dead=True)) if life == "dead" else None,
        )

    def _look_at_the_tree(self) -> None:
        """A server that is told to log little shows by its processes that its engine has begun."""
        descendants = self.running.record.descendants
        engine = min((who.start_time for who in descendants if process.is_engine(who)), default=None)
        if engine is not None:
            self._log.engine_began(engine)

    def _remember(self, record: InstanceRecord, boot: BootState) -> None:
        """Keep its times for the next boot; a home that cannot be written to costs no more than those."""
        self._remembered = True
        self._problem = boot_history.smaller_pool(record, boot)
        try:
            boot_history.remember(record, boot)
        except CockpitError as error:
            self._problem = error.sentence()

    def _read(self) -> list[str]:
        bound(Path(self.running.record.log))
        lines = self._tail.read()
        now = time.time()
        self._log.feed(lines, now)
        if self._tail.unfinished:
            self._log.feed_unfinished(self._tail.unfinished, now)
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

    The last one says which; the server is left as it is in every case.
    """
    watch = BootWatch(running)
    limit = None if timeout is None else time.monotonic() + timeout
    while True:
        progress = watch.tick()
        out_of_time = progress.life == "starting" and limit is not None and time.monotonic() >= limit
        yield msgspec.structs.replace(progress, timed_out=out_of_time)
        if out_of_time or progress.life != "starting":
            return
        time.sleep(_TICK_SECONDS)
