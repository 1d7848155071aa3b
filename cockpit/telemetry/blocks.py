"""How a request of full length fills a KV pool: blocks of layers that keep every token, and of all others.

Layers of several kinds draw their blocks from one pool (v1/core/kv_cache_utils.py,
get_max_concurrency_for_kv_cache_config): a sliding window, cross-attention and recurrent state take blocks that do
not grow with the prompt, or not for long. Where there are any, a share of the pool is no number of tokens.
"""

from __future__ import annotations

from math import ceil

from cockpit.telemetry.scrape import CachePool

_CONTEXT_PARALLEL = (1, 2, 4, 8, 16)
"""Ranks among which the tokens of one request may be split (decode and prefill context parallel size)."""
_LEAST_CONCURRENCY = 1e-6
"""Requests of full length that fit; fewer says nothing, and makes lengths beyond all numbers."""
_SLACK = 0.02
"""Of the blocks of a request, where the pool's figures are not exact."""


def keeps_nothing(pool: CachePool) -> bool:
    """Whether a model has no KV cache, as an encoder that embeds: vLLM labels it with one block, which means none."""
    return pool.blocks is not None and pool.blocks <= 1 and pool.capacity_tokens is None


def extra_blocks(pool: CachePool) -> int | None:
    """Blocks of a full-length request beyond those of layers that keep every token; 0 says that there are no others.

    Negative where no layer keeps every token; None where the labels do not say. It is the most that one request can
    hold: the budget of encoder tokens and the whole window, which shorter requests do not fill.
    """
    if not pool.blocks or not pool.block_tokens or not pool.capacity_tokens:
        return None
    if pool.max_concurrency is None or pool.max_concurrency < _LEAST_CONCURRENCY:
        return None
    # vLLM rounds concurrency x length down to tokens.
    length = ceil(pool.capacity_tokens / pool.max_concurrency - 1e-6)
    whole = pool.blocks / pool.max_concurrency
    slack = 0.5 if pool.is_exact else 0.5 + _SLACK * whole
    if any(abs(whole - ceil(length / (pool.block_tokens * ranks))) <= slack for ranks in _CONTEXT_PARALLEL):
        return 0
    return round(whole) - ceil(length / pool.block_tokens)


def counts_tokens(pool: CachePool) -> bool | None:
    """Whether a share of the pool is a number of tokens; None where the labels do not say."""
    if pool.holds_state_blocks:
        return False
    extra = extra_blocks(pool)
    return None if extra is None else extra == 0


def attention_tokens(pool: CachePool, use: float, running: float) -> float | None:
    """Tokens, at least, of ``running`` requests that use a share of a pool; None where it cannot be known."""
    if counts_tokens(pool) is not False:
        return None if pool.capacity_tokens is None else use * pool.capacity_tokens
    extra = extra_blocks(pool)
    if extra is None or pool.blocks is None or pool.block_tokens is None:
        return None
    return max(0.0, use * pool.blocks - running * max(0, extra)) * pool.block_tokens
