"""Host memory and processor use, and the instance's share of both."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection

import msgspec
import psutil

from cockpit.telemetry.clock import elapsed
from cockpit.telemetry.frame import HostReading

PSS_INTERVAL_SECONDS = 5.0
"""Reading PSS walks every mapping of a process: tens of milliseconds for a server, too much for each second."""

Identity = tuple[int, float]
"""pid and start time, so that a pid used again is not taken for the process before it."""


class _CpuBaseline(msgspec.Struct, frozen=True, kw_only=True):
    """Processor seconds at one moment."""

    clock: float
    busy: float
    whole: float
    by_process: dict[Identity, float]


class HostReader:
    """Reads the host once a tick; ``clock`` gives monotonic seconds. Processor figures need two readings."""

    def __init__(self, clock: Callable[[], float] = elapsed) -> None:
        self._clock = clock
        self._cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        self._cpu: _CpuBaseline | None = None
        self._memory_read_at: float | None = None
        self._memory_of: frozenset[Identity] = frozenset()
        self._instance_bytes: int | None = None

    def read(self, pids: Collection[int] | None = None) -> HostReading:
        """The host now; ``pids`` are the instance's processes, None or none when they cannot be known."""
        processes = _living(pids or ())
        memory = psutil.virtual_memory()
        before, self._cpu = self._cpu, _cpu_now(self._clock(), processes)
        return HostReading(
            memory_total_bytes=memory.total,
            memory_used_bytes=memory.total - memory.available,
            instance_bytes=self._resident(processes),
            cores=self._cores,
            cpu_fraction=_busy_fraction(before, self._cpu),
            instance_cpu_cores=_busy_cores(before, self._cpu) if processes else None,
        )

    def _resident(self, processes: dict[Identity, psutil.Process]) -> int | None:
        """Resident bytes of the instance, read anew every few seconds and whenever its processes changed."""
        now = self._clock()
        same = self._memory_of == processes.keys()
        if same and self._memory_read_at is not None and now - self._memory_read_at < PSS_INTERVAL_SECONDS:
            return self._instance_bytes
        sizes = [size for process in processes.values() if (size := _process_bytes(process)) is not None]
        self._instance_bytes = sum(sizes) if sizes else None
        self._memory_of, self._memory_read_at = frozenset(processes), now
        return self._instance_bytes


def _living(pids: Collection[int]) -> dict[Identity, psutil.Process]:
    """The processes that are still there."""
    found: dict[Identity, psutil.Process] = {}
    for pid in pids:
        try:
            process = psutil.Process(pid)
            found[(pid, process.create_time())] = process
        except (psutil.Error, ValueError):
            # Gone, a zombie or another user's; ValueError for a pid that can be none.
            continue
    return found


def _process_bytes(process: psutil.Process) -> int | None:
    """PSS, which shares out pages that several processes map; RSS where PSS is not readable; None when gone."""
    try:
        return int(process.memory_full_info().pss)
    except (psutil.Error, AttributeError):
        # Another user's process, or a system without PSS.
        pass
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return None


def _cpu_now(clock: float, processes: dict[Identity, psutil.Process]) -> _CpuBaseline:
    """Busy and whole processor seconds of the host (guests are part of user time), and those of each process."""
    times = psutil.cpu_times()
    whole = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
    by_process: dict[Identity, float] = {}
    for identity, process in processes.items():
        try:
            own = process.cpu_times()
        except psutil.Error:
            continue
        by_process[identity] = own.user + own.system
    return _CpuBaseline(
        clock=clock,
        busy=whole - times.idle - getattr(times, "iowait", 0.0),
        whole=whole,
        by_process=by_process,
    )


def _busy_fraction(before: _CpuBaseline | None, now: _CpuBaseline) -> float | None:
    """Share of all processor time since the last reading, 0 to 1; None at the first."""
    if before is None or now.whole <= before.whole:
        return None
    return min(1.0, max(0.0, (now.busy - before.busy) / (now.whole - before.whole)))


def _busy_cores(before: _CpuBaseline | None, now: _CpuBaseline) -> float | None:
    """Processor seconds a second over the processes that both readings saw; None when there is none."""
    if before is None or now.clock <= before.clock:
        return None
    grown = [
        max(0.0, seconds - before.by_process[identity])
        for identity, seconds in now.by_process.items()
        if identity in before.by_process
    ]
    return sum(grown) / (now.clock - before.clock) if grown else None
