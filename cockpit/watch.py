"""One instance, followed: its boot, its log and its live figures in one observation a tick."""

from __future__ import annotations

import time
from typing import Protocol

import msgspec

from cockpit.supervisor.boot_pace import Pace
from cockpit.supervisor.boot_state import BootFacts, BootState
from cockpit.supervisor.diagnose.types import Diagnosis
from cockpit.supervisor.process import is_alive, members_of
from cockpit.supervisor.ready import BootWatch, state_of
from cockpit.supervisor.record import InstanceRecord
from cockpit.supervisor.silence import Silence
from cockpit.supervisor.spawn import Running
from cockpit.telemetry.frame import Frame, State
from cockpit.telemetry.int8 import int8_of
from cockpit.telemetry.iterations import IterationCounter
from cockpit.telemetry.pool import LogPool
from cockpit.telemetry.sampler import Sampler


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
    """What is wrong with the file of earlier boots, told once."""
    survivors: int = 0
    """Processes of a dead server that still run, and hold its memory."""
    diagnosis: Diagnosis | None = None
    """Why it died; None while it lives."""

    @property
    def was_ready(self) -> bool:
        """Whether it ever answered."""
        return self.record.ready_at is not None


class Watch(Protocol):
    """Follows one server; ``tick`` blocks for a moment and belongs into a worker thread."""

    def tick(self) -> Observation:
        """One look."""

    def close(self) -> None:
        """Let go; the server is left as it is."""


_NO_BOOT = BootState(stages=(), current=None, facts=BootFacts(), ready=True, first_exception=None)


class ForeignWatch:
    """A server that no cockpit started: its figures, and whether its process lives; it has no log and no boot."""

    def __init__(self, record: InstanceRecord) -> None:
        self._record = record
        self._sampler = Sampler(
            record.url,
            pids=(lambda: [who.pid for who in members_of(record)]) if record.process else None,
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


class InstanceWatch:
    """Follows one instance."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self._boot_watch = BootWatch(running)
        self._boot: BootState | None = None
        self._iterations = IterationCounter()
        self._behind = False
        """The log is still being caught up with, so its tokens are not those of now."""
        record = running.record
        self._sampler = Sampler(
            record.url,
            pids=self._pids,
            gpu_indices=record.gpus or None,
            int8=lambda: int8_of(record, self._boot),
            log_pool=self._log_pool,
            context_tokens=lambda: None if self._behind else self._iterations.tokens,
            expects_draft=bool(record.values.get("speculative_tokens")),
        )

    def _pids(self) -> list[int]:
        return [who.pid for who in members_of(self._running.record)]

    def _log_pool(self) -> LogPool | None:
        if self._boot is None:
            return None
        facts = self._boot.facts
        return LogPool(
            capacity_tokens=facts.capacity_tokens,
            max_concurrency=facts.max_concurrency,
            max_model_len=facts.max_model_len,
        )

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
