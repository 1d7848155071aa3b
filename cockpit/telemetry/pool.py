"""The KV pool of all engines together: capacity, requests at full length, use."""

from __future__ import annotations

from cockpit.telemetry.frame import Kv
from cockpit.telemetry.scrape import EngineScrape, Scrape


def kv(newest: Scrape, log_capacity_tokens: int | None = None) -> Kv:
    """The pool as the newest scrape shows it.

    Capacity is the sum of ``kv_cache_size_tokens`` over the engines, each of which holds a pool of its own; where
    a version does not label it, ``log_capacity_tokens`` (the boot log's figure for the whole server) stands in.
    """
    engines = list(newest.engines.values())
    labelled = _sum_if_all([engine.pool.capacity_tokens if engine.pool else None for engine in engines])
    capacity = log_capacity_tokens if labelled is None else int(labelled)
    concurrency = _sum_if_all([engine.pool.max_concurrency if engine.pool else None for engine in engines])
    used = _used_fraction(engines)
    state_blocks = _holds_state_blocks(engines)
    used_tokens = None
    if state_blocks is False and capacity is not None and used is not None:
        used_tokens = round(used * capacity)
    return Kv(
        capacity_tokens=capacity,
        max_concurrency=concurrency,
        used_fraction=used,
        used_tokens=used_tokens,
        holds_state_blocks=state_blocks,
    )


def is_from_log(newest: Scrape, pool: Kv) -> bool:
    """Whether the capacity is the log's figure rather than the server's label."""
    labelled = all(e.pool is not None and e.pool.capacity_tokens is not None for e in newest.engines.values())
    return pool.capacity_tokens is not None and not (labelled and newest.engines)


def _sum_if_all(values: list[float | None] | list[int | None]) -> float | None:
    """Sum when every engine says its figure: part of a capacity is no capacity."""
    known = [value for value in values if value is not None]
    return sum(known) if values and len(known) == len(values) else None


def _used_fraction(engines: list[EngineScrape]) -> float | None:
    """Mean use weighted by capacity, or the plain mean where an engine does not say its capacity."""
    uses = [_use(engine) for engine in engines]
    weights = [engine.pool.capacity_tokens if engine.pool else None for engine in engines]
    if not all(weights):
        weights = [1] * len(engines)
    weighed = [(use, weight) for use, weight in zip(uses, weights, strict=True) if use is not None and weight]
    if not weighed:
        return None
    whole = sum(weight for _, weight in weighed)
    return min(1.0, sum(use * weight for use, weight in weighed) / whole)


def _use(engine: EngineScrape) -> float | None:
    """0 to 1; the second name is that of old versions."""
    use = engine.gauges.get("kv_usage")
    return engine.gauges.get("old_kv_usage") if use is None else use


def _holds_state_blocks(engines: list[EngineScrape]) -> bool | None:
    """True when any engine's pool holds state blocks, False when all say they hold none."""
    answers = [engine.pool.holds_state_blocks if engine.pool else None for engine in engines]
    if any(answers):
        return True
    return False if answers and all(answer is False for answer in answers) else None
