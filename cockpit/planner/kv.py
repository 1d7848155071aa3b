"""Bytes of KV cache on each rank → what vLLM prints: blocks, tokens, requests at full context."""

from __future__ import annotations

import msgspec

from cockpit.planner.layout import kv_layout
from cockpit.planner.types import KvForecast, KvLayout, KvModel, KvSettings, KvUnknown

MAX_LENGTH = 1 << 40
"""Far above any context; bounds the search for the longest that fits."""


def _needed(layout: KvLayout, length: int) -> int:
    return layout.bytes_per_block * (layout.blocks_per_request(length) + layout.reserved_blocks)


def forecast_layout(layout: KvLayout, max_model_len: int, available_bytes: int) -> KvForecast:
    """The forecast for a layout that is at hand; see `forecast_kv`.

    blocks = ⌊available / bytes a block⌋ (get_kv_cache_config_from_groups), concurrency = blocks / blocks a request
    (get_max_concurrency_for_kv_cache_config), tokens = ⌊concurrency x length⌋ in floating point, as vLLM has it
    (get_kv_cache_capacity; all of v1/core/kv_cache_utils.py).
    """
    blocks = max(0, available_bytes) // layout.bytes_per_block
    per_request = layout.blocks_per_request(max_model_len)
    concurrency = blocks / per_request
    needed = _needed(layout, max_model_len)
    return KvForecast(
        block_size_tokens=layout.block_size_tokens,
        bytes_per_block=layout.bytes_per_block,
        blocks=blocks,
        blocks_per_request=per_request,
        capacity_tokens=int(concurrency * max_model_len),
        max_concurrency=concurrency,
        fits=needed <= available_bytes,
        bytes_needed=needed,
    )


def forecast_kv(model: KvModel, settings: KvSettings, available_bytes: int) -> KvForecast | KvUnknown:
    """What vLLM makes of ``available_bytes`` of KV cache on each rank, to the token, or why that is not known."""
    layout = kv_layout(model, settings)
    if isinstance(layout, KvUnknown):
        return layout
    return forecast_layout(layout, settings.max_model_len, available_bytes)


def bytes_needed_for_one_request(model: KvModel, settings: KvSettings) -> int | KvUnknown:
    """The least KV cache, in bytes a rank, with which vLLM boots: one request of max_model_len tokens fits.

    _max_memory_usage_bytes_from_groups of v1/core/kv_cache_utils.py, and the null block where it is left out.
    """
    layout = kv_layout(model, settings)
    return layout if isinstance(layout, KvUnknown) else _needed(layout, settings.max_model_len)


def largest_length(layout: KvLayout, available_bytes: int, limit: int = MAX_LENGTH) -> int:
    """The longest context up to ``limit`` with which vLLM boots; 0 where none is short enough.

    A longer context never needs fewer blocks, so halving finds it exactly (_estimate_max_model_len_from_groups).
    """
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if _needed(layout, middle) <= available_bytes:
            low = middle
        else:
            high = middle - 1
    return low


def largest_max_model_len(
    model: KvModel, settings: KvSettings, available_bytes: int, limit: int = MAX_LENGTH
) -> int | KvUnknown:
    """The largest max_model_len up to ``limit`` with which vLLM boots, 0 for none, or why that is not known.

    The max_model_len of ``settings`` plays no part in it. Where every layer is windowed, what a request takes stops
    growing, and the answer is ``limit``.
    """
    layout = kv_layout(model, msgspec.structs.replace(settings, max_model_len=1))
    return layout if isinstance(layout, KvUnknown) else largest_length(layout, available_bytes, limit)
