"""What the processes of a booting server do: processor time, reads, downloads, compilers, GPUs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Collection, Iterable
from pathlib import Path

import msgspec
import psutil

from cockpit.rig.gpus import gpu_utilization
from cockpit.supervisor.process import members_of
from cockpit.supervisor.record import InstanceRecord
from cockpit.supervisor.silence import Evidence

_COMPILERS = frozenset({"nvcc", "cicc", "ptxas", "cudafe++", "ninja", "gcc", "g++", "cc1", "cc1plus", "clang", "c++"})
_PATIENCE_SECONDS = 1.0
_UNFINISHED = ".incomplete"
"""How the Hugging Face library ends the name of a file that it still downloads."""


class _Counters(msgspec.Struct, frozen=True, kw_only=True):
    """Of one process, at one moment."""

    cpu_seconds: float
    read_bytes: int | None


class _Sample(msgspec.Struct, frozen=True, kw_only=True):
    """Of all processes of a server."""

    at: float
    processes: dict[int, _Counters]
    compilers: tuple[str, ...]
    downloads: dict[str, int]
    """Path of each unfinished file, with its size."""
    stopped: bool


class _Gpus:
    """Asks NVML in a thread: a driver that hangs makes the answer unknown, and keeps nobody waiting."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._answer: dict[int, float | None] = {}

    def utilization(self, indices: Collection[int]) -> dict[int, float | None]:
        """By index; empty when there is no answer within a second, or an earlier question is still open."""
        if self._thread is None or not self._thread.is_alive():
            self._answer = {}
            self._thread = threading.Thread(target=self._ask, args=(tuple(indices),), name="boot-gpus", daemon=True)
            self._thread.start()
        self._thread.join(_PATIENCE_SECONDS)
        return {} if self._thread.is_alive() else self._answer

    def _ask(self, indices: tuple[int, ...]) -> None:
        self._answer = gpu_utilization(indices)


class EvidenceReader:
    """Two looks a few seconds apart make one piece of evidence. Linux only, as the supervisor is."""

    def __init__(self) -> None:
        self._before: _Sample | None = None
        self._gpus = _Gpus()

    def forget(self) -> None:
        """Begin anew: the server has said something."""
        self._before = None

    def look(self, record: InstanceRecord) -> Evidence | None:
        """What it did since the last look; None at the first one. Some milliseconds a process."""
        before, now = self._before, _sample(record)
        self._before = now
        if before is None or now.at <= before.at:
            return None
        seconds = now.at - before.at
        name, grown = _download(before.downloads, now.downloads)
        rates = self._gpus.utilization(record.gpus) if record.gpus else {}
        return Evidence(
            cores=_rate(before, now, seconds, "cpu_seconds"),
            read_bytes_per_second=_rate(before, now, seconds, "read_bytes"),
            gpus=tuple(rates.get(index) for index in record.gpus),
            compilers=now.compilers,
            download=name,
            download_bytes_per_second=None if name is None else grown / seconds,
            stopped=now.stopped,
            p2p_disabled=record.env.get("NCCL_P2P_DISABLE", os.environ.get("NCCL_P2P_DISABLE")) == "1",
        )


def _sample(record: InstanceRecord) -> _Sample:
    counters: dict[int, _Counters] = {}
    compilers: set[str] = set()
    downloads: dict[str, int] = {}
    stopped = False
    for who in members_of(record):
        try:
            process = psutil.Process(who.pid)
        except psutil.Error:  # it has ended since
            continue
        found = _counters(process)
        if found is None:
            continue
        counters[who.pid] = found
        name, status = _name_and_status(process)
        if name in _COMPILERS:
            compilers.add(name)
        stopped = stopped or (who == record.process and status == psutil.STATUS_STOPPED)
        downloads.update(_unfinished(who.pid))
    return _Sample(
        at=time.monotonic(),
        processes=counters,
        compilers=tuple(sorted(compilers)),
        downloads=downloads,
        stopped=stopped,
    )


def _counters(process: psutil.Process) -> _Counters | None:
    """None when the process is gone; the bytes are None where they may not be seen."""
    try:
        times = process.cpu_times()
    except psutil.Error:
        return None
    try:
        read: int | None = process.io_counters().read_bytes
    except (psutil.Error, OSError):
        read = None
    return _Counters(cpu_seconds=times.user + times.system, read_bytes=read)


def _name_and_status(process: psutil.Process) -> tuple[str, str]:
    try:
        return process.name(), process.status()
    except psutil.Error:
        return "", ""


def _unfinished(pid: int) -> Iterable[tuple[str, int]]:
    """Files that a process is downloading to, with their sizes."""
    try:
        descriptors = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return
    for descriptor in descriptors:
        try:
            target = descriptor.readlink()
            if target.name.endswith(_UNFINISHED):
                yield str(target), target.stat().st_size
        except OSError:
            continue


def _rate(before: _Sample, now: _Sample, seconds: float, field: str) -> float | None:
    """Growth of a counter over all processes a second; what began in between counts whole. None when unknown."""
    grown: list[float] = []
    for pid, counters in now.processes.items():
        value = getattr(counters, field)
        earlier = getattr(before.processes.get(pid), field, 0)
        if value is not None and earlier is not None:
            grown.append(max(0, value - earlier))
    return sum(grown) / seconds if grown else None


def _download(before: dict[str, int], now: dict[str, int]) -> tuple[str | None, int]:
    """The unfinished file that grows most, as a short name, and how much all of them grew."""
    if not now:
        return None, 0
    grown = {path: size - before.get(path, size) for path, size in now.items()}
    largest = max(grown, key=lambda path: grown[path])
    return _repository(largest), max(0, sum(grown.values()))


def _repository(path: str) -> str:
    """``…/models--owner--name/blobs/x.incomplete`` → ``owner/name``."""
    for part in Path(path).parts:
        if part.startswith("models--"):
            return part.removeprefix("models--").replace("--", "/")
    return Path(path).name.removesuffix(_UNFINISHED)
