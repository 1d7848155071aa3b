"""GPU readings through NVML: every call on its own, so that one figure that is missing costs no other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from importlib import import_module
from typing import Any, TypeVar

import msgspec

from cockpit.rig.gpus import memory_of
from cockpit.telemetry.frame import GpuReading

T = TypeVar("T")


class GpuSample(msgspec.Struct, frozen=True, kw_only=True):
    """The GPUs at one moment, or why there are none."""

    gpus: tuple[GpuReading, ...] = ()
    problem: str | None = None


class GpuReader:
    """Reads GPUs once a tick; NVML is loaded and initialised at the first reading.

    ``indices`` limits the reading to some GPUs (all by default); ``nvml`` replaces the pynvml module in tests.
    Not safe for use by two threads at once.
    """

    def __init__(self, indices: Sequence[int] | None = None, nvml: Any = None) -> None:
        self._indices = None if indices is None else tuple(indices)
        self._nvml = nvml
        self._handles: dict[int, Any] | None = None
        self._identities: dict[int, tuple[str, str]] = {}
        self._problem: str | None = None

    def read(self, pids: Collection[int] | None = None) -> GpuSample:
        """Every GPU now; ``pids`` are the instance's processes, None when they cannot be known."""
        if self._handles is None and self._problem is None:
            self._start()
        if not self._handles:
            return GpuSample(problem=self._problem)
        held = {index: self._memory_by_pid(handle) for index, handle in self._handles.items()}
        shares = _instance_bytes(held, frozenset(pids or ()))
        gpus = tuple(self._reading(index, handle, shares[index]) for index, handle in self._handles.items())
        lost = [str(gpu.index) for gpu in gpus if gpu.total_bytes is None and gpu.utilization_fraction is None]
        problem = f"GPU {', '.join(lost)} does not answer NVML." if lost else self._problem
        return GpuSample(gpus=gpus, problem=problem)

    def close(self) -> None:
        """Shut NVML down; a later reading starts it again."""
        if self._handles is not None:
            self._ask(self._nvml.nvmlShutdown)
        self._handles = None

    def _start(self) -> None:
        """Initialise NVML and find the handles, or note why that failed; it is not tried again every second."""
        if self._nvml is None:
            self._nvml = import_module("pynvml")
        try:
            self._nvml.nvmlInit()
        except self._nvml.NVMLError as error:
            self._problem = f"no NVIDIA driver: {str(error).rstrip('.')}."
            return
        count = self._ask(self._nvml.nvmlDeviceGetCount) or 0
        wanted = range(count) if self._indices is None else self._indices
        handles = {index: self._ask(self._nvml.nvmlDeviceGetHandleByIndex, index) for index in wanted}
        self._handles = {index: handle for index, handle in handles.items() if handle is not None}
        missing = [str(index) for index, handle in handles.items() if handle is None]
        if missing:
            self._problem = f"The NVIDIA driver has no GPU {', '.join(missing)}."
        elif not handles:
            self._problem = "The NVIDIA driver reports no GPU."

    def _ask(self, call: Callable[..., T], *arguments: Any) -> T | None:
        """One guarded NVML call; None when this GPU, driver or container does not answer it."""
        try:
            return call(*arguments)
        except self._nvml.NVMLError:
            return None

    def _reading(self, index: int, handle: Any, instance_bytes: int | None) -> GpuReading:
        nvml = self._nvml
        uuid, name = self._identity(index, handle)
        memory = memory_of(nvml, handle)
        rates = self._ask(nvml.nvmlDeviceGetUtilizationRates, handle)
        power = self._ask(nvml.nvmlDeviceGetPowerUsage, handle)
        limit = self._ask(nvml.nvmlDeviceGetEnforcedPowerLimit, handle)
        return GpuReading(
            index=index,
            uuid=uuid,
            name=name,
            total_bytes=None if memory is None else memory[0],
            used_bytes=None if memory is None else memory[1],
            instance_bytes=instance_bytes,
            utilization_fraction=None if rates is None else rates.gpu / 100,
            power_watts=None if power is None else power / 1000,
            power_limit_watts=None if limit is None else limit / 1000,
            temperature_celsius=self._ask(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
        )

    def _identity(self, index: int, handle: Any) -> tuple[str, str]:
        """UUID and name, which do not change, asked once."""
        if index not in self._identities:
            uuid = self._ask(self._nvml.nvmlDeviceGetUUID, handle)
            name = self._ask(self._nvml.nvmlDeviceGetName, handle)
            if uuid is None or name is None:
                return _text(uuid), _text(name) or f"GPU {index}"
            self._identities[index] = (_text(uuid), _text(name))
        return self._identities[index]

    def _memory_by_pid(self, handle: Any) -> dict[int, int | None] | None:
        """Bytes by pid on one GPU; None when no list is to be had, a None value when only the size is hidden."""
        lists = [
            self._ask(self._nvml.nvmlDeviceGetComputeRunningProcesses, handle),
            self._ask(self._nvml.nvmlDeviceGetGraphicsRunningProcesses, handle),
        ]
        if lists[0] is None and lists[1] is None:
            return None
        # A process in both lists holds the same memory in both, so the second entry replaces the first.
        return {process.pid: process.usedGpuMemory for some in lists for process in some or ()}


def _instance_bytes(held: dict[int, dict[int, int | None] | None], pids: frozenset[int]) -> dict[int, int | None]:
    """The instance's bytes by GPU.

    In a container NVML lists host pids or none at all, and a sum over nothing would read as 0. So a GPU without
    a process of ours counts as 0 only if NVML shows one of ours on some GPU.
    """
    seen_anywhere = any(pids & by_pid.keys() for by_pid in held.values() if by_pid)
    shares: dict[int, int | None] = {}
    for index, by_pid in held.items():
        sizes = [size for pid, size in (by_pid or {}).items() if pid in pids]
        known = [size for size in sizes if size is not None]
        hidden = by_pid is None or len(known) < len(sizes) or not seen_anywhere
        shares[index] = None if hidden else sum(known)
    return shares


def _text(value: str | bytes | None) -> str:
    """Older bindings give bytes."""
    if value is None:
        return ""
    return value.decode("utf-8", errors="replace") if isinstance(value, bytes) else value
