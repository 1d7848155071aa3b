"""From the log of one boot to the next plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cockpit import paths
from cockpit.config import Config
from cockpit.launch.forecast import planned
from cockpit.launch.types import LaunchPlan
from cockpit.rig.described import load_rig
from cockpit.session import Session
from cockpit.supervisor import memory_history
from cockpit.supervisor.record import InstanceRecord
from cockpit.units import GIB

LINES = (
    "(Worker_TP0 pid=1) INFO 11-29 20:00:00 [x.py:1] Model loading took 8.9 GiB memory and 9.1 seconds",
    "(EngineCore pid=1) INFO 11-29 20:00:01 [x.py:1] Available KV cache memory: 11.05 GiB",
    "(EngineCore pid=1) INFO 11-29 20:00:01 [x.py:1] GPU KV cache size: 623,873 tokens, Maximum concurrency for "
    "262,144 tokens per request: 2.38x",
)


@pytest.fixture(autouse=True)
def _homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("CONFIG", "DATA", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind))
    for name in ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)


def plan(**chosen: Any) -> LaunchPlan:
    return Session(Config(), {"HOME": "/"}, load_rig("2x3090")).plan("vllm/dual", chosen)


def boot(tmp_path: Path, of: LaunchPlan) -> InstanceRecord:
    log = tmp_path / "x.log"
    log.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return InstanceRecord(
        name="x",
        slug=of.slug,
        model=of.model,
        served_model_name="x",
        argv=of.argv,
        env={},
        cwd="/",
        host="127.0.0.1",
        port=8000,
        url=of.url,
        log=str(log),
        created_at=1_764_446_400.0,
        forecast=planned(of),
    )


def test_a_boot_makes_the_next_forecast_exact_to_the_token(tmp_path: Path) -> None:
    before = plan()
    memory_history.learn(boot(tmp_path, before))
    forecast = plan().forecast
    assert before.forecast is not None and before.forecast.learned_from is None
    assert forecast is not None and forecast.kv is not None and forecast.learned_from is not None
    assert forecast.kv.capacity_tokens == 623873
    assert (forecast.learned_from.slug, forecast.learned_from.exact) == ("vllm/dual", True)
    assert forecast.basis == "measured"
    assert (forecast.error_bytes or 0) < 0.05 * GIB < (before.forecast.error_bytes or 0)


def test_other_flags_are_corrected_too(tmp_path: Path) -> None:
    memory_history.learn(boot(tmp_path, plan()))
    forecast = plan(max_model_len=131072, gpu_memory_utilization=0.9).forecast
    assert forecast is not None and forecast.learned_from is not None
    assert not forecast.learned_from.exact
    assert abs(forecast.per_gpu[0].kv.bytes / GIB - (11.05 - 0.02 * 23.57)) < 0.01
    eager = plan(enforce_eager="on").forecast
    assert eager is not None and eager.learned_from is None


def test_a_file_that_cannot_be_used_is_a_warning_of_the_plan(tmp_path: Path) -> None:
    memory_history.learn(boot(tmp_path, plan()))
    (file,) = (paths.state_home() / "memory").glob("*.json")
    file.write_bytes(b"{")
    result = plan()
    (finding,) = [one for one in result.findings if one.rule == "boots-unreadable"]
    assert finding.severity == "warn" and str(file) in finding.message
    assert result.forecast is not None and result.forecast.kv is not None
