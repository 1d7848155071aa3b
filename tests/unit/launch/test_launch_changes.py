"""What would make a plan fit really does, and is allowed."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cockpit.catalog.load import Entry
from cockpit.catalog.slug import Slug, Speculative, Weights
from cockpit.checkpoint.inspect import inspect
from cockpit.launch.changes import full_forecast
from cockpit.launch.forecast import forecast_of, with_values
from cockpit.launch.plan import Facts, context_for, make_plan, subject_of
from cockpit.launch.pool import pool_findings
from cockpit.planner.forecast_types import Forecast
from cockpit.rig.described import load_rig
from cockpit.rig.types import Gpu, Rig
from cockpit.rules.context import Context
from cockpit.units import GIB

CHECKPOINTS = Path(__file__).resolve().parents[2] / "fixtures" / "checkpoints"


def slug(**fields: Any) -> Slug:
    given: dict[str, Any] = {
        "name": "local/x",
        "model": "x",
        "weights": Weights(format="auto-round", repo="a/b", vision=True, mtp=True),
        "max_model_len": 262144,
        "max_num_seqs": 8,
        "speculative": Speculative(method="mtp", tokens=3),
        "flags": {"max-num-batched-tokens": 8192},
    }
    return Slug(**{**given, **fields})


def facts(folder: str, rig: str | Rig) -> Facts:
    return Facts(
        rig=load_rig(rig) if isinstance(rig, str) else rig,
        checkpoint=inspect(str(CHECKPOINTS / folder)),
        engine=None,
        environ={},
        free_port=8000,
        cwd="/",
    )


def planned(one: Slug, known: Facts, **chosen: Any) -> tuple[Context, Forecast]:
    ctx = context_for(one, chosen, known)
    return ctx, full_forecast(ctx, subject_of(known))


@settings(deadline=None, max_examples=25)
@given(
    st.sampled_from(("auto-round-w4-hybrid", "compressed-tensors-int6-flat", "bf16", "auto-round-w4-moe")),
    st.sampled_from(("1x3090", "2x3090", "2x5090", "4x3090")),
    st.integers(1024, 262144),
    st.sampled_from((0.8, 0.92, 0.97)),
)
def test_every_change_fits_when_it_is_made(folder: str, rig: str, length: int, share: float) -> None:
    known = facts(folder, rig)
    ctx, now = planned(slug(), known, max_model_len=length, gpu_memory_utilization=share)
    if now.fits in ("yes", "unknown"):
        assert now.changes == ()
    for change in now.changes:
        then = forecast_of(with_values(ctx, **change.set), subject_of(known))
        assert then.kv is not None and then.kv.fits
        assert then.fits == "yes" or change.set.keys() & {"max_model_len", "gpu_memory_utilization"}
        assert then.kv.capacity_tokens == change.capacity_tokens
        assert change.set.keys() <= {
            "max_model_len",
            "kv_cache_dtype",
            "gpu_memory_utilization",
            "max_num_seqs",
            "vision",
            "gpus",
            "tensor_parallel",
        }
        if "gpus" in change.set:
            assert len(change.set["gpus"]) == change.set["tensor_parallel"] <= len(known.rig.gpus)


def test_a_share_of_the_card_that_is_too_small_is_answered_by_a_larger_one_even_if_it_only_just_fits() -> None:
    known = facts("compressed-tensors-int6-flat", "2x3090")
    for length in range(200_000, 262_144, 8192):
        ctx, now = planned(
            slug(max_num_seqs=1),
            known,
            max_model_len=length,
            tensor_parallel=2,
            gpus=(0, 1),
            gpu_memory_utilization=0.5,
        )
        most = forecast_of(with_values(ctx, gpu_memory_utilization=0.98), subject_of(known))
        assert now.fits == "no" and most.kv is not None
        offered = [one for one in now.changes if "gpu_memory_utilization" in one.set]
        assert bool(offered) == (most.kv.fits and most.fits in ("yes", "tight"))


def test_more_gpus_are_offered_only_where_there_are_some() -> None:
    def gpus(rig: str) -> list[Any]:
        _, now = planned(slug(), facts("auto-round-w4-hybrid", rig), gpus=(0,), tensor_parallel=1)
        return [one.set for one in now.changes if "gpus" in one.set]

    assert gpus("1x3090") == []
    assert gpus("2x3090") == [{"gpus": (0, 1), "tensor_parallel": 2}]


def test_a_smaller_kv_type_is_not_offered_where_the_cards_cannot_have_it() -> None:
    _, now = planned(slug(kv_cache_dtype="fp8_e4m3"), facts("auto-round-w4-hybrid", "1x3090"), gpus=(0,))
    assert now.fits == "no"
    assert all(one.set.get("kv_cache_dtype") != "nvfp4" for one in now.changes)


def test_a_card_that_others_hold_gets_a_share_that_is_free() -> None:
    held = Gpu(
        index=0,
        uuid="u",
        name="NVIDIA H200",
        total_bytes=140 * GIB,
        usable_bytes=139 * GIB,
        used_bytes=30 * GIB,
        capability=(9, 0),
    )
    _, now = planned(slug(), facts("auto-round-w4-hybrid", Rig(gpus=(held,))), gpus=(0,))
    assert now.fits == "no" and "109.00 GiB free" in (now.reason or "")
    assert {"gpu_memory_utilization": 0.78} in [one.set for one in now.changes]


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        ({"pipeline-parallel-size": 2}, "pipeline"),
        ({"cpu-offload-gb": 10}, "host's memory"),
        ({"decode-context-parallel-size": 2}, "context"),
        ({"kv-cache-dtype-skip-layers": ["0", "sliding_window"]}, "--kv-cache-dtype-skip-layers"),
        ({"kv-cache-dtype-skip-layers": "3"}, "--kv-cache-dtype-skip-layers"),
        ({"block-size": 64}, "--block-size"),
        ({"mamba-ssm-cache-dtype": "bfloat16"}, "--mamba-ssm-cache-dtype"),
        ({"num-gpu-blocks-override": 100}, "--num-gpu-blocks-override"),
        ({"enable-lora": True}, "adapters"),
        ({"dtype": "float32"}, "float32"),
    ],
)
def test_flags_that_are_not_modelled_make_it_unknown(flags: dict[str, Any], word: str) -> None:
    _, now = planned(slug(flags=flags), facts("auto-round-w4-hybrid", "2x3090"))
    assert now.fits == "unknown" and word in (now.reason or "")


@pytest.mark.parametrize(
    "flags",
    [
        {"enable-lora": False},
        {"kv-cache-dtype-skip-layers": []},
        {"mamba-ssm-cache-dtype": "auto"},
        {"dtype": "bfloat16"},
        {"pipeline-parallel-size": 1},
    ],
)
def test_flags_that_change_nothing_leave_the_forecast_as_it_is(flags: dict[str, Any]) -> None:
    known = facts("auto-round-w4-hybrid", "2x3090")
    assert planned(slug(flags=flags), known)[1] == planned(slug(flags={}), known)[1]


@pytest.mark.parametrize("text", ["4294967296", "4G", "4GiB", 4294967296])
def test_the_size_of_the_pool_may_be_given(text: str | int) -> None:
    given = slug(flags={"kv-cache-memory-bytes": text}, max_model_len=16384)
    _, now = planned(given, facts("auto-round-w4-hybrid", "2x3090"), gpus=(0, 1), tensor_parallel=2)
    assert now.per_gpu[0].kv.bytes == 4 * GIB
    assert now.error_bytes == 0


@pytest.mark.parametrize(("env", "size"), [({}, GIB), ({"VLLM_CPU_KVCACHE_SPACE": "2"}, 2 * GIB)])
def test_on_the_cpu_the_variable_wins_over_the_flag(env: dict[str, str], size: int) -> None:
    given = slug(platform="cpu", flags={"kv-cache-memory-bytes": "1GiB"}, env=env, max_model_len=4096)
    _, now = planned(given, facts("auto-round-w4-hybrid", "2x3090"))
    assert now.kv is not None
    assert size - now.kv.bytes_per_block < now.kv.blocks * now.kv.bytes_per_block <= size


def test_a_pool_that_is_too_small_says_so_with_units() -> None:
    given = slug(platform="cpu", flags={"kv-cache-memory-bytes": "16MiB"}, max_model_len=4096)
    ctx, now = planned(given, facts("auto-round-w4-hybrid", "2x3090"))
    (said,) = [one.message for one in pool_findings(ctx, now, ctx.checkpoint) if one.rule == "kv-one-request"]
    assert re.fullmatch(
        r"the KV pool has [\d.]+ MiB as the slug says, one request of 4,096 tokens needs [\d.]+ (MiB|GiB)", said
    )


def test_a_plan_with_a_forecast_and_its_changes_takes_little_of_a_processor(tmp_path: Path) -> None:
    known = facts("auto-round-w4-hybrid", "2x3090")
    entry = Entry(slug=slug(), file=tmp_path / "x.yaml", shipped=False)
    times = []
    for _ in range(5):
        start = time.process_time()
        plan = make_plan(entry, {"gpus": (0,), "tensor_parallel": 1}, known)
        times.append(time.process_time() - start)
    assert plan.forecast is not None and plan.forecast.changes
    print(f"one plan: {min(times) * 1000:.1f} ms")
    assert min(times) < 0.25


def test_a_plan_keeps_what_its_boot_can_teach(tmp_path: Path) -> None:
    known = facts("auto-round-w4-hybrid", "2x3090")
    entry = Entry(slug=slug(), file=tmp_path / "x.yaml", shipped=False)
    plan = make_plan(entry, {"gpus": (0, 1), "tensor_parallel": 2}, known)
    assert plan.boot is not None
    assert (plan.boot.gpu_name, plan.boot.settings.kv.tensor_parallel) == ("NVIDIA GeForce RTX 3090", 2)
    assert msgspec.json.decode(msgspec.json.encode(plan.boot), type=type(plan.boot)) == plan.boot


def test_a_card_that_has_hardly_enough_free_is_a_warning_of_its_own(tmp_path: Path) -> None:
    held = Gpu(
        index=0,
        uuid="u",
        name="NVIDIA H200",
        total_bytes=140 * GIB,
        usable_bytes=139 * GIB,
        used_bytes=11 * GIB,
        capability=(9, 0),
    )
    entry = Entry(slug=slug(), file=tmp_path / "x.yaml", shipped=False)
    plan = make_plan(entry, {"gpus": (0,)}, facts("auto-round-w4-hybrid", Rig(gpus=(held,))))
    assert plan.forecast is not None and plan.forecast.fits == "tight"
    rules = {one.rule: one for one in plan.findings}
    assert rules["memory-hardly-free"].severity == "warn"
    assert "kv-headroom" not in rules and "memory-in-use" not in rules
    assert {"gpu_memory_utilization": 0.91} in [one.set for one in plan.forecast.changes]
