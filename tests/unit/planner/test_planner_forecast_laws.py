"""Laws of forecasts, whatever the model, the flags and the card."""

from __future__ import annotations

import math
import time
from functools import cache
from typing import Any

import msgspec
import pytest
from forecast_evidence import FIXTURES, weights_of
from hypothesis import given, settings
from hypothesis import strategies as st

from cockpit.checkpoint.inspect import inspect
from cockpit.checkpoint.types import Checkpoint
from cockpit.planner.forecast import forecast
from cockpit.planner.forecast_inputs import CardMemory, MemorySettings
from cockpit.planner.forecast_types import Forecast, Part
from cockpit.planner.types import KvSettings
from cockpit.units import GIB

NAMES = ("auto-round-w4-hybrid", "auto-round-w4-moe", "bf16", "compressed-tensors-int6-flat", "gemma3", "llama")


@cache
def checkpoint(name: str) -> Checkpoint:
    return inspect(str(FIXTURES / "checkpoints" / name))


@st.composite
def launches(draw: st.DrawFn) -> tuple[str, MemorySettings]:
    name = draw(st.sampled_from(NAMES))
    drafts = checkpoint(name).mtp_layers > 0
    kv = KvSettings(
        max_model_len=draw(st.integers(16, 262144)),
        tensor_parallel=draw(st.sampled_from((1, 2, 4))),
        kv_cache_dtype=draw(st.sampled_from(("auto", "fp8_e4m3"))),
        speculative_tokens=draw(st.integers(0, 4)) if drafts else 0,
        engine_version=draw(st.sampled_from(("0.26.0", "0.29.1", "0.33.0"))),
        max_num_batched_tokens=draw(st.sampled_from((None, 2048, 16384))),
        capability=(8, 6),
        gpu_name="card",
    )
    return name, MemorySettings(
        kv=kv,
        utilization=draw(st.floats(0.3, 1.0)),
        max_num_seqs=draw(st.sampled_from((None, 1, 8, 256))),
        eager=draw(st.booleans()),
        vision=draw(st.booleans()) and checkpoint(name).vision,
    )


def made(name: str, flags: MemorySettings, total_gib: float = 80.0, **card: Any) -> Forecast:
    found = checkpoint(name)
    one = CardMemory(gpu=0, name="card", total_bytes=round(total_gib * GIB), **card)
    return forecast(found, flags, (one,), weights_of(found, flags))


def with_kv(flags: MemorySettings, **changes: Any) -> MemorySettings:
    return msgspec.structs.replace(flags, kv=msgspec.structs.replace(flags.kv, **changes))


@settings(deadline=None, max_examples=60)
@given(launches(), st.floats(8, 140), st.floats(0, 60))
def test_more_memory_is_never_fewer_tokens(launch: tuple[str, MemorySettings], size: float, more: float) -> None:
    small, large = made(*launch, size), made(*launch, size + more)
    assert small.kv is not None and large.kv is not None
    assert small.kv.capacity_tokens <= large.kv.capacity_tokens
    assert small.missing_bytes >= large.missing_bytes
    assert (small.largest_max_model_len or 0) <= (large.largest_max_model_len or 0)


@settings(deadline=None, max_examples=60)
@given(launches(), st.floats(16, 140))
def test_parts_add_up_to_the_budget_and_the_pool_holds_what_it_says(
    launch: tuple[str, MemorySettings], size: float
) -> None:
    result = made(*launch, size)
    (gpu,) = result.per_gpu
    kv = result.kv
    assert kv is not None
    counted = gpu.weights.bytes + gpu.activation.bytes + gpu.overhead.bytes
    left = gpu.budget_bytes - counted
    assert gpu.budget_bytes == math.ceil(launch[1].utilization * gpu.total_bytes)
    assert gpu.kv.bytes in (max(0, left), max(0, left - gpu.graphs.bytes))
    assert kv.blocks * kv.bytes_per_block <= gpu.kv.bytes
    assert kv.fits == (result.missing_bytes == 0)
    assert result.headroom_tokens == kv.capacity_tokens - launch[1].kv.max_model_len
    assert (result.fits in ("yes", "tight")) or not kv.fits or result.reason


@settings(deadline=None, max_examples=60)
@given(launches(), st.floats(16, 140))
def test_the_largest_context_boots_and_one_block_more_does_not(
    launch: tuple[str, MemorySettings], size: float
) -> None:
    name, flags = launch
    longest = made(name, flags, size).largest_max_model_len
    assert longest is not None and longest <= (checkpoint(name).max_model_len or longest)
    if longest:
        there = made(name, with_kv(flags, max_model_len=longest), size)
        assert there.kv is not None and there.kv.fits
        assert there.kv.capacity_tokens >= longest
    if longest < (checkpoint(name).max_model_len or longest):
        beyond = made(name, with_kv(flags, max_model_len=longest + 1), size).kv
        assert beyond is not None and not beyond.fits


@settings(deadline=None, max_examples=60)
@given(launches(), st.integers(16, 262144))
def test_a_longer_context_takes_no_less_of_the_same_pool(launch: tuple[str, MemorySettings], longer: int) -> None:
    name, flags = launch
    one, other = made(name, flags), made(name, with_kv(flags, max_model_len=longer))
    assert one.kv is not None and other.kv is not None
    assert one.per_gpu[0].kv == other.per_gpu[0].kv
    assert one.kv.blocks == other.kv.blocks
    if longer >= flags.kv.max_model_len:
        assert other.kv.bytes_needed >= one.kv.bytes_needed
        assert other.kv.max_concurrency <= one.kv.max_concurrency


@pytest.mark.parametrize("name", ["bf16", "llama", "auto-round-w4-hybrid"])
def test_twice_the_ranks_halve_a_tokens_bytes_while_heads_divide(name: str) -> None:
    heads = checkpoint(name).kv_heads
    flags = MemorySettings(kv=KvSettings(max_model_len=8192))

    def bytes_a_token(ranks: int) -> float:
        kv = made(name, with_kv(flags, tensor_parallel=ranks)).kv
        assert kv is not None
        return kv.bytes_per_block / kv.block_size_tokens

    for ranks in (1, 2, 4):
        if heads % (2 * ranks) == 0:
            assert bytes_a_token(2 * ranks) == bytes_a_token(ranks) / 2


@settings(deadline=None, max_examples=40)
@given(launches(), st.floats(16, 140), st.integers(0, GIB))
def test_an_unsure_card_widens_the_band_and_never_the_pool(
    launch: tuple[str, MemorySettings], size: float, unsure: int
) -> None:
    sure, other = made(*launch, size), made(*launch, size, error_bytes=unsure)
    assert sure.per_gpu[0].kv.bytes == other.per_gpu[0].kv.bytes
    assert (other.error_bytes or 0) >= (sure.error_bytes or 0)


def test_a_given_pool_is_taken_as_it_is_and_checked_against_the_card() -> None:
    flags = MemorySettings(kv=KvSettings(max_model_len=8192), kv_cache_bytes=4 * GIB)
    result = made("bf16", flags, 80)
    assert result.per_gpu[0].kv == Part(bytes=4 * GIB, basis="config")
    assert result.error_bytes == 0
    crowded = made("bf16", msgspec.structs.replace(flags, kv_cache_bytes=79 * GIB), 80)
    assert crowded.fits == "no" and "GPU 0" in (crowded.reason or "")


def test_others_memory_on_the_card_is_a_reason() -> None:
    flags = MemorySettings(kv=KvSettings(max_model_len=8192))
    assert made("bf16", flags, 80, free_bytes=75 * GIB).fits == "yes"
    crowded = made("bf16", flags, 80, free_bytes=70 * GIB)
    assert crowded.fits == "no"
    assert crowded.reason == "vLLM asks for 73.60 GiB of GPU 0, which has 70.00 GiB free"
    hardly = made("bf16", flags, 80, free_bytes=74 * GIB)
    assert hardly.fits == "tight" and "CUDA itself takes up to 0.5" in (hardly.reason or "")


def test_eager_mode_has_no_graphs_and_vision_takes_memory() -> None:
    flags = MemorySettings(kv=KvSettings(max_model_len=8192), max_num_seqs=8)
    name = "auto-round-w4-hybrid"
    plain, eager = made(name, flags), made(name, msgspec.structs.replace(flags, eager=True))
    seeing = made(name, msgspec.structs.replace(flags, vision=True))
    assert plain.per_gpu[0].graphs.bytes > eager.per_gpu[0].graphs.bytes == 0
    assert seeing.per_gpu[0].weights.bytes > plain.per_gpu[0].weights.bytes
    assert seeing.per_gpu[0].activation.bytes > plain.per_gpu[0].activation.bytes


@pytest.mark.parametrize("name", ["jamba", "unknown-method"])
def test_what_is_not_known_has_a_reason_and_no_figures(name: str) -> None:
    flags = MemorySettings(kv=KvSettings(max_model_len=8192))
    card = (CardMemory(gpu=0, name="card", total_bytes=80 * GIB),)
    result = forecast(checkpoint(name), flags, card, None)
    assert (result.fits, result.kv, result.error_bytes) == ("unknown", None, None)
    assert result.reason and not result.reason.endswith(".")


def test_one_forecast_takes_little_of_a_processor() -> None:
    flags = MemorySettings(kv=KvSettings(max_model_len=262144, speculative_tokens=3), vision=True)
    found = checkpoint("auto-round-w4-hybrid")
    card = (CardMemory(gpu=0, name="card", total_bytes=24 * GIB),) * 2
    times = []
    for _ in range(20):
        start = time.process_time()
        forecast(found, flags, card, weights_of(found, flags))
        times.append(time.process_time() - start)
    print(f"one forecast: {min(times) * 1000:.2f} ms")
    assert min(times) < 0.1


def test_memory_of_versions_that_were_not_compared_is_unknown() -> None:
    name = "bf16"
    flags = MemorySettings(kv=KvSettings(max_model_len=4096, engine_version="0.25.1"))
    assert "vLLM 0.25" in (made(name, flags, 24.0).reason or "")
    assert made(name, with_kv(flags, engine_version="0.26.0"), 24.0).kv is not None
