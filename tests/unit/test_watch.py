"""What is read of the machine for one instance."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cockpit.supervisor.record import InstanceRecord
from cockpit.supervisor.spawn import Running
from cockpit.telemetry import gpu_poller
from cockpit.watch import InstanceWatch

sys.path.insert(0, str(Path(__file__).parent / "telemetry"))

from fake_nvml import Nvml


def record(log: Path, gpus: tuple[int, ...]) -> InstanceRecord:
    return InstanceRecord(
        name="one",
        slug="a/one",
        model="m",
        served_model_name="m",
        argv=("vllm", "serve"),
        env={},
        cwd="/",
        host="127.0.0.1",
        port=8000,
        url="http://127.0.0.1:8000",
        log=str(log),
        gpus=gpus,
        created_at=1.0,
    )


@pytest.mark.parametrize(("gpus", "read"), [((1,), [1]), ((), [])])
def test_an_instances_own_gpus_are_read_and_none_for_the_cpu_build(tmp_path, monkeypatch, gpus, read):
    """On a host with GPUs too: the memory of other programs is no upper bound of what the CPU build holds there."""
    monkeypatch.setitem(sys.modules, "pynvml", Nvml([(0, 99, 2**30)]))
    monkeypatch.setattr(gpu_poller, "FIRST_PATIENCE_SECONDS", 60.0)
    watch = InstanceWatch(Running(record(tmp_path / "log", gpus)))
    frame = watch.tick().frame
    watch.close()
    assert [gpu.index for gpu in frame.gpus] == read
    assert frame.gpu_problem is None and frame.host is not None
