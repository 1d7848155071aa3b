"""NVML asked one guarded call at a time: one figure that is missing costs no other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

NOT_SUPPORTED, LOST = 3, 15
_MISMATCH, _NO_PERMISSION = 18, 4
"""NVML_ERROR_* codes."""

_BINDING_ERRORS = (ValueError, TypeError, AttributeError, OSError)
"""What a binding of another age than its driver raises: other arguments, names that are no text, missing symbols."""
_THROTTLES = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x20: "heat",
    0x40: "heat (hardware)",
    0x80: "power brake",
}
"""nvmlClocksEventReasons that hold clocks down; idle clocks and those that the user set are no reason."""
_MAX_NVLINKS = 18
_GPU_SENSOR = 0
"""NVML_TEMPERATURE_GPU."""


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of one GPU as nvidia-smi counts them."""

    total: int
    used: int
    free: int


class Device:
    """One GPU's handle, or an NVML without one (``handle`` None) for calls that need none."""

    def __init__(self, nvml: Any, handle: Any = None) -> None:
        self._nvml = nvml
        self._handle = handle
        self.last_error: int | None = None
        """NVML's code for the call that failed last, None after one that worked."""

    def ask(self, name: str, *arguments: Any) -> Any:
        """The answer to one call; None when this GPU, driver, container or binding does not give it."""
        call = getattr(self._nvml, name, None)
        if call is None:
            self.last_error = NOT_SUPPORTED
            return None
        before = () if self._handle is None else (self._handle,)
        try:
            answer = call(*before, *arguments)
        except (self._nvml.NVMLError, *_BINDING_ERRORS) as error:
            self.last_error = getattr(error, "value", None)
            return None
        self.last_error = None
        return answer

    def text(self, name: str) -> str:
        """A string, which older bindings give as bytes; empty when there is none."""
        value = self.ask(name)
        if value is None:
            return ""
        return value.decode("utf-8", errors="replace") if isinstance(value, bytes) else str(value)

    def memory(self) -> Memory | None:
        """None when the GPU does not say.

        NVML's first memory call counts what the driver reserves as used (0.6 GiB on an H200); the second one does
        not, and drivers before 510 know only the first.
        """
        version = getattr(self._nvml, "nvmlMemory_v2", None)
        found = None if version is None else self.ask("nvmlDeviceGetMemoryInfo", version)
        if found is None:
            found = self.ask("nvmlDeviceGetMemoryInfo")
        return None if found is None else Memory(total=int(found.total), used=int(found.used), free=int(found.free))

    def holders(self) -> dict[int, int | None] | None:
        """Bytes by pid; None when no list is to be had, a None value when only the size is hidden."""
        lists = [
            self.ask("nvmlDeviceGetComputeRunningProcesses"),
            self.ask("nvmlDeviceGetGraphicsRunningProcesses"),
        ]
        if lists[0] is None and lists[1] is None:
            return None
        # A process in both lists holds the same memory in both; one of them may hide how much.
        found: dict[int, int | None] = {}
        for process in (process for some in lists for process in some or ()):
            if found.get(process.pid) is None:
                found[process.pid] = process.usedGpuMemory
        return found

    def temperature(self) -> int | None:
        """Degrees Celsius; the first function is one that newer bindings may leave out."""
        found = self.ask("nvmlDeviceGetTemperature", _GPU_SENSOR)
        if found is None and self.last_error != LOST:
            found = self.ask("nvmlDeviceGetTemperatureV", _GPU_SENSOR)
        return None if found is None else int(found)

    def throttle(self) -> tuple[str, ...]:
        """Why the clocks are held down, in words."""
        bits = self.ask("nvmlDeviceGetCurrentClocksEventReasons")
        if bits is None:
            bits = self.ask("nvmlDeviceGetCurrentClocksThrottleReasons")
        return tuple(word for bit, word in _THROTTLES.items() if int(bits or 0) & bit)

    def nvlinks(self) -> int | None:
        """Links that are up; None where the first one cannot be asked about."""
        states = []
        for link in range(_MAX_NVLINKS):
            state = self.ask("nvmlDeviceGetNvLinkState", link)
            if state is None:
                break
            states.append(int(state))
        return sum(states) if states else None

    def slices(self) -> list[Device] | None:
        """The MIG devices of a GPU that is split, None of one that is not."""
        mode = self.ask("nvmlDeviceGetMigMode")
        if not mode or mode[0] != 1:
            return None
        count = self.ask("nvmlDeviceGetMaxMigDeviceCount") or 0
        handles = (self.ask("nvmlDeviceGetMigDeviceHandleByIndex", index) for index in range(count))
        return [Device(self._nvml, handle) for handle in handles if handle is not None]


def merged(parts: Iterable[dict[int, int | None] | None]) -> dict[int, int | None] | None:
    """Bytes by pid over the slices of one GPU; None when no slice gives a list."""
    whole: dict[int, int | None] | None = None
    for part in parts:
        for pid, size in (part or {}).items():
            before = (whole or {}).get(pid, 0)
            whole = {**(whole or {}), pid: None if before is None or size is None else before + size}
        whole = whole if part is None else whole or {}
    return whole


def together(parts: Iterable[Memory | None]) -> Memory | None:
    """The memory of the slices of one GPU that may be asked; None when there is none."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    return Memory(
        total=sum(part.total for part in known),
        used=sum(part.used for part in known),
        free=sum(part.free for part in known),
    )


def lost_problem(indices: Iterable[str]) -> str:
    """What to do about GPUs that fell off the bus."""
    return f"GPU {', '.join(indices)} is lost: `dmesg | grep Xid` says more, and only a reboot brings it back."


def missing_problem(codes: Mapping[int, int | None]) -> str:
    """Why GPUs cannot be asked at all, by index and NVML's code, as one sentence about those of the first kind."""
    code = next(iter(codes.values()))
    alike = [str(index) for index, other in codes.items() if other == code]
    if code == LOST:
        return lost_problem(alike)
    if code == _NO_PERMISSION:
        return f"GPU {', '.join(alike)} may not be asked here: give the container or user its devices."
    return f"The NVIDIA driver has no GPU {', '.join(alike)}."


def start_problem(error: Exception) -> str:
    """Why NVML would not start, as one sentence."""
    text = str(error).rstrip(".")
    code = getattr(error, "value", None)
    if code == _MISMATCH:
        return f"The NVIDIA driver was updated while it ran ({text}): reload its modules or reboot, then start anew."
    if code == _NO_PERMISSION:
        return f"The NVIDIA driver may not be asked here ({text}): give the container or user its devices."
    return f"no NVIDIA driver: {text}."
