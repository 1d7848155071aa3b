"""GPU readings with an NVML that answers as told."""

from __future__ import annotations

from types import SimpleNamespace

import psutil
import pytest
from fake_nvml import GIB, Nvml

from cockpit.telemetry.frame import GpuHolder
from cockpit.telemetry.gpu import GpuReader


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


@pytest.mark.parametrize(
    "error", [TypeError("takes 1 argument"), OSError("symbol"), UnicodeDecodeError("u", b"", 0, 1, "")]
)
def test_a_binding_that_raises_an_error_of_its_own_costs_only_that_figure(error):
    def broken(*_):
        raise error

    nvml = Nvml()
    nvml.nvmlDeviceGetPowerUsage = nvml.nvmlDeviceGetName = nvml.nvmlDeviceGetMigMode = broken
    gpu = GpuReader(nvml=nvml).read().gpus[0]
    assert (gpu.name, gpu.power_watts, gpu.temperature_celsius, gpu.mig) == ("GPU 0", None, 71, False)


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


def test_links_bandwidth_and_traffic_are_read_where_nvml_gives_them():
    nvml = Nvml()
    reader = GpuReader(nvml=nvml)
    first, second = reader.read().gpus
    assert first.memory_utilization_fraction == 0.4
    assert (first.pcie_generation, first.pcie_width, first.nvlinks) == (4, 16, 3)
    assert (first.pcie_transmit_bytes_per_second, first.pcie_receive_bytes_per_second) == (2e6, 5e6)
    # One GPU a tick is asked for its traffic, which takes NVML 40 ms, and then one every fifth tick.
    assert second.pcie_receive_bytes_per_second is None
    assert reader.read().gpus[1].pcie_receive_bytes_per_second == 5e6
    nvml.calls.clear()
    for _ in range(10):
        reader.read()
    assert nvml.calls.count("pcie") == 2 * 2


def test_traffic_that_is_measured_in_turns_has_an_age_and_an_end(clock):
    nvml = Nvml()
    reader = GpuReader(nvml=nvml, clock=clock)
    for _ in range(2):
        first, second = reader.read().gpus
        clock.pass_seconds(1.0)
    assert (first.pcie_age_seconds, second.pcie_age_seconds) == (1.0, 0.0)
    nvml.codes = {"pcie": 999}
    clock.pass_seconds(40.0)
    first, second = reader.read().gpus
    assert (first.pcie_receive_bytes_per_second, first.pcie_age_seconds) == (5e6, 42.0)
    clock.pass_seconds(19.0)
    first, second = reader.read().gpus
    assert (first.pcie_receive_bytes_per_second, first.pcie_age_seconds) == (None, None)
    assert second.pcie_receive_bytes_per_second == 5e6


@pytest.mark.parametrize(("cost", "asked"), [(0.0, 8), (0.004, 8), (0.010, 4), (0.020, 2), (9.0, 2)])
def test_a_driver_that_computes_while_it_measures_traffic_is_asked_less_often(cost, asked):
    nvml, spent = Nvml([(0, 10, GIB)]), [0.0]
    answer = nvml.nvmlDeviceGetPcieThroughput

    def busy(handle, way):
        spent[0] += cost
        return answer(handle, way)

    nvml.nvmlDeviceGetPcieThroughput = busy
    reader = GpuReader(nvml=nvml, cpu_clock=lambda: spent[0])
    reader.read()
    nvml.calls.clear()
    for _ in range(40):
        assert reader.read().gpus[0].pcie_receive_bytes_per_second == 5e6
    assert nvml.calls.count("pcie") == 2 * asked


@pytest.mark.parametrize(
    ("bits", "words"),
    [(0, ()), (1, ()), (4, ("power cap",)), (0x20 | 0x4, ("power cap", "heat")), (0x40, ("heat (hardware)",))],
)
def test_clocks_that_are_held_down_say_why(bits, words):
    nvml = Nvml()
    nvml.throttle_bits = bits
    assert GpuReader(nvml=nvml).read().gpus[0].throttle == words


@pytest.mark.parametrize("call", ["throttle", "pcie_generation", "pcie_width", "pcie", "nvlink", "mig"])
def test_what_a_card_has_not_is_unknown_and_costs_nothing_else(call):
    gpu = GpuReader(nvml=Nvml([(0, 10, GIB)], {call})).read({10}).gpus[0]
    assert (gpu.instance_bytes, gpu.utilization_fraction, gpu.mig) == (GIB, 0.98, False)
    assert gpu.throttle == ()
    if call == "nvlink":
        assert gpu.nvlinks is None


def test_a_binding_without_the_newer_functions_is_read_all_the_same():
    class Old(Nvml):
        nvmlDeviceGetCurrentClocksEventReasons = None
        nvmlDeviceGetCurrPcieLinkWidth = None

        def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle):
            return 0x80

    gpu = GpuReader(nvml=Old()).read().gpus[0]
    assert gpu.throttle == ("power brake",)
    assert gpu.pcie_width is None and gpu.utilization_fraction == 0.98


def test_others_are_named_largest_first():
    processes = [(0, 10, 20 * GIB), (0, 7, GIB // 4), (0, 8, GIB), (0, 9, GIB)]
    gpu = GpuReader(nvml=Nvml(processes), name_of={7: "Xorg", 8: "firefox"}.get).read({10}).gpus[0]
    assert gpu.instance_bytes == 20 * GIB
    assert gpu.others == (
        GpuHolder(pid=8, name="firefox", used_bytes=GIB),
        GpuHolder(pid=7, name="Xorg", used_bytes=GIB // 4),
    )
    assert gpu.share_basis == "processes"


@pytest.mark.parametrize("hidden", [[(0, 40_000_001, 21 * GIB)], []])
def test_on_its_own_gpus_an_instance_whose_pids_are_hidden_holds_what_nobody_else_does(hidden):
    gpu = GpuReader(indices=[0], nvml=Nvml([*hidden, (0, 7, GIB)]), name_of={7: "Xorg"}.get).read({10}).gpus[0]
    assert (gpu.instance_bytes, gpu.share_basis) == (21 * GIB, "exclusion")


def test_without_an_instance_nothing_is_held_by_exclusion():
    assert GpuReader(indices=[0], nvml=Nvml([])).read(set()).gpus[0].instance_bytes is None


def test_process_lists_that_wsl_does_not_give_lead_to_exclusion():
    gpu = GpuReader(indices=[0], nvml=Nvml(fails={"compute", "graphics"})).read({10}).gpus[0]
    assert (gpu.instance_bytes, gpu.share_basis) == (22 * GIB, "exclusion")


def test_a_gpu_without_memory_of_its_own_shows_the_hosts():
    gpu = GpuReader(nvml=Nvml(codes={"memory": 3})).read().gpus[0]
    assert gpu.unified_memory
    assert gpu.total_bytes == psutil.virtual_memory().total
    assert 0 < gpu.used_bytes < gpu.total_bytes


def test_memory_that_may_not_be_asked_for_is_no_unified_memory():
    gpu = GpuReader(nvml=Nvml(codes={"memory": 4})).read().gpus[0]
    assert not gpu.unified_memory and gpu.total_bytes is None


def test_the_slices_of_a_gpu_that_mig_splits_are_looked_into():
    nvml = Nvml([(100, 10, 3 * GIB), (101, 10, GIB), (101, 11, GIB)], fails={("utilization", 0)})
    nvml.slices = (100, 101)
    gpu = GpuReader(indices=[0], nvml=nvml).read({10, 11}).gpus[0]
    assert gpu.mig
    assert gpu.instance_bytes == 5 * GIB
    assert gpu.utilization_fraction is None


def test_a_gpu_that_fell_off_the_bus_is_lost_and_the_other_stays():
    calls = ("memory", "utilization", "power", "limit", "temperature", "compute", "graphics")
    nvml = Nvml()
    reader = GpuReader(nvml=nvml)
    assert reader.read().problem is None
    nvml.codes = {(call, 1): 15 for call in calls}
    sample = reader.read()
    assert [gpu.lost for gpu in sample.gpus] == [False, True]
    assert sample.problem.startswith("GPU 1 is lost")
    assert sample.gpus[0].used_bytes == 22 * GIB


@pytest.mark.parametrize(
    ("code", "words"), [(18, "updated while it ran"), (12, "no NVIDIA driver"), (4, "may not be asked here")]
)
def test_a_driver_that_does_not_start_says_what_to_do(code, words):
    assert words in GpuReader(nvml=Nvml(codes={"init": code})).read().problem


def test_a_driver_that_is_loaded_later_is_found_after_half_a_minute():
    nvml = Nvml(codes={"init": 9})
    reader = GpuReader(nvml=nvml)
    assert all(reader.read().problem.startswith("no NVIDIA driver") for _ in range(30))
    assert nvml.calls == ["init"]
    nvml.codes = {}
    assert [gpu.index for gpu in reader.read().gpus] == [0, 1]


@pytest.mark.parametrize("code", [1, 9, 15, 999])
def test_a_driver_that_was_loaded_anew_is_started_anew_once_every_gpu_has_been_silent(code):
    """Uninitialized, not loaded, lost or unknown: what each call says after its driver went away."""
    nvml = Nvml()
    reader = GpuReader(nvml=nvml)
    assert reader.read().problem is None
    nvml.codes = dict.fromkeys(
        ("memory", "utilization", "power", "limit", "temperature", "compute", "graphics"), code
    )
    said = [reader.read().problem for _ in range(30)]
    assert all(problem is not None and problem.startswith("GPU 0, 1") for problem in said)
    assert nvml.calls.count("init") == 1
    nvml.codes = {}
    assert reader.read().problem is None
    assert (nvml.calls.count("init"), nvml.calls.count("shutdown")) == (2, 1)


def test_one_silent_gpu_of_two_starts_nothing_anew():
    nvml = Nvml(codes={(call, 1): 15 for call in ("memory", "utilization", "temperature")})
    reader = GpuReader(nvml=nvml)
    assert all(reader.read().gpus[1].lost for _ in range(70))
    assert nvml.calls.count("init") == 1


@pytest.mark.parametrize(
    ("code", "said"),
    [(15, "GPU 1 is lost"), (4, "GPU 1 may not be asked here"), (6, "has no GPU 1"), (999, "has no GPU 1")],
)
def test_a_gpu_without_a_handle_says_why(code, said):
    sample = GpuReader(nvml=Nvml(codes={("handle", 1): code})).read()
    assert [gpu.index for gpu in sample.gpus] == [0]
    assert said in sample.problem


def test_a_driver_that_does_not_say_how_many_gpus_there_are_is_not_one_without_any():
    assert "does not say how many" in GpuReader(nvml=Nvml(fails={"count"})).read().problem


def test_in_a_container_that_has_one_slice_the_memory_is_the_slices_and_not_the_hosts():
    for code in (3, 4):
        nvml = Nvml(codes={("memory", 0): code})
        nvml.slices = (100,)
        gpu = GpuReader(indices=[0], nvml=nvml).read().gpus[0]
        assert (gpu.mig, gpu.unified_memory) == (True, False)
        assert (gpu.total_bytes, gpu.used_bytes, gpu.free_bytes) == (24 * GIB, 22 * GIB, 2 * GIB)
    nvml = Nvml(codes={"memory": 4})
    nvml.slices = (100,)
    assert GpuReader(indices=[0], nvml=nvml).read().gpus[0].total_bytes is None


def test_a_process_whose_size_only_one_of_the_lists_hides_has_a_size():
    nvml = Nvml([(0, 10, GIB)])
    nvml.nvmlDeviceGetGraphicsRunningProcesses = lambda _: [SimpleNamespace(pid=10, usedGpuMemory=None)]
    assert GpuReader(nvml=nvml).read({10}).gpus[0].instance_bytes == GIB


def test_a_binding_that_left_the_old_temperature_out_is_asked_by_the_new_name():
    class Newer(Nvml):
        nvmlDeviceGetTemperature = None

        def nvmlDeviceGetTemperatureV(self, handle, sensor):
            return self._answer("temperature", 71 + sensor, handle)

    assert GpuReader(nvml=Newer()).read().gpus[0].temperature_celsius == 71
