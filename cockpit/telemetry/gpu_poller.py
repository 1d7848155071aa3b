"""NVML asked in a thread of its own: one that hangs makes the figures old, and keeps nobody waiting."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection

import msgspec

from cockpit.telemetry.clock import elapsed
from cockpit.telemetry.gpu import GpuReader, GpuSample

PATIENCE_SECONDS = 0.5
"""How long a tick waits for a reading; NVML takes some milliseconds a GPU."""
FIRST_PATIENCE_SECONDS = 1.5
"""The first reading loads the driver where none is kept loaded."""
OLD_SECONDS = 10.0
"""Figures older than this are not shown."""


class AgedSample(msgspec.Struct, frozen=True, kw_only=True):
    """The newest reading there is."""

    sample: GpuSample = GpuSample()
    age_seconds: float | None = None
    """None before the first one."""


class GpuPoller:
    """Reads on demand, in one daemon thread; a reading that is late is taken when it comes.

    ``clock`` gives monotonic seconds. A thread that hangs inside the driver cannot be ended; it is left alone and no
    other one is started.
    """

    def __init__(self, reader: GpuReader, clock: Callable[[], float] = elapsed) -> None:
        self._reader = reader
        self._clock = clock
        self._done = threading.Event()
        self._wanted = threading.Event()
        self._closing = False
        self._pids: Collection[int] | None = None
        self._thread: threading.Thread | None = None
        self._asked_at: float | None = None
        self._newest: tuple[float, GpuSample] | None = None

    def read(self, pids: Collection[int] | None = None) -> AgedSample:
        """The GPUs now, or as they last were; waits half a second at most, and not at all for one that is late."""
        if self._done.is_set():
            self._asked_at = None
        if self._asked_at is None:
            self._ask(pids)
            if self._done.wait(FIRST_PATIENCE_SECONDS if self._newest is None else PATIENCE_SECONDS):
                self._asked_at = None
        return self._aged()

    def close(self) -> None:
        """End the thread, which shuts NVML down; one that hangs is left behind."""
        self._closing = True
        self._wanted.set()
        if self._thread is not None:
            self._thread.join(PATIENCE_SECONDS)

    def _ask(self, pids: Collection[int] | None) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True, name="nvml")
            self._thread.start()
        self._pids, self._asked_at = pids, self._clock()
        self._done.clear()
        self._wanted.set()

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            self._wanted.clear()
            if self._closing:
                self._reader.close()
                return
            sample = self._reader.read(self._pids)
            self._newest = (self._clock(), sample)
            self._done.set()

    def _aged(self) -> AgedSample:
        now = self._clock()
        waiting = 0.0 if self._asked_at is None else now - self._asked_at
        if self._newest is None:
            return AgedSample(sample=GpuSample(problem="NVML has not answered yet: the GPUs are not known."))
        at, sample = self._newest
        age = max(0.0, now - at)
        if self._asked_at is not None:
            problem = f"NVML has not answered for {waiting:.0f} s: the driver may hang."
            sample = GpuSample(gpus=() if age > OLD_SECONDS else sample.gpus, problem=problem)
        return AgedSample(sample=sample, age_seconds=age)
