"""An NVML that answers as told; there is no GPU where tests run."""

from __future__ import annotations

from types import SimpleNamespace

GIB = 1024**3


class NVMLError(Exception):
    """Stands for pynvml.NVMLError, with NVML's code where one matters."""

    def __init__(self, text, value=None):
        super().__init__(text)
        self.value = value


class Nvml:
    """The part of pynvml that is used; ``fails`` names calls that raise, for all GPUs or for one."""

    NVML_TEMPERATURE_GPU = 0
    NVMLError = NVMLError

    def __init__(self, processes=(), fails=(), bytes_names=False, codes=None):
        self.processes = processes
        self.fails = set(fails)
        self.codes = codes or {}
        self.hang = None
        """An event: every call waits for it."""
        self.bytes_names = bytes_names
        self.calls = []

    def _answer(self, name, value, handle=None):
        self.calls.append(name)
        if self.hang is not None:
            self.hang.wait(600)
        for key in (name, (name, handle)):
            if key in self.codes:
                raise NVMLError(f"{name} failed", self.codes[key])
        if name in self.fails or (name, handle) in self.fails:
            raise NVMLError(f"{name} is not supported")
        return value

    def nvmlInit(self):
        return self._answer("init", None)

    def nvmlShutdown(self):
        return self._answer("shutdown", None)

    def nvmlDeviceGetCount(self):
        return self._answer("count", 2)

    def nvmlDeviceGetHandleByIndex(self, index):
        if index > 1:
            raise NVMLError("no such device")
        return self._answer("handle", index, index)

    def nvmlDeviceGetUUID(self, handle):
        return self._answer("uuid", f"GPU-{handle}", handle)

    def nvmlDeviceGetName(self, handle):
        return self._answer("name", b"RTX" if self.bytes_names else "RTX", handle)

    nvmlMemory_v2 = 2
    knows_v2 = True

    def nvmlDeviceGetMemoryInfo(self, handle, version=None):
        if version is not None and not self.knows_v2:
            raise NVMLError("function not found")
        # The first version counts what the driver reserves as used.
        used = 22 * GIB if version else 22 * GIB + GIB // 2
        return self._answer("memory", SimpleNamespace(total=24 * GIB, used=used, free=2 * GIB), handle)

    def nvmlDeviceGetUtilizationRates(self, handle):
        return self._answer("utilization", SimpleNamespace(gpu=98, memory=40), handle)

    def nvmlDeviceGetPowerUsage(self, handle):
        return self._answer("power", 301_500, handle)

    def nvmlDeviceGetEnforcedPowerLimit(self, handle):
        return self._answer("limit", 370_000, handle)

    def nvmlDeviceGetTemperature(self, handle, sensor):
        return self._answer("temperature", 71, handle)

    throttle_bits = 0

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle):
        return self._answer("throttle", self.throttle_bits, handle)

    def nvmlDeviceGetCurrPcieLinkGeneration(self, handle):
        return self._answer("pcie_generation", 4, handle)

    def nvmlDeviceGetCurrPcieLinkWidth(self, handle):
        return self._answer("pcie_width", 16, handle)

    def nvmlDeviceGetPcieThroughput(self, handle, way):
        return self._answer("pcie", (2_000, 5_000)[way], handle)

    def nvmlDeviceGetNvLinkState(self, handle, link):
        if link >= 4:
            raise NVMLError("no such link", 2)
        return self._answer("nvlink", int(link < 3), handle)

    slices = ()
    """Handles of MIG devices, numbers from 100."""

    def nvmlDeviceGetMigMode(self, handle):
        return self._answer("mig", [int(bool(self.slices)), 0], handle)

    def nvmlDeviceGetMaxMigDeviceCount(self, handle):
        return self._answer("mig_count", 7, handle)

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle, index):
        if index >= len(self.slices):
            raise NVMLError("not found", 6)
        return self._answer("mig_handle", self.slices[index], handle)

    def nvmlDeviceGetComputeRunningProcesses(self, handle):
        found = [SimpleNamespace(pid=p, usedGpuMemory=size) for gpu, p, size in self.processes if gpu == handle]
        return self._answer("compute", found, handle)

    def nvmlDeviceGetGraphicsRunningProcesses(self, handle):
        return self._answer("graphics", [], handle)
