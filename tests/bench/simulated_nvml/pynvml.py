"""NVML of eight H200s that are not there: a benchmark puts this folder first on PYTHONPATH, and says so."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

_GPUS = 8
_TOTAL = 143_771 << 20
_ticks = itertools.count()
nvmlMemory_v2 = 2


class NVMLError(Exception):
    """What NVML raises; 3 is NVML_ERROR_NOT_SUPPORTED."""

    value = 3


def _not_supported(*_: object, **__: object) -> None:
    raise NVMLError("not supported")


_ANSWERS: dict[str, Callable[..., Any]] = {
    "nvmlInit": lambda: None,
    "nvmlShutdown": lambda: None,
    "nvmlSystemGetDriverVersion": lambda: "580.00",
    "nvmlSystemGetCudaDriverVersion_v2": lambda: 13000,
    "nvmlDeviceGetCount": lambda: _GPUS,
    "nvmlDeviceGetHandleByIndex": lambda index: index,
    "nvmlDeviceGetName": lambda _: "NVIDIA H200 (simulated)",
    "nvmlDeviceGetUUID": lambda gpu: f"GPU-simulated-{gpu}",
    "nvmlDeviceGetCudaComputeCapability": lambda _: (9, 0),
    "nvmlDeviceGetMemoryInfo": lambda gpu, version=None: SimpleNamespace(
        total=_TOTAL, used=_TOTAL // 2 + gpu, free=_TOTAL // 2 - gpu, reserved=600 << 20
    ),
    "nvmlDeviceGetUtilizationRates": lambda _: SimpleNamespace(gpu=next(_ticks) % 101, memory=next(_ticks) % 101),
    "nvmlDeviceGetPowerUsage": lambda _: 300_000 + next(_ticks) % 1000 * 300,
    "nvmlDeviceGetEnforcedPowerLimit": lambda _: 700_000,
    "nvmlDeviceGetTemperature": lambda *_: 60,
    "nvmlDeviceGetCurrentClocksEventReasons": lambda _: 0,
    "nvmlDeviceGetComputeRunningProcesses": lambda _: [],
    "nvmlDeviceGetGraphicsRunningProcesses": lambda _: [],
    "nvmlDeviceGetPcieThroughput": lambda *_: next(_ticks) % 1000 * 1000,
}


def __getattr__(name: str) -> Any:
    """Calls as above; any other is not supported; constants are 0."""
    if name in _ANSWERS:
        return _ANSWERS[name]
    if name.startswith("nvml"):
        return _not_supported
    if name.startswith("NVML_"):
        return 0
    raise AttributeError(name)
