"""Figures of pages that vLLM's own Prometheus logger wrote, against what it was told."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from cockpit.rig.types import Engine
from cockpit.telemetry.figures import figures
from cockpit.telemetry.notes import API_SERVERS
from cockpit.telemetry.vllm import parse_scrape
from cockpit.telemetry.window import Window, extend

pytestmark = pytest.mark.live
DRIVER = Path(__file__).with_name("vllm_metrics.py")


@pytest.mark.parametrize("several_api_servers", [False, True])
def test_what_two_engines_did_is_what_is_shown(engine: Engine, tmp_path: Path, several_api_servers: bool) -> None:
    env = {**os.environ, "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    if several_api_servers:
        env["PROMETHEUS_MULTIPROC_DIR"] = str(tmp_path)
    subprocess.run([engine.python, str(DRIVER), str(tmp_path)], env=env, capture_output=True, timeout=300, check=True)
    window = Window()
    for second, name in ((0.0, "before"), (10.0, "after")):
        text = (tmp_path / f"{name}.txt").read_text(encoding="utf-8")
        window = extend(window, parse_scrape(text, at=second, clock=second), 10.0)
    shown = figures(window, 10.0)
    assert window.newest is not None and window.newest.skipped_lines == 0
    assert (shown.engines, shown.model) == (2, 'odd "name\\" {x="1"},é')
    assert (API_SERVERS in shown.notes) == several_api_servers
    speed, kv, draft = shown.throughput, shown.kv, shown.speculative
    assert (speed.prefill_basis, speed.prefill_tokens_per_second) == ("by_source", 300.0)
    assert (speed.cached_prefill_tokens_per_second, speed.decode_tokens_per_second) == (35.0, 60.0)
    assert speed.decode_tokens_per_second_per_request == pytest.approx((600 - 8) / (600 * 0.02))
    assert (kv.capacity_tokens, kv.used_fraction, kv.used_tokens, kv.max_concurrency) == (16_000, 0.375, 6_000, 4.0)
    assert (shown.requests.running, shown.requests.waiting) == (3, 3)
    assert shown.latency.ttft_seconds.mean == pytest.approx(0.5)
    assert shown.latency.ttft_seconds.p95 == pytest.approx(0.5)
    assert shown.latency.inter_token_seconds.mean == pytest.approx(0.02)
    assert shown.prefix_cache.hit_fraction_window == pytest.approx(300 / 3350)
    assert draft is not None and draft.acceptance_length == pytest.approx(2.6)
    assert draft.acceptance_fraction == pytest.approx(160 / 300)
    assert draft.acceptance_per_position == pytest.approx((0.8, 0.5, 0.3))
