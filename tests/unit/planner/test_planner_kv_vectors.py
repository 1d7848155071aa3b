"""What real servers printed about their KV pools, reproduced to the token."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kv_evidence import GIB, LOGS, ROWS, BootLog, model_of, rounding, row_settings

from cockpit.planner.kv import bytes_needed_for_one_request, forecast_kv, forecast_layout, largest_length
from cockpit.planner.layout import kv_layout
from cockpit.planner.types import KvForecast, KvLayout, KvModel, KvSettings

MOST_BLOCKS = 5000


def _layout(model: KvModel, settings: KvSettings) -> KvLayout:
    layout = kv_layout(model, settings)
    assert isinstance(layout, KvLayout)
    return layout


def _matches(layout: KvLayout, length: int, available: tuple[int, int] | None, tokens: int) -> list[KvForecast]:
    """Forecasts of every pool inside the printed figure's rounding that come to so many tokens."""
    if available is None:
        counts = range(1, MOST_BLOCKS)
    else:
        counts = range(available[0] // layout.bytes_per_block, available[1] // layout.bytes_per_block + 1)
    made = (forecast_layout(layout, length, count * layout.bytes_per_block) for count in counts)
    return [forecast for forecast in made if forecast.capacity_tokens == tokens]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['model']}-{row['tokens']}")
def test_a_published_pool_is_reproduced_to_the_token(row: dict[str, Any]) -> None:
    layout = _layout(model_of(row["model"]), row_settings(row))
    available = rounding(row["available_gib"]) if row["available_gib"] is not None else None
    found = _matches(layout, row["max_model_len"], available, row["tokens"])
    print(
        f"{row['model']:<16} tp{row['tensor_parallel']} {row['kv_cache_dtype']:<20} S={row['speculative_tokens']}"
        f" block {layout.block_size_tokens:>5} blocks {found[0].blocks if found else '-':>6}"
        f" tokens {row['tokens']:>10,} {found[0].max_concurrency if found else 0:.2f}x"
    )
    assert layout.block_size_tokens == row["block_size"]
    assert len(found) == 1
    if row["concurrency"] is not None:
        assert round(found[0].max_concurrency, 2) == row["concurrency"]


def test_all_fifteen_rows_are_there() -> None:
    assert len(ROWS) == 15


@pytest.mark.parametrize("file", LOGS, ids=lambda file: file.stem)
def test_a_boot_log_is_reproduced_from_its_own_figures(file: Path) -> None:
    log = BootLog(file)
    layout = _layout(log.model, log.settings)
    assert layout.block_size_tokens == log.block_size
    if log.capacity is None:
        needed_gib, longest = log.refusal
        needed = bytes_needed_for_one_request(log.model, log.settings)
        assert isinstance(needed, int)
        assert f"{needed / GIB:.2f}" == needed_gib
        # The printed pool is rounded: the context is the one that vLLM says for some pool that prints alike.
        low, high = (largest_length(layout, available, log.settings.max_model_len) for available in log.available)
        assert low <= longest <= high
        assert high - low <= layout.block_size_tokens
        return
    tokens, concurrency = log.capacity
    found = _matches(layout, log.settings.max_model_len, log.available, tokens)
    assert len(found) == 1
    assert f"{found[0].max_concurrency:.2f}" == concurrency


def test_every_log_with_a_capacity_line_is_among_them() -> None:
    assert len(LOGS) == 9
    assert sum(BootLog(file).capacity is None for file in LOGS) == 1


@pytest.mark.parametrize(
    ("changes", "tokens"),
    [
        ({}, 263_672),
        ({"max_model_len": 131_072}, 252_624),
        ({"max_model_len": 65_536}, 233_091),
        ({"kv_cache_dtype": "fp8"}, 505_249),
        ({"speculative_tokens": 0}, 287_512),
        ({"prefix_caching": False}, 265_999),
        ({"engine_version": "0.26.0", "prefix_caching": None}, 265_999),
        ({"engine_version": "0.28.0", "prefix_caching": None}, 263_672),
    ],
)
def test_each_switch_changes_one_pool_as_vllm_does(changes: dict[str, Any], tokens: int) -> None:
    settings = {**{key: getattr(row_settings(ROWS[0]), key) for key in KvSettings.__struct_fields__}, **changes}
    forecast = forecast_kv(model_of("qwen3.8-27b"), KvSettings(**settings), int(8.97 * GIB))
    assert isinstance(forecast, KvForecast)
    assert forecast.capacity_tokens == tokens


def test_a_plain_model_divides_its_pool_by_sixteen_tokens() -> None:
    from cockpit.planner.types import AttentionLayers

    llama = KvModel(attention=(AttentionLayers(layers=32, kv_heads=8, head_dim=128),))
    forecast = forecast_kv(llama, KvSettings(max_model_len=131_072), 10 * GIB)
    assert isinstance(forecast, KvForecast)
    assert (forecast.blocks, forecast.capacity_tokens, forecast.fits) == (5120, 81_920, False)
