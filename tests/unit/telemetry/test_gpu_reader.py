"""GPU readings with an NVML that answers as told; there is no GPU where tests run."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cockpit.telemetry.gpu import GpuReader

GIB = 1024**3


class NVMLError(Exception):
    """Stands for pynvml.NVMLError."""


class Nvml:
    """The part of pynvml that is used; ``fails`` names calls that raise, for all GPUs or for one."""

    NVML_TEMPERATURE_GPU = 0
    NVMLError = NVMLError

    def __init__(self, processes=(), fails=(), bytes_names=False):
        self.processes = processes
        self.fails = set(fails)
        self.bytes_names = bytes_names
        self.calls = []

    def _answer(self, name, value, handle=None):
        self.calls.append(name)
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

    def nvmlDeviceGetComputeRunningProcesses(self, handle):
        found = [SimpleNamespace(pid=p, usedGpuMemory=size) for gpu, p, size in self.processes if gpu == handle]
        return self._answer("compute", found, handle)

    def nvmlDeviceGetGraphicsRunningProcesses(self, handle):
        return self._answer("graphics", [], handle)


def test_memory_that_the_driver_reserves_is_not_used_memory_where_the_driver_can_tell():
    new, old = Nvml(), Nvml()
    old.knows_v2 = False
    assert GpuReader(nvml=new).read().gpus[0].used_bytes == 22 * GIB
    assert GpuReader(nvml=old).read().gpus[0].used_bytes == 22 * GIB + GIB // 2


def test_a_gpu_is_read_whole():
    first = GpuReader(nvml=Nvml([(0, 10, 21 * GIB), (0, 99, GIB // 2)])).read({10, 11}).gpus[0]
    assert (first.index, first.uuid, first.name) == (0, "GPU-0", "RTX")
    assert (first.total_bytes, first.used_bytes) == (24 * GIB, 22 * GIB)
    assert first.instance_bytes == 21 * GIB
    assert first.utilization_fraction == 0.98
    assert (first.power_watts, first.power_limit_watts) == (301.5, 370.0)
    assert first.temperature_celsius == 71


@pytest.mark.parametrize(
    ("call", "field"),
    [
        ("memory", "total_bytes"),
        ("utilization", "utilization_fraction"),
        ("power", "power_watts"),
        ("limit", "power_limit_watts"),
        ("temperature", "temperature_celsius"),
        ("compute", "instance_bytes"),
    ],
)
def test_a_call_that_fails_costs_only_its_own_figure(call, field):
    fails = {call, "graphics"} if call == "compute" else {call}
    gpu = GpuReader(nvml=Nvml([(0, 10, GIB)], fails)).read({10}).gpus[0]
    assert getattr(gpu, field) is None
    others = {"total_bytes", "utilization_fraction", "power_watts", "power_limit_watts", "temperature_celsius"}
    assert all(getattr(gpu, other) is not None for other in others - {field})


def test_processes_hidden_by_a_container_give_an_unknown_share_not_zero():
    sample = GpuReader(nvml=Nvml([(0, 4000, GIB)])).read({10})
    assert [gpu.instance_bytes for gpu in sample.gpus] == [None, None]


def test_a_gpu_that_the_instance_does_not_use_counts_as_zero_once_its_processes_are_seen():
    sample = GpuReader(nvml=Nvml([(0, 10, GIB), (0, 11, GIB), (1, 99, GIB)])).read({10, 11})
    assert [gpu.instance_bytes for gpu in sample.gpus] == [2 * GIB, 0]


def test_a_process_whose_size_is_hidden_makes_the_share_unknown():
    assert GpuReader(nvml=Nvml([(0, 10, None)])).read({10}).gpus[0].instance_bytes is None


def test_no_driver_is_said_once_and_not_asked_for_again():
    nvml = Nvml(fails={"init"})
    reader = GpuReader(nvml=nvml)
    assert reader.read().gpus == ()
    assert reader.read().problem.startswith("no NVIDIA driver")
    assert nvml.calls == ["init"]
    reader.close()
    assert nvml.calls == ["init"]


def test_the_real_binding_without_a_driver_gives_a_problem_or_gpus():
    reader = GpuReader()
    sample = reader.read(set())
    reader.close()
    assert bool(sample.gpus) != bool(sample.problem)


def test_only_the_wanted_gpus_are_read_and_a_missing_one_is_named():
    sample = GpuReader(indices=[1, 7], nvml=Nvml()).read()
    assert [gpu.index for gpu in sample.gpus] == [1]
    assert "7" in sample.problem


def test_a_lost_gpu_is_named_while_the_other_is_read():
    fails = {(call, 1) for call in ("memory", "utilization", "power", "limit", "temperature", "uuid", "name")}
    sample = GpuReader(nvml=Nvml(fails=fails)).read()
    assert sample.problem == "GPU 1 does not answer NVML."
    assert sample.gpus[0].used_bytes == 22 * GIB
    assert sample.gpus[1].used_bytes is None


def test_closing_shuts_nvml_down_and_reading_again_starts_it():
    nvml = Nvml(bytes_names=True)
    reader = GpuReader(nvml=nvml)
    assert reader.read().gpus[0].name == "RTX"
    reader.close()
    assert nvml.calls[-1] == "shutdown"
    reader.read()
    assert nvml.calls.count("init") == 2
