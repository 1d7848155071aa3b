"""Laws of the KV planner that hold for every model it answers for."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cockpit.checkpoint.types import LinearAttention
from cockpit.planner.groups import LayerSet, group_size, grouped
from cockpit.planner.kv import (
    bytes_needed_for_one_request,
    forecast_kv,
    forecast_layout,
    largest_length,
    largest_max_model_len,
)
from cockpit.planner.layout import kv_layout
from cockpit.planner.types import AttentionLayers, KvForecast, KvLayout, KvModel, KvSettings, KvUnknown

few = settings(max_examples=50, deadline=None)
RANKS = (1, 2, 4, 8)
LENGTHS = st.integers(1, 300_000)
POOLS = st.integers(0, 2**37)
STATES = st.builds(
    LinearAttention,
    key_heads=st.sampled_from((8, 16, 32)),
    value_heads=st.sampled_from((16, 32, 48)),
    key_head_dim=st.sampled_from((64, 128)),
    value_head_dim=st.sampled_from((64, 128)),
    conv_kernel=st.integers(2, 5),
    state_bytes=st.sampled_from((2, 4)),
)


@st.composite
def models(draw: st.DrawFn) -> KvModel:
    heads, dim = draw(st.sampled_from((1, 2, 4, 8, 16))), draw(st.sampled_from((64, 80, 128, 256)))
    windows = draw(st.sampled_from(((None,), (512,), (None, 1024), (4096, None), (512, None, 1024))))
    layers = st.integers(1, 64)
    hybrid = None in windows and draw(st.booleans())
    return KvModel(
        attention=tuple(
            AttentionLayers(layers=draw(layers), kv_heads=heads, head_dim=dim, window=window) for window in windows
        ),
        gated_delta=draw(STATES) if hybrid else None,
        gated_delta_layers=draw(layers) if hybrid else 0,
        mtp_layers=draw(st.sampled_from((0, 1))),
    )


@st.composite
def launches(draw: st.DrawFn) -> tuple[KvModel, KvSettings]:
    model = draw(models())
    chosen = KvSettings(
        max_model_len=draw(LENGTHS),
        tensor_parallel=draw(st.sampled_from(RANKS)),
        kv_cache_dtype=draw(
            st.sampled_from(("auto", "bfloat16", "fp8", "int8_per_token_head", "int4_per_token_head"))
        ),
        speculative_tokens=draw(st.integers(0, 5)) if model.mtp_layers else 0,
        prefix_caching=draw(st.sampled_from((None, True, False))),
        capability=draw(st.sampled_from((None, (8, 6), (9, 0), (12, 0)))),
        engine_version=draw(st.sampled_from((None, "0.29.0", "0.30.1", "0.32.0", "0.33.0"))),
    )
    return model, chosen


def _layout(launch: tuple[KvModel, KvSettings], **changes: Any) -> KvLayout:
    layout = kv_layout(launch[0], msgspec.structs.replace(launch[1], **changes))
    assert isinstance(layout, KvLayout), layout
    return layout


@few
@given(launches(), POOLS, st.integers(0, 2**30))
def test_more_memory_never_holds_fewer_tokens(launch: tuple[KvModel, KvSettings], available: int, more: int) -> None:
    layout, length = _layout(launch), launch[1].max_model_len
    less, greater = (forecast_layout(layout, length, size) for size in (available, available + more))
    assert less.capacity_tokens <= greater.capacity_tokens
    assert less.fits <= greater.fits


@few
@given(launches(), LENGTHS, POOLS)
def test_what_is_promised_never_exceeds_the_pool(
    launch: tuple[KvModel, KvSettings], longer: int, available: int
) -> None:
    layout = _layout(launch)
    forecast = forecast_layout(layout, longer, available)
    assert forecast.blocks * forecast.bytes_per_block <= available
    assert int(forecast.max_concurrency) * forecast.blocks_per_request <= forecast.blocks
    # Every token of a layer that sees everything lies in some block of the pool.
    if any(group.window_tokens is None and group.state_blocks is None for group in layout.groups):
        assert forecast.capacity_tokens <= forecast.blocks * layout.block_size_tokens


@few
@given(launches(), LENGTHS, LENGTHS, POOLS)
def test_a_longer_context_never_needs_less(
    launch: tuple[KvModel, KvSettings], one: int, other: int, available: int
) -> None:
    layout = _layout(launch)
    short, long = (forecast_layout(layout, length, available) for length in sorted((one, other)))
    assert short.blocks_per_request <= long.blocks_per_request
    assert short.max_concurrency >= long.max_concurrency
    assert short.bytes_needed <= long.bytes_needed


@few
@given(models(), st.sampled_from((2, 4, 8)))
def test_ranks_share_the_bytes_of_a_token_while_the_kv_heads_divide(model: KvModel, ranks: int) -> None:
    assume(all(one.kv_heads % ranks == 0 for one in model.attention) and model.gated_delta is None)
    whole, shared = (_layout((model, KvSettings(max_model_len=1024, tensor_parallel=count))) for count in (1, ranks))
    assert whole.block_size_tokens == shared.block_size_tokens
    assert whole.bytes_per_block == ranks * shared.bytes_per_block


@few
@given(models(), st.sampled_from((2, 4, 8)))
def test_ranks_beyond_the_kv_heads_hold_copies(model: KvModel, ranks: int) -> None:
    assume(model.gated_delta is None and all(one.kv_heads <= ranks for one in model.attention))
    heads = model.attention[0].kv_heads
    at_heads, beyond = (_layout((model, KvSettings(max_model_len=1024, tensor_parallel=n))) for n in (heads, ranks))
    assert at_heads.bytes_per_block == beyond.bytes_per_block


@few
@given(launches(), POOLS, st.integers(1, 2_000_000))
def test_the_longest_context_that_fits_fits_and_one_token_more_does_not(
    launch: tuple[KvModel, KvSettings], available: int, limit: int
) -> None:
    layout = _layout(launch)
    longest = largest_length(layout, available, limit)
    assert 0 <= longest <= limit
    if longest:
        assert forecast_layout(layout, longest, available).fits
    if longest < limit:
        assert not forecast_layout(layout, longest + 1, available).fits
    assert largest_max_model_len(*launch, available, limit) == longest


@few
@given(launches())
def test_the_bytes_of_one_request_are_just_enough(launch: tuple[KvModel, KvSettings]) -> None:
    needed = bytes_needed_for_one_request(*launch)
    assert isinstance(needed, int)
    enough, short = (forecast_kv(*launch, size) for size in (needed, needed - 1))
    assert isinstance(enough, KvForecast) and isinstance(short, KvForecast)
    assert enough.fits and not short.fits
    # The null block aside, one request of full length is what the pool holds.
    reserved = _layout(launch).reserved_blocks
    assert enough.blocks - reserved == enough.blocks_per_request


@few
@given(launches())
def test_every_layer_lies_in_one_group_and_every_page_in_the_block(launch: tuple[KvModel, KvSettings]) -> None:
    model, chosen = launch
    layout = _layout(launch)
    drafted = model.mtp_layers if chosen.speculative_tokens else 0
    total = sum(one.layers for one in model.attention) + model.gated_delta_layers + drafted
    assert sum(group.layers for group in layout.groups) == total
    assert all(0 < group.layers * group.page_bytes <= layout.bytes_per_block for group in layout.groups)


@few
@given(st.lists(st.integers(1, 80), min_size=1, max_size=4))
def test_a_group_is_as_large_as_the_smallest_or_the_largest_set(counts: list[int]) -> None:
    size = group_size(counts)
    assert size == (max(counts) if max(counts) < 1.5 * min(counts) else min(counts))


def test_pages_that_do_not_divide_are_padded_or_unknown_by_version() -> None:
    sets = [
        LayerSet(layers=4, page_bytes=3000, block_tokens=16),
        LayerSet(layers=4, page_bytes=2000, block_tokens=16, window=64, window_tokens=100),
    ]
    made = grouped(sets, padding=True)
    assert made is not None and [(group.page_bytes, group.block_tokens) for group in made[0]] == [(3000, 16)] * 2
    assert grouped(sets, padding=False) is None
    model = KvModel(
        attention=(
            AttentionLayers(layers=4, kv_heads=2, head_dim=192),
            AttentionLayers(layers=4, kv_heads=2, head_dim=128, window=512),
        )
    )
    assert isinstance(kv_layout(model, KvSettings(max_model_len=64, engine_version="0.28.0")), KvUnknown)
    assert isinstance(kv_layout(model, KvSettings(max_model_len=64, engine_version="0.29.0")), KvLayout)


def test_a_window_ends_one_token_short_of_its_width() -> None:
    # 16 tokens before the newest and a step of 112 are one block of 128, and one more for where the window begins.
    model = KvModel(attention=(AttentionLayers(layers=1, kv_heads=1, head_dim=64, window=17),))
    chosen = KvSettings(max_model_len=4096, max_num_batched_tokens=112, platform="cpu")
    assert _layout((model, chosen)).blocks_per_request(4096) == 2


def test_layers_of_two_sizes_that_see_everything_share_one_table() -> None:
    model = KvModel(
        attention=(
            AttentionLayers(layers=3, kv_heads=2, head_dim=64),
            AttentionLayers(layers=5, kv_heads=2, head_dim=128),
        )
    )
    layout = _layout((model, KvSettings(max_model_len=4096)))
    assert len(layout.groups) == 1
    assert layout.bytes_per_block == 16 * 2 * 2 * (3 * 64 + 5 * 128) * 2
    assert layout.blocks_per_request(4096) == 256
