from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from cockpit.rig.gpus import gpu_holders, read_gpus

GIB = 1024**3


class Nvml:
    """A driver whose answers can be taken away one at a time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, handle: Any = lambda index: index, **answers: Any) -> None:
        self.open = 0
        given = {
            "nvmlSystemGetDriverVersion": "580.95.05",
            "nvmlDeviceGetCount": 2,
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=24 * GIB, used=GIB, free=23 * GIB),
            "nvmlDeviceGetCudaComputeCapability": (8, 6),
            "nvmlDeviceGetUUID": b"GPU-1234",
            "nvmlDeviceGetName": b"NVIDIA GeForce RTX 3090\x1b[2J",
            **answers,
        }
        for name, answer in given.items():
            monkeypatch.setattr(pynvml, name, self._function(answer))
        monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", handle)
        monkeypatch.setattr(pynvml, "nvmlInit", lambda: self._count(1))
        monkeypatch.setattr(pynvml, "nvmlShutdown", lambda: self._count(-1))

    def _count(self, step: int) -> None:
        self.open += step

    @staticmethod
    def _function(answer: Any) -> Any:
        def ask(*_: Any, **__: Any) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

        return ask


NOT_SUPPORTED = pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)


def test_two_cards_are_read_and_nvml_is_closed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = Nvml(monkeypatch)
    survey = read_gpus()
    assert survey.driver == "580.95.05" and survey.problem is None
    assert [gpu.index for gpu in survey.gpus] == [0, 1]
    first = survey.gpus[0]
    assert (first.uuid, first.name) == ("GPU-1234", "NVIDIA GeForce RTX 3090[2J")
    assert (first.total_bytes, first.used_bytes, first.capability) == (24 * GIB, GIB, (8, 6))
    assert nvml.open == 0


@pytest.mark.parametrize(
    ("call", "field"),
    [
        ("nvmlDeviceGetMemoryInfo", "total_bytes"),
        ("nvmlDeviceGetMemoryInfo", "used_bytes"),
        ("nvmlDeviceGetCudaComputeCapability", "capability"),
    ],
)
def test_one_fact_that_is_not_supported_hides_only_itself(
    monkeypatch: pytest.MonkeyPatch, call: str, field: str
) -> None:
    Nvml(monkeypatch, **{call: NOT_SUPPORTED})
    survey = read_gpus()
    assert len(survey.gpus) == 2
    assert all(getattr(gpu, field) is None and gpu.name for gpu in survey.gpus)


def test_a_card_that_fell_off_the_bus_does_not_hide_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def handle(index: int) -> int:
        if index == 0:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        return index

    Nvml(monkeypatch, handle=handle)
    assert [gpu.index for gpu in read_gpus().gpus] == [1]


@pytest.mark.parametrize("count", [0, NOT_SUPPORTED])
def test_a_driver_without_cards_says_so(monkeypatch: pytest.MonkeyPatch, count: Any) -> None:
    Nvml(monkeypatch, nvmlDeviceGetCount=count)
    survey = read_gpus()
    assert survey.gpus == () and survey.problem


def test_no_driver_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", fail)
    survey = read_gpus()
    assert survey.gpus == ()
    assert survey.problem is not None and survey.problem.startswith("no NVIDIA driver: ")
    assert survey.problem.endswith(".") and "\n" not in survey.problem


@pytest.mark.parametrize(
    ("number", "expected"), [(13000, (13, 0)), (12080, (12, 8)), (12090, (12, 9)), (0, None), (NOT_SUPPORTED, None)]
)
def test_the_drivers_cuda_is_read_from_its_number(
    monkeypatch: pytest.MonkeyPatch, number: Any, expected: tuple[int, int] | None
) -> None:
    Nvml(monkeypatch, nvmlSystemGetCudaDriverVersion_v2=number)
    assert read_gpus().driver_cuda == expected


def test_who_holds_a_gpu_is_read_from_both_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = Nvml(
        monkeypatch,
        nvmlDeviceGetComputeRunningProcesses=[SimpleNamespace(pid=7, usedGpuMemory=GIB)],
        nvmlDeviceGetGraphicsRunningProcesses=[
            SimpleNamespace(pid=7, usedGpuMemory=GIB),
            SimpleNamespace(pid=8, usedGpuMemory=None),
        ],
    )
    assert gpu_holders() == {0: {7: GIB, 8: None}, 1: {7: GIB, 8: None}}
    assert nvml.open == 0


def test_nobody_holds_a_gpu_where_the_driver_does_not_say(monkeypatch: pytest.MonkeyPatch) -> None:
    Nvml(
        monkeypatch,
        nvmlDeviceGetComputeRunningProcesses=NOT_SUPPORTED,
        nvmlDeviceGetGraphicsRunningProcesses=NOT_SUPPORTED,
    )
    assert gpu_holders() == {0: {}, 1: {}}
    Nvml(monkeypatch, nvmlDeviceGetCount=NOT_SUPPORTED)
    assert gpu_holders() == {}
