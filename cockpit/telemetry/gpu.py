"""GPU readings through NVML, one tick after another."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from math import ceil, inf
from typing import Any

import msgspec
import psutil

from cockpit.rig.nvml import NoDriverError, load_nvml
from cockpit.telemetry.clock import elapsed
from cockpit.telemetry.frame import GpuReading
from cockpit.telemetry.gpu_shares import Share, name_of, shares
from cockpit.telemetry.nvml import (
    LOST,
    NOT_SUPPORTED,
    Device,
    Memory,
    lost_problem,
    merged,
    missing_problem,
    start_problem,
    together,
)

_TRAFFIC_TICKS, _TRAFFIC_TICKS_AT_MOST = 5, 20
_START_AGAIN_READINGS = 30
"""A driver that was not there, or whose every GPU fell silent, may have been loaded (anew) meanwhile."""
_TRAFFIC_OLD_SECONDS = 60.0
"""PCIe traffic is measured in turns; one that was measured before that is not shown."""
_TRAFFIC_CPU_A_TICK = 0.002
"""Seconds of processor time that the question for PCIe traffic may cost, on average."""


class GpuSample(msgspec.Struct, frozen=True, kw_only=True):
    """The GPUs at one moment, or why there are none."""

    gpus: tuple[GpuReading, ...] = ()
    problem: str | None = None


class _Traffic(msgspec.Struct, frozen=True):
    """PCIe traffic of one GPU in bytes a second, and when it was measured."""

    clock: float
    sent: float | None
    received: float | None


class _Fixed(msgspec.Struct, frozen=True, kw_only=True):
    """What does not change while a driver is loaded, asked once."""

    uuid: str
    name: str
    nvlinks: int | None
    slices: tuple[Device, ...] | None


class GpuReader:
    """Reads GPUs once a tick; NVML is loaded and initialised at the first reading, and anew where it gives nothing.

    ``indices`` limits the reading to some GPUs, the instance's own (all by default); ``nvml`` replaces the pynvml
    module in tests, ``name_of`` says what process a pid is, ``cpu_clock`` gives the
    processor seconds of the thread that reads, ``clock`` monotonic seconds. Not safe for use by two threads at once.
    """

    def __init__(
        self,
        indices: Sequence[int] | None = None,
        nvml: Any = None,
        name_of: Callable[[int], str | None] = name_of,
        cpu_clock: Callable[[], float] = time.thread_time,
        clock: Callable[[], float] = elapsed,
    ) -> None:
        self._name_of = name_of
        self._indices = None if indices is None else tuple(indices)
        self._nvml = nvml
        self._devices: dict[int, Device] | None = None
        self._fixed: dict[int, _Fixed] = {}
        self._traffic: dict[int, _Traffic] = {}
        self._problem: str | None = None
        self._silent_readings = 0
        self._cpu_clock = cpu_clock
        self._clock = clock
        self._turn = 0
        self._traffic_due = 0
        self._traffic_asked = 0

    def read(self, pids: Collection[int] | None = None) -> GpuSample:
        """Every GPU now; ``pids`` are the instance's processes, None when they cannot be known."""
        if self._silent_readings >= _START_AGAIN_READINGS:
            self.close()
        if self._devices is None and self._problem is None:
            self._start()
        if not self._devices:
            self._silent_readings += 1
            return GpuSample(problem=self._problem)
        sample = self._sample(self._devices, pids)
        self._silent_readings = 0 if any(map(_says_something, sample.gpus)) else self._silent_readings + 1
        return sample

    def _sample(self, devices: dict[int, Device], pids: Collection[int] | None) -> GpuSample:
        self._read_traffic(devices)
        memory = {index: self._memory(index, device) for index, device in devices.items()}
        used = {index: None if one[0] is None else one[0].used for index, one in memory.items()}
        held = {index: self._held(index, device) for index, device in devices.items()}
        assigned = self._indices is not None or len(devices) == 1
        parts = shares(held, used, frozenset(pids or ()), assigned, self._name_of)
        gpus = tuple(self._reading(index, device, *memory[index], parts[index]) for index, device in devices.items())
        return GpuSample(gpus=gpus, problem=_silent_ones(gpus) or self._problem)

    def close(self) -> None:
        """Shut NVML down; a later reading starts it again."""
        if self._devices is not None:
            Device(self._nvml).ask("nvmlShutdown")
        self._devices, self._problem, self._silent_readings = None, None, 0
        self._fixed.clear()
        self._traffic.clear()

    def _start(self) -> None:
        """Initialise NVML and find the handles, or note why that failed; it is not tried again every second."""
        try:
            self._nvml = self._nvml or load_nvml()
        except NoDriverError as error:
            self._problem = start_problem(error)
            return
        try:
            self._nvml.nvmlInit()
        except self._nvml.NVMLError as error:
            self._problem = start_problem(error)
            return
        whole = Device(self._nvml)
        count = whole.ask("nvmlDeviceGetCount")
        wanted = range(count or 0) if self._indices is None else self._indices
        self._devices, missing = {}, {}
        for index in wanted:
            handle = whole.ask("nvmlDeviceGetHandleByIndex", index)
            if handle is None:
                missing[index] = whole.last_error
            else:
                self._devices[index] = Device(self._nvml, handle)
        if missing:
            self._problem = missing_problem(missing)
        elif not wanted:
            how_many = "reports no GPU" if count == 0 else "does not say how many GPUs there are"
            self._problem = f"The NVIDIA driver {how_many}."

    def _read_traffic(self, devices: dict[int, Device]) -> None:
        """PCIe traffic of one GPU: NVML measures it for 20 ms in each direction while it is asked.

        The first ticks ask one GPU each, later ones take turns: every fifth tick, or every
        twentieth at most where the driver spends that time computing.
        """
        turn, self._turn = self._turn, self._turn + 1
        if turn >= len(devices) and turn < self._traffic_due:
            return
        index = list(devices)[self._traffic_asked % len(devices)]
        self._traffic_asked += 1
        began = self._cpu_clock()
        kilobytes = [devices[index].ask("nvmlDeviceGetPcieThroughput", way) for way in (0, 1)]
        spent = self._cpu_clock() - began
        pause = min(_TRAFFIC_TICKS_AT_MOST, max(_TRAFFIC_TICKS, ceil(spent / _TRAFFIC_CPU_A_TICK)))
        self._traffic_due = turn + pause
        sent, received = (None if value is None else value * 1000.0 for value in kilobytes)
        self._traffic[index] = _Traffic(self._clock(), sent, received)

    def _memory(self, index: int, device: Device) -> tuple[Memory | None, bool]:
        """The GPU's memory, and whether that is the host's: one without its own (GB10) does not support the question.

        Of a GPU that MIG splits a container may ask its own slices alone.
        """
        found, error = device.memory(), device.last_error
        slices = self._fixed_of(index, device).slices
        if found is None and slices is not None:
            return together([part.memory() for part in slices]), False
        if found is not None or error != NOT_SUPPORTED:
            return found, False
        host = psutil.virtual_memory()
        return Memory(total=host.total, used=host.total - host.available, free=host.available), True

    def _held(self, index: int, device: Device) -> dict[int, int | None] | None:
        slices = self._fixed_of(index, device).slices
        return device.holders() if slices is None else merged(part.holders() for part in slices)

    def _fixed_of(self, index: int, device: Device) -> _Fixed:
        if index in self._fixed:
            return self._fixed[index]
        uuid, name, slices = device.text("nvmlDeviceGetUUID"), device.text("nvmlDeviceGetName"), device.slices()
        fixed = _Fixed(
            uuid=uuid,
            name=name or f"GPU {index}",
            nvlinks=device.nvlinks(),
            slices=None if slices is None else tuple(slices),
        )
        if uuid and name:
            self._fixed[index] = fixed
        return fixed

    def _reading(self, index: int, device: Device, memory: Memory | None, unified: bool, share: Share) -> GpuReading:
        fixed = self._fixed_of(index, device)
        rates = device.ask("nvmlDeviceGetUtilizationRates")
        power = device.ask("nvmlDeviceGetPowerUsage")
        limit = device.ask("nvmlDeviceGetEnforcedPowerLimit")
        temperature = device.temperature()
        lost = device.last_error == LOST
        traffic = self._traffic.get(index, _Traffic(-inf, None, None))
        age = self._clock() - traffic.clock
        sent, received = (traffic.sent, traffic.received) if age <= _TRAFFIC_OLD_SECONDS else (None, None)
        return GpuReading(
            index=index,
            uuid=fixed.uuid,
            name=fixed.name,
            total_bytes=None if memory is None else memory.total,
            used_bytes=None if memory is None else memory.used,
            free_bytes=None if memory is None else memory.free,
            instance_bytes=share.instance_bytes,
            share_basis=share.basis,
            others=share.others,
            utilization_fraction=None if rates is None else rates.gpu / 100,
            memory_utilization_fraction=None if rates is None else rates.memory / 100,
            power_watts=None if power is None else power / 1000,
            power_limit_watts=None if limit is None else limit / 1000,
            temperature_celsius=temperature,
            throttle=device.throttle(),
            pcie_generation=device.ask("nvmlDeviceGetCurrPcieLinkGeneration"),
            pcie_width=device.ask("nvmlDeviceGetCurrPcieLinkWidth"),
            pcie_transmit_bytes_per_second=sent,
            pcie_receive_bytes_per_second=received,
            pcie_age_seconds=None if received is None and sent is None else age,
            nvlinks=fixed.nvlinks,
            mig=fixed.slices is not None,
            unified_memory=unified,
            lost=lost,
        )


def _says_something(gpu: GpuReading) -> bool:
    return gpu.total_bytes is not None or gpu.utilization_fraction is not None


def _silent_ones(gpus: Sequence[GpuReading]) -> str | None:
    """One sentence about GPUs that say nothing; the others stay on the screen."""
    lost = [str(gpu.index) for gpu in gpus if gpu.lost]
    if lost:
        return lost_problem(lost)
    silent = [str(gpu.index) for gpu in gpus if not _says_something(gpu)]
    return f"GPU {', '.join(silent)} does not answer NVML." if silent else None
