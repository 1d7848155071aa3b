"""One instance, followed: its boot, its log and its live figures in one observation a tick."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol
from urllib.parse import urlsplit

import msgspec

from cockpit.supervisor.boot_pace import Pace
from cockpit.supervisor.boot_state import BootFacts, BootState
from cockpit.supervisor.boot_watch import BootWatch
from cockpit.supervisor.diagnose.types import Diagnosis
from cockpit.supervisor.process import is_alive, members_of
from cockpit.supervisor.ready import state_of
from cockpit.supervisor.record import InstanceRecord
from cockpit.supervisor.silence import Silence
from cockpit.supervisor.spawn import Running
from cockpit.telemetry.fetch import metrics_url
from cockpit.telemetry.frame import Frame, State
from cockpit.telemetry.int8 import int8_of
from cockpit.telemetry.iterations import IterationCounter
from cockpit.telemetry.pool import LogPool, pool_of
from cockpit.telemetry.sampler import WINDOW_SECONDS, Sampler


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about one instance at one moment."""

    record: InstanceRecord
    state: State
    boot: BootState
    boot_seconds: float
    """Since the spawn, or from spawn to ready once it is ready."""
    frame: Frame
    lines: tuple[str, ...]
    """New lines of its log, cleaned of control characters."""
    exit_code: int | None = None
    pace: Pace | None = None
    """Of its boot against earlier ones; None when there were none like it."""
    silence: Silence | None = None
    """Why a booting server writes nothing; None while it writes."""
    problem: str | None = None
    """What else the user should know, such as a port that others listen on, told once."""
    survivors: int = 0
    """Processes of a dead server that still run, and hold its memory."""
    diagnosis: Diagnosis | None = None
    """Why it died; None while it lives."""

    @property
    def was_ready(self) -> bool:
        """Whether it ever answered."""
        return self.record.ready_at is not None


class Watch(Protocol):
    """Follows one server or tape; ``tick`` blocks for a moment and belongs into a worker thread."""

    @property
    def is_live(self) -> bool:
        """Whether what it shows happens now."""

    @property
    def position(self) -> str:
        """Where on a tape it is; empty when live."""

    def tick(self) -> Observation:
        """What is so now, with the log lines that came since the last look."""

    def close(self) -> None:
        """Let go; the server is left as it is."""


class _Members:
    """A server's processes. Once it is ready they stay the same for minutes, and finding them reads /proc whole."""

    _SECONDS = 10.0

    def __init__(self, record: Callable[[], InstanceRecord]) -> None:
        self._record = record
        self._pids: list[int] = []
        self._read_at: float | None = None

    def pids(self) -> list[int]:
        """Their pids, ten seconds old at most when it is ready."""
        now, record = time.monotonic(), self._record()
        if record.ready_at is None or self._read_at is None or now - self._read_at >= self._SECONDS:
            self._read_at = now
            self._pids = [who.pid for who in members_of(record)]
        return self._pids


_NO_BOOT = BootState(stages=(), current=None, facts=BootFacts(), ready=True, first_exception=None)


class ForeignWatch:
    """A server that no cockpit started: its figures, and whether its process lives; it has no log and no boot.

    ``url`` is where to ask when that is more than the record shows, e.g. with a user and password.
    """

    is_live = True
    position = ""

    def __init__(
        self,
        record: InstanceRecord,
        url: str | None = None,
        api_key: str | None = None,
        window_seconds: float = WINDOW_SECONDS,
    ) -> None:
        self._record = record
        self._sampler = Sampler(
            record.url if url is None else url,
            api_key,
            window_seconds,
            read_host=record.process is not None,
            pids=_Members(lambda: record).pids if record.process else None,
            gpu_indices=record.gpus or None,
            read_gpus=record.process is not None,
        )

    def tick(self) -> Observation:
        """One look at the process and the figures."""
        record = self._record
        gone = record.process is not None and not is_alive(record.process)
        state: State = "dead" if gone else "foreign"
        return Observation(
            record=record,
            state=state,
            boot=_NO_BOOT,
            boot_seconds=0.0,
            frame=self._sampler.tick(time.time(), state),
            lines=(),
        )

    def close(self) -> None:
        """Let go of the connection and of NVML."""
        self._sampler.close()


def watch_url(url: str, api_key: str | None = None, window_seconds: float = WINDOW_SECONDS) -> ForeignWatch:
    """Follow any vLLM by its URL; what is not to be had from outside stays unknown: processes, GPUs, log.

    Raises CockpitError on a URL or key that cannot be used.
    """
    metrics_url(url)
    return ForeignWatch(_record_of(url), url, api_key, window_seconds)


def _record_of(url: str) -> InstanceRecord:
    """A server that no cockpit started, in the shape of a record; it is never written to disk."""
    parts = urlsplit(url)
    host, now = parts.hostname or "", time.time()
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return InstanceRecord(
        name=f"{host}:{port}",
        slug=f"{host}:{port}",
        model="",
        served_model_name="",
        argv=(),
        env={},
        cwd="",
        host=host,
        port=port,
        # A user and password in a URL are no part of what is shown or recorded.
        url=f"{parts.scheme}://{host}:{port}{parts.path}",
        log="",
        created_at=now,
        ready_at=now,
    )


class InstanceWatch:
    """Follows one instance."""

    is_live = True
    position = ""

    def __init__(self, running: Running) -> None:
        self._running = running
        self._boot_watch = BootWatch(running)
        self._boot: BootState | None = None
        self._iterations = IterationCounter()
        self._behind = False
        """The log is still being caught up with, so its tokens are not those of now."""
        self._members = _Members(lambda: self._running.record)
        record = running.record
        self._sampler = Sampler(
            record.url,
            pids=self._members.pids,
            gpu_indices=record.gpus,
            read_gpus=bool(record.gpus),  # the CPU build has none: another's memory is no upper bound of its own
            int8=lambda: int8_of(record, self._boot),
            log_pool=self._log_pool,
            context_tokens=lambda: None if self._behind else self._iterations.tokens,
            expects_draft=bool(record.values.get("speculative_tokens")),
        )

    def _log_pool(self) -> LogPool | None:
        return None if self._boot is None else pool_of(self._boot.facts)

    @property
    def record(self) -> InstanceRecord:
        """The record as last seen."""
        return self._running.record

    def tick(self) -> Observation:
        """One look at the process, the log and the figures."""
        progress = self._boot_watch.tick()
        self._boot = progress.boot
        self._iterations.feed(progress.lines)
        self._behind = progress.behind
        record = self._running.record
        state: State = "dead" if progress.life == "dead" else state_of(record)
        return Observation(
            record=record,
            state=state,
            boot=progress.boot,
            boot_seconds=progress.seconds,
            frame=self._sampler.tick(time.time(), state),
            lines=progress.lines,
            exit_code=progress.exit_code,
            pace=progress.pace,
            silence=progress.silence,
            problem=progress.problem,
            diagnosis=progress.diagnosis,
            survivors=len(members_of(record)) if state == "dead" else 0,
        )

    def close(self) -> None:
        """Let go of the connection and of NVML; the server is left as it is."""
        self._sampler.close()
