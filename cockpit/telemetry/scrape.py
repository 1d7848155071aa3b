"""One reading of a vLLM server's /metrics as a frozen value, a part an engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from cockpit.telemetry.frame import SleepState
from cockpit.telemetry.histogram import Histogram


class CachePool(msgspec.Struct, frozen=True, kw_only=True):
    """The labels of ``vllm:cache_config_info`` that say how large one engine's KV pool is."""

    capacity_tokens: int | None = None
    """``kv_cache_size_tokens``: right on hybrid models too, where blocks times block size is not."""
    max_concurrency: float | None = None
    """Requests of full length that fit at once."""
    blocks: float | None = None
    """This engine's share of ``num_gpu_blocks``, which vLLM sums over the data-parallel ranks of one server."""
    block_tokens: int | None = None
    """Tokens that a block of an attention layer holds."""
    holds_state_blocks: bool | None = None
    """True when recurrent state shares the pool (a hybrid model), None where the labels do not say."""
    is_exact: bool = True
    """Blocks and requests are as vLLM computed them: no share of a sum, nor rounded for a line of the log."""


class EngineScrape(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one engine (one data-parallel rank), by the short names of the vllm module's tables."""

    counters: Mapping[str, float] = {}
    gauges: Mapping[str, float] = {}
    histograms: Mapping[str, Histogram] = {}
    pool: CachePool | None = None
    sleep_state: SleepState | None = None
    created_at: float | None = None
    """Unix time at which its counters were made, where the server says so."""


class Scrape(msgspec.Struct, frozen=True, kw_only=True):
    """One answer of /metrics."""

    at: float
    """Unix time."""
    clock: float
    """Monotonic seconds when the answer was complete; differences of it are the window."""
    engines: Mapping[str, EngineScrape] = {}
    """By the ``engine`` label, and what else tells engines apart; empty when the server publishes no vLLM figures."""
    models: tuple[str, ...] = ()
    """Names that the figures are labelled with, sorted."""
    mixes_models: bool = False
    """An engine has figures of several models, which its label does not tell apart."""
    process_started_at: float | None = None
    """Unix time at which the API server process started, where it says so."""
    context_tokens: float | None = None
    """Prompt tokens computed so far by the log's iteration details; not of /metrics, stamped on by the sampler."""
    other_server: str | None = None
    """What serves here when it is no vLLM and its figures say so, e.g. ``SGLang``."""
    skipped_lines: int = 0
    """Lines of wanted families that could not be read."""

    def counter(self, key: str) -> float | None:
        """Sum of one counter over the engines; None unless all have it, or at least one where it is a label's."""
        values = [engine.counters.get(key) for engine in self.engines.values()]
        return None if None in values and ":" not in key else _sum(values)

    def gauge(self, key: str) -> float | None:
        """Sum of one gauge over the engines; None unless all have it: a part of the load is not the load."""
        values = [engine.gauges.get(key) for engine in self.engines.values()]
        return None if None in values else _sum(values)

    def counter_keys(self, prefix: str) -> tuple[str, ...]:
        """Names of counters that begin so, over all engines, sorted."""
        names = {key for engine in self.engines.values() for key in engine.counters if key.startswith(prefix)}
        return tuple(sorted(names))


def _sum(values: Iterable[float | None]) -> float | None:
    """Sum of the values that are known; None when none is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None
