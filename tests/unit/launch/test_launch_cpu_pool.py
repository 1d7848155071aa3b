"""The pool of the CPU build: what the variable or the flag says, to the byte, or unknown with its reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cockpit.catalog.load import Entry
from cockpit.catalog.slug import Slug, Weights
from cockpit.checkpoint.inspect import inspect
from cockpit.launch.plan import Facts, make_plan
from cockpit.launch.types import LaunchPlan
from cockpit.rig.types import Rig
from cockpit.units import GIB

TINY = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "intermediate_size": 128,
    "vocab_size": 1024,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}
VARIABLE = "VLLM_CPU_KVCACHE_SPACE"


def plan_of(folder: Path, free: int = 100 * GIB, environ: dict[str, str] | None = None, **slug: Any) -> LaunchPlan:
    (folder / "config.json").write_text(json.dumps(TINY), encoding="utf-8")
    one = Slug(
        name="local/tiny",
        model="tiny",
        platform="cpu",
        weights=Weights(format="bf16", path=str(folder)),
        **{"max_model_len": 2048, **slug},
    )
    facts = Facts(
        rig=Rig(cpu_count=2, memory_total_bytes=200 * GIB, memory_available_bytes=free),
        checkpoint=inspect(str(folder)),
        engine=None,
        environ=environ or {},
        free_port=8000,
        cwd="/",
    )
    return make_plan(Entry(slug=one, file=folder / "tiny.yaml", shipped=False), {}, facts)


@pytest.mark.parametrize(
    ("slug", "environ", "size"),
    [
        ({"env": {VARIABLE: "1"}}, {}, GIB),
        ({}, {VARIABLE: "3"}, 3 * GIB),
        ({"env": {VARIABLE: "2"}}, {VARIABLE: "3"}, 2 * GIB),
        ({"flags": {"kv-cache-memory-bytes": 65536 * 40 + 1}}, {}, 65536 * 40 + 1),
        # vllm/platforms/cpu.py sets the flag's value anew from the variable.
        ({"flags": {"kv-cache-memory-bytes": "1G"}, "env": {VARIABLE: "2"}}, {}, 2 * GIB),
    ],
)
def test_the_size_of_the_pool_is_what_it_is_told_to_be(
    tmp_path: Path, slug: dict[str, Any], environ: dict[str, str], size: int
) -> None:
    forecast = plan_of(tmp_path, environ=environ, **slug).forecast
    assert forecast is not None and forecast.kv is not None
    assert (forecast.kv_bytes, forecast.error_bytes, forecast.fits) == (size, 0, "yes")
    assert forecast.kv.blocks == size // 65536
    assert forecast.kv.capacity_tokens == size // 65536 * 128


@pytest.mark.parametrize("environ", [{}, {VARIABLE: ""}, {VARIABLE: "half"}, {VARIABLE: "1.5"}])
def test_a_pool_that_depends_on_the_host_at_boot_is_unknown(tmp_path: Path, environ: dict[str, str]) -> None:
    forecast = plan_of(tmp_path, environ=environ).forecast
    assert forecast is not None
    assert (forecast.fits, forecast.kv_bytes, forecast.kv) == ("unknown", None, None)
    assert VARIABLE in (forecast.reason or "") and "host's memory" in (forecast.reason or "")


def test_no_pool_at_all_fits_nothing(tmp_path: Path) -> None:
    forecast = plan_of(tmp_path, env={VARIABLE: "0"}).forecast
    assert forecast is not None
    assert (forecast.fits, forecast.kv_bytes) == ("no", 0)


def test_a_pool_beyond_the_hosts_free_memory_is_refused(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, free=4 * GIB, env={VARIABLE: "5"})
    assert plan.forecast is not None and plan.forecast.fits == "no"
    (found,) = [one for one in plan.findings if one.rule == "host-pool"]
    assert found.severity == "block" and "5.00 GiB of KV cache" in found.message and VARIABLE in found.fix
    enough = plan_of(tmp_path, free=5 * GIB, env={VARIABLE: "5"})
    assert not [one for one in enough.findings if one.rule == "host-pool"]
