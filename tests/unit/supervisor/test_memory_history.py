"""What boots measured of their memory, from the log to the next plan."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cockpit import paths
from cockpit.planner.calibration import Boot, BootMemory, BootSubject
from cockpit.planner.forecast_inputs import MemorySettings
from cockpit.planner.types import KvSettings
from cockpit.supervisor import memory_history
from cockpit.supervisor.against import against
from cockpit.supervisor.boot import BootLog
from cockpit.supervisor.boot_memory import memory_of
from cockpit.supervisor.record import InstanceRecord

LOGS = Path(__file__).resolve().parents[2] / "fixtures" / "memory-boot-logs"
SUBJECT = BootSubject(
    slug="vllm/x",
    checkpoint="a/b",
    engine_version="0.26.0",
    gpu_name="NVIDIA H200",
    total_bytes=150_000_000_000,
    settings=MemorySettings(kv=KvSettings(max_model_len=16384)),
)
LATER = (
    "(Worker_TP0 pid=1) INFO 11-29 20:00:01 [gpu_worker.py:772] Available KV cache memory: 8.97 GiB",
    "(Worker_TP1 pid=2) INFO 11-29 20:00:01 [gpu_worker.py:772] Available KV cache memory: 8.99 GiB",
    "(Worker_TP0 pid=1) INFO 11-29 20:00:02 [gpu_worker.py:988] CUDA graph pool memory: 0.11 GiB (actual), "
    "0.14 GiB (estimated), difference: 0.03 GiB (27.3%).",
    "(Worker_TP0 pid=1) INFO 11-29 20:00:02 [gpu_worker.py:1012] Free memory on device (23.2/23.57 GiB) on startup. "
    "Desired GPU memory utilization is (0.97, 22.86 GiB). Actual usage is 12.36 GiB for consumed memory (weights + "
    "non-torch), 1.53 GiB for peak activation, and 0.11 GiB for CUDAGraph memory. Replace gpu_memory_utilization "
    "config with `--kv-cache-memory=1` (1.0 GiB) to fit into requested memory.",
    "(Worker_TP1 pid=2) INFO 11-29 20:00:02 [gpu_worker.py:1012] Free memory on device (23.1/23.55 GiB) on startup. "
    "Desired GPU memory utilization is (0.97, 22.86 GiB). Actual usage is 12.38 GiB for consumed memory (weights + "
    "non-torch), 1.5 GiB for peak activation, and 0.1 GiB for CUDAGraph memory. Replace gpu_memory_utilization",
)
"""Lines as vLLM 0.28 to 0.33 print them, of two ranks."""


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def record(log: Path, subject: BootSubject = SUBJECT, **forecast: Any) -> InstanceRecord:
    return InstanceRecord(
        name="x",
        slug="vllm/x",
        model="a/b",
        served_model_name="x",
        argv=("vllm",),
        env={},
        cwd="/",
        host="127.0.0.1",
        port=8000,
        url="http://127.0.0.1:8000",
        log=str(log),
        created_at=1_764_446_660.0,
        forecast={"boot": msgspec.to_builtins(subject), **forecast},
    )


def test_figures_of_all_ranks_are_read_in_the_later_format() -> None:
    log = BootLog(None)
    log.feed(LATER, 0.0)
    assert memory_of(log.snapshot().facts) == BootMemory(
        available_kv_gib=8.97,
        total_gib=23.55,
        activation_gib=1.53,
        consumed_gib=12.38,
        graphs_gib=0.11,
        graphs_estimate_gib=0.14,
    )


def test_a_boot_that_died_for_want_of_memory_is_no_account() -> None:
    log = BootLog(None)
    log.feed(["ValueError: Free memory on device cuda:0 (1.0/23.57 GiB) on startup is less than desired"], 0.0)
    assert memory_of(log.snapshot().facts) == BootMemory()


def test_a_boot_is_kept_once_and_a_later_one_of_the_same_flags_replaces_it() -> None:
    memory_history.learn(record(LOGS / "h200-0.26-ar4-first-boot.log"))
    (first,) = memory_history.measured("a/b").boots
    assert first.memory.available_kv_gib == 121.4
    assert first.subject == SUBJECT
    later = msgspec.structs.replace(record(LOGS / "h200-0.26-ct4-graph.log"), created_at=1_764_447_000.0)
    memory_history.learn(later)
    (second,) = memory_history.measured("a/b").boots
    assert second.memory.available_kv_gib == 121.42
    assert memory_history.measured("another").boots == ()


def test_other_flags_are_kept_beside_and_not_without_bound() -> None:
    for number in range(memory_history.KEPT + 5):
        settings = MemorySettings(kv=KvSettings(max_model_len=1000 + number))
        subject = msgspec.structs.replace(SUBJECT, settings=settings)
        one = msgspec.structs.replace(record(LOGS / "h200-0.26-ct4-graph.log", subject), created_at=1.0 + number)
        memory_history.learn(one)
    lengths = [boot.subject.settings.kv.max_model_len for boot in memory_history.measured("a/b").boots]
    assert lengths == [1000 + number for number in range(memory_history.KEPT + 4, 4, -1)]


def _spoil(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    def act(file: Path) -> None:
        content = json.loads(file.read_bytes())
        change(content)
        file.write_text(json.dumps(content), encoding="utf-8")

    return act


@pytest.mark.parametrize(
    "spoil",
    [
        lambda file: file.write_bytes(b""),
        lambda file: file.write_bytes(b"\xff\xfe{"),
        lambda file: file.write_text("[" * 100_000, encoding="utf-8"),
        _spoil(lambda content: content.update(format=0)),
        _spoil(lambda content: content.update(checkpoint="c/d")),
        _spoil(lambda content: content["boots"][0].pop("subject")),
    ],
    ids=["empty", "binary", "deep", "old", "another", "lacking"],
)
def test_a_file_that_cannot_be_used_is_named_and_left_alone(spoil: Callable[[Path], object]) -> None:
    memory_history.learn(record(LOGS / "h200-0.26-ct4-graph.log"))
    (file,) = (paths.state_home() / "memory").glob("*.json")
    spoil(file)
    found = memory_history.measured("a/b")
    assert found.boots == () and found.problem is not None
    assert str(file) in found.problem and "\n" not in found.problem
    memory_history.learn(record(LOGS / "h200-0.26-ct4-graph.log"))
    assert memory_history.measured("a/b") == found
    file.unlink()
    memory_history.learn(record(LOGS / "h200-0.26-ct4-graph.log"))
    assert len(memory_history.measured("a/b").boots) == 1


def test_figures_that_cannot_be_are_left_out() -> None:
    memory_history.learn(record(LOGS / "h200-0.26-ct4-graph.log"))
    (file,) = (paths.state_home() / "memory").glob("*.json")
    _spoil(lambda content: content["boots"][0]["memory"].update(weights_gib=-1e9))(file)
    assert memory_history.measured("a/b") == memory_history.Measured()


@pytest.mark.parametrize("forecast", [None, {}, {"boot": None}, {"boot": {"slug": 1}}, {"boot": "x"}])
def test_an_instance_without_a_forecast_teaches_nothing(forecast: dict[str, Any] | None) -> None:
    one = msgspec.structs.replace(record(LOGS / "h200-0.26-ct4-graph.log"), forecast=forecast)
    memory_history.learn(one)
    assert memory_history.measured("a/b").boots == ()
    assert against(one, memory_history.facts_of(one)) is None


def test_a_log_that_is_gone_or_of_another_engine_teaches_nothing(tmp_path: Path) -> None:
    memory_history.learn(record(tmp_path / "gone.log"))
    other = msgspec.structs.replace(SUBJECT, engine_version="0.33.0")
    memory_history.learn(record(LOGS / "h200-0.26-ct4-graph.log", other))
    assert memory_history.measured("a/b").boots == ()


def test_boots_survive_the_file_as_they_are() -> None:
    boot = Boot(subject=SUBJECT, at=1.0, memory=BootMemory(weights_gib=1.5, available_kv_gib=2.0))
    assert msgspec.json.decode(msgspec.json.encode(boot), type=Boot) == boot
