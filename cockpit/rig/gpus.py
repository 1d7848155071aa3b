"""The NVIDIA GPUs of this machine, read once through NVML; whatever NVML will not say stays None."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import msgspec

from cockpit.rig.nvml import NoDriverError, load_nvml
from cockpit.rig.types import Gpu


class GpuSurvey(msgspec.Struct, frozen=True, kw_only=True):
    """What one reading of NVML gave: every GPU, or why there is none."""

    gpus: tuple[Gpu, ...] = ()
    problem: str | None = None
    """Why no GPU can be read, as one sentence; None when NVML works."""
    driver: str | None = None
    """Version of the driver."""
    driver_cuda: tuple[int, int] | None = None
    """The newest CUDA that it runs."""


def read_gpus() -> GpuSurvey:
    """Read all GPUs. Never raises: without a driver the survey says so."""
    nvml, problem = _started()
    if nvml is None:
        return GpuSurvey(problem=problem)
    try:
        return _survey(nvml)
    finally:
        _ask(nvml, nvml.nvmlShutdown)


def _started() -> tuple[Any, str | None]:
    """NVML, initialised; or None, and why not as one sentence."""
    try:
        nvml = load_nvml()
    except NoDriverError as error:
        return None, _problem(error)
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return None, _problem(error)
    return nvml, None


def _survey(nvml: Any) -> GpuSurvey:
    """Read what an initialised NVML knows."""
    driver = _text(_ask(nvml, nvml.nvmlSystemGetDriverVersion))
    count = _ask(nvml, nvml.nvmlDeviceGetCount)
    if count is None:
        return GpuSurvey(problem="The NVIDIA driver does not say how many GPUs there are.", driver=driver)
    gpus = [gpu for index in range(count) if (gpu := _read_one(nvml, index)) is not None]
    cuda = _cuda(nvml)
    if gpus:
        return GpuSurvey(gpus=tuple(gpus), driver=driver, driver_cuda=cuda)
    problem = "The NVIDIA driver is loaded, but no GPU can be read."
    return GpuSurvey(problem=problem, driver=driver, driver_cuda=cuda)


def _cuda(nvml: Any) -> tuple[int, int] | None:
    """The newest CUDA that the driver runs: NVML gives 13.0 as 13000."""
    number = _ask(nvml, nvml.nvmlSystemGetCudaDriverVersion_v2)
    return None if not number else (int(number) // 1000, int(number) % 1000 // 10)


def _read_one(nvml: Any, index: int) -> Gpu | None:
    """One GPU, each fact asked for on its own; None when it has no handle (fallen off the bus, say)."""
    handle = _ask(nvml, lambda: nvml.nvmlDeviceGetHandleByIndex(index))
    if handle is None:
        return None
    memory, reserved = memory_of(nvml, handle), reserved_of(nvml, handle)
    capability = _ask(nvml, lambda: nvml.nvmlDeviceGetCudaComputeCapability(handle))
    return Gpu(
        index=index,
        uuid=_text(_ask(nvml, lambda: nvml.nvmlDeviceGetUUID(handle))) or f"gpu-{index}",
        name=_text(_ask(nvml, lambda: nvml.nvmlDeviceGetName(handle))) or f"GPU {index}",
        total_bytes=None if memory is None else memory[0],
        usable_bytes=None if memory is None or reserved is None else memory[0] - reserved,
        used_bytes=None if memory is None else memory[1],
        capability=None if capability is None else (int(capability[0]), int(capability[1])),
    )


def memory_of(nvml: Any, handle: Any) -> tuple[int, int] | None:
    """Total and used bytes of one GPU as nvidia-smi counts them; None when the GPU does not say.

    NVML's first memory call counts what the driver reserves as used (0.6 GiB on an H200); the second one does not,
    and drivers before 510 know only the first.
    """
    memory = _ask(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2))
    if memory is None:
        memory = _ask(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
    return None if memory is None else (int(memory.total), int(memory.used))


def reserved_of(nvml: Any, handle: Any) -> int | None:
    """Bytes that the driver keeps for itself, which CUDA does not see; None where it does not say."""
    memory = _ask(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2))
    reserved = None if memory is None else getattr(memory, "reserved", None)
    return None if reserved is None or not 0 <= reserved < memory.total else int(reserved)


def used_gpu_bytes(indices: Collection[int]) -> int | None:
    """Bytes in use on these GPUs together; None when any of them does not say."""
    used = {gpu.index: gpu.used_bytes for gpu in read_gpus().gpus}
    known = [size for index in indices if (size := used.get(index)) is not None]
    return sum(known) if indices and len(known) == len(indices) else None


def gpu_utilization(indices: Collection[int]) -> dict[int, float | None]:
    """How busy each of these GPUs is, 0 to 1, over the last moment; None where NVML does not say."""
    nvml, _ = _started()
    if nvml is None:
        return dict.fromkeys(indices)
    try:
        return {index: _utilization(nvml, index) for index in indices}
    finally:
        _ask(nvml, nvml.nvmlShutdown)


def _utilization(nvml: Any, index: int) -> float | None:
    handle = _ask(nvml, lambda: nvml.nvmlDeviceGetHandleByIndex(index))
    rates = None if handle is None else _ask(nvml, lambda: nvml.nvmlDeviceGetUtilizationRates(handle))
    return None if rates is None else int(rates.gpu) / 100


def _ask(nvml: Any, question: Callable[[], Any]) -> Any:
    """The answer to one NVML call; None when it is not supported, denied, or not in this driver."""
    try:
        return question()
    except nvml.NVMLError:
        return None


def _text(value: Any) -> str | None:
    """Text of an NVML string, which older bindings give as bytes, without control characters."""
    if value is None:
        return None
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return "".join(char for char in text if char.isprintable()).strip() or None


def _problem(error: Exception) -> str:
    """Why NVML would not start, as one sentence."""
    return f"no NVIDIA driver: {str(error).rstrip('.')}."


def gpu_holders() -> dict[int, dict[int, int | None]]:
    """Bytes by pid for each GPU index, as far as NVML says; a None is a size that it hides. Empty without a driver.

    In a container the pids are the host's, or there are none.
    """
    nvml, _ = _started()
    if nvml is None:
        return {}
    try:
        return {index: _holders(nvml, index) for index in range(_ask(nvml, nvml.nvmlDeviceGetCount) or 0)}
    finally:
        _ask(nvml, nvml.nvmlShutdown)


def _holders(nvml: Any, index: int) -> dict[int, int | None]:
    """Bytes by pid on one GPU."""
    handle = _ask(nvml, lambda: nvml.nvmlDeviceGetHandleByIndex(index))
    if handle is None:
        return {}
    found: dict[int, int | None] = {}
    for question in (nvml.nvmlDeviceGetComputeRunningProcesses, nvml.nvmlDeviceGetGraphicsRunningProcesses):
        # A process in both lists holds the same memory in both.
        found.update({one.pid: one.usedGpuMemory for one in _ask(nvml, partial(question, handle)) or ()})
    return found
