"""The KV pool of all engines together: capacity, requests at full length, use."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from cockpit.supervisor.boot_state import BootFacts
from cockpit.telemetry.blocks import counts_tokens, keeps_nothing
from cockpit.telemetry.frame import CapacitySource, Kv
from cockpit.telemetry.scrape import CachePool, EngineScrape, Scrape


class LogPool(msgspec.Struct, frozen=True, kw_only=True):
    """The pool of one engine as the boot log named it."""

    capacity_tokens: int | None = None
    max_concurrency: float | None = None
    max_model_len: int | None = None

    @property
    def by_concurrency(self) -> int | None:
        """Requests times their length, where that is more than the token figure by over 5 %.

        On hybrid models vLLM before 0.21 divided the token figure by the number of layer groups; the concurrency
        was right.
        """
        if self.max_concurrency is None or self.max_model_len is None:
            return None
        product = int(self.max_concurrency * self.max_model_len)
        return product if self.capacity_tokens is None or product > 1.05 * self.capacity_tokens else None

    @property
    def tokens(self) -> int | None:
        """Capacity of the engine."""
        return self.capacity_tokens if self.by_concurrency is None else self.by_concurrency


def pool_of(facts: BootFacts) -> LogPool:
    """The pool that a boot's log named."""
    return LogPool(
        capacity_tokens=facts.capacity_tokens,
        max_concurrency=facts.max_concurrency,
        max_model_len=facts.max_model_len,
    )


def with_log(pool: CachePool | None, log: LogPool | None) -> CachePool:
    """One engine's pool by its labels; what the boot log said stands in where they do not say its capacity."""
    pool = pool or CachePool()
    if pool.capacity_tokens is not None or log is None:
        return pool
    return replace(pool, capacity_tokens=log.tokens, max_concurrency=log.max_concurrency, is_exact=False)


def has_none(newest: Scrape) -> bool:
    """Whether the model keeps no KV cache."""
    return all(engine.pool is not None and keeps_nothing(engine.pool) for engine in newest.engines.values())


def kv(newest: Scrape, log: LogPool | None = None) -> Kv:
    """The pool as the newest scrape shows it.

    Capacity is the sum of ``kv_cache_size_tokens`` over the engines, each of which holds a pool of its own; where
    a version does not label it, the boot log's figure, times the number of engines, stands in.
    """
    engines = list(newest.engines.values())
    if has_none(newest):
        return Kv()
    log = log or LogPool()
    labelled = _sum_if_all([engine.pool.capacity_tokens if engine.pool else None for engine in engines])
    concurrency = _sum_if_all([engine.pool.max_concurrency if engine.pool else None for engine in engines])
    source: CapacitySource | None = "label"
    capacity = None if labelled is None else int(labelled)
    if capacity is None and log.tokens is not None:
        source = "log" if log.by_concurrency is None else "log_concurrency"
        capacity = log.tokens * len(engines)
    if concurrency is None and log.max_concurrency is not None:
        concurrency = log.max_concurrency * len(engines)
    used = _used_fraction(engines)
    state_blocks = _agreed([engine.pool.holds_state_blocks if engine.pool else None for engine in engines], True)
    in_tokens = _agreed([counts_tokens(with_log(engine.pool, log)) for engine in engines], False)
    used_tokens = None
    if state_blocks is False and in_tokens is not False and capacity is not None and used is not None:
        used_tokens = round(used * capacity)
    return Kv(
        capacity_tokens=capacity,
        capacity_source=None if capacity is None else source,
        max_concurrency=concurrency,
        used_fraction=used,
        used_tokens=used_tokens,
        holds_state_blocks=state_blocks,
        counts_tokens=in_tokens,
    )


def _sum_if_all(values: list[float | None] | list[int | None]) -> float | None:
    """Sum when every engine says its figure: part of a capacity is no capacity."""
    known = [value for value in values if value is not None]
    return sum(known) if values and len(known) == len(values) else None


def _used_fraction(engines: list[EngineScrape]) -> float | None:
    """Mean use weighted by capacity, or the plain mean where one does not say it; None unless all say their use."""
    uses = [_use(engine) for engine in engines]
    weights = [engine.pool.capacity_tokens if engine.pool else None for engine in engines]
    if not all(weights):
        weights = [1] * len(engines)
    weighed = [(use, weight) for use, weight in zip(uses, weights, strict=True) if use is not None and weight]
    if not weighed or len(weighed) < len(uses):
        return None
    whole = sum(weight for _, weight in weighed)
    return min(1.0, sum(use * weight for use, weight in weighed) / whole)


def _use(engine: EngineScrape) -> float | None:
    """0 to 1; the second name is that of old versions."""
    use = engine.gauges.get("kv_usage")
    return engine.gauges.get("old_kv_usage") if use is None else use


def _agreed(answers: list[bool | None], one_is_enough: bool) -> bool | None:
    """``one_is_enough`` when any engine says so, the opposite when all say that, else None."""
    if one_is_enough in answers:
        return one_is_enough
    return None if not answers or None in answers else not one_is_enough
