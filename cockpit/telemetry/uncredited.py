"""Prompt tokens that a running prefill has computed and no counter shows yet, by the growth of the KV pool.

vLLM credits a prompt once, at the request's first output (v1/metrics/stats.py, IterationStats.update_from_output), so
a prompt of 100,000 tokens reads as nothing for half a minute and then as one spike. The pool's use, which the
scheduler sends with every step, grows with each chunk of it.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from cockpit.telemetry.blocks import attention_tokens
from cockpit.telemetry.pool import LogPool, with_log
from cockpit.telemetry.scrape import EngineScrape, Scrape

LONG_PREFILL_TOKENS = 1024
"""Shorter prefills are left to the counters, which are exact: one lasts about a second on the slowest machines."""
COMPUTED = "prompt_from:local_compute"


class Balance(msgspec.Struct, frozen=True, kw_only=True):
    """One engine's account."""

    tokens: float = 0.0
    """A lower bound of what was computed and not credited, with the noise of half-filled blocks."""
    pending: float = 0.0
    """Growth that counts once the pool is seen growing a second time: a single jump may be anything."""
    owed: float = 0.0
    """Tokens of preempted requests, which the pool will hold again: no counter tells of them a second time."""


class Uncredited(msgspec.Struct, frozen=True, kw_only=True):
    """What is known at one scrape."""

    by_engine: Mapping[str, Balance] = {}
    tokens: float = 0.0
    """Those of long prefills alone."""
    adjusted: float = 0.0
    """Tokens by which computed ones were so far corrected: plus when they are seen growing, minus when credited."""


def follow(before: Uncredited, old: Scrape, new: Scrape, log: LogPool | None = None) -> Uncredited:
    """The state at ``new``, the scrape after ``old``; ``log`` is the pool of one engine by the boot log.

    An engine's balance grows by the pool's growth less what decoding, cached prefixes and credited prompts explain,
    and never falls below zero. Blocks that ended requests give back lower it too, so it never shows too much.
    """
    balances: dict[str, Balance] = {}
    credited = 0.0
    for name, engine in new.engines.items():
        grown = _unexplained(old.engines[name], engine, log)
        own_credit = _computed(engine) - _computed(old.engines[name])
        at_once = not before.by_engine and own_credit == 0
        balance = before.by_engine.get(name, Balance())
        if grown is not None:
            balance, grown = _with_preempted(balance, old.engines[name], engine, grown)
        balances[name] = _balance(balance, engine, grown, at_once)
        credited += own_credit
    tokens = sum(one.tokens for name, one in balances.items() if one.tokens > _noise(new.engines[name]))
    # Tokens of a prefill that was given up were computed all the same: what is shown never falls below zero.
    step = max(0.0, credited + tokens - before.tokens)
    return Uncredited(by_engine=balances, tokens=tokens, adjusted=before.adjusted + step - credited)


def _balance(before: Balance, engine: EngineScrape, grown: float | None, at_once: bool) -> Balance:
    """The account after growth of so many unexplained tokens; ``at_once`` needs no second growth to confirm it."""
    owed = before.owed
    if grown is None or engine.gauges.get("running", 0.0) == 0:
        return Balance(owed=owed if engine.gauges.get("waiting") else 0.0)
    if abs(grown) <= _half_filled(engine):
        return Balance(tokens=max(0.0, before.tokens + grown), pending=before.pending, owed=owed)
    if grown < 0:
        return Balance(tokens=max(0.0, before.tokens + grown), owed=owed)
    if before.pending or before.tokens or at_once:
        return Balance(tokens=before.tokens + before.pending + grown, owed=owed)
    return Balance(pending=grown, owed=owed)


def _with_preempted(before: Balance, old: EngineScrape, new: EngineScrape, grown: float) -> tuple[Balance, float]:
    """The account, and the growth without the part that is preempted requests coming back."""
    if grown < 0 and new.counters.get("preemptions", 0.0) > old.counters.get("preemptions", 0.0):
        return replace(before, owed=before.owed - grown), grown
    back = min(max(0.0, grown), before.owed)
    return replace(before, owed=before.owed - back), grown - back


def _unexplained(old: EngineScrape, new: EngineScrape, log: LogPool | None) -> float | None:
    """Growth of the pool in tokens that neither decoding nor cached nor credited prompts explain; None if unknown."""
    before, now = (_attention_tokens(engine, log) for engine in (old, new))
    if before is None or now is None:
        return None
    explained = sum(
        new.counters[key] - old.counters[key]
        for key in ("generation", "prefix_hits", "external_hits")
        if key in old.counters and key in new.counters
    )
    return now - before - explained - (_computed(new) - _computed(old))


def _attention_tokens(engine: EngineScrape, log: LogPool | None) -> float | None:
    """Tokens in the pool's attention blocks, at least; None if unknown."""
    use = engine.gauges.get("kv_usage", engine.gauges.get("old_kv_usage"))
    running = engine.gauges.get("running", 0.0)
    return None if use is None else attention_tokens(with_log(engine.pool, log), use, running)


def _half_filled(engine: EngineScrape) -> float:
    """Tokens by which the last block of each running request may mislead."""
    block = 0 if engine.pool is None or engine.pool.block_tokens is None else engine.pool.block_tokens
    return (engine.gauges.get("running", 0.0) + 1) * block


def _noise(engine: EngineScrape) -> float:
    """A balance up to this says nothing."""
    return max(LONG_PREFILL_TOKENS, _half_filled(engine))


def _computed(engine: EngineScrape) -> float:
    """Prompt tokens credited as computed so far, by the best counters there are."""
    computed = engine.counters.get(COMPUTED)
    if computed is not None:
        return computed
    cached = engine.counters.get("prompt_cached", engine.counters.get("prefix_hits", 0.0))
    return max(0.0, engine.counters.get("prompt", 0.0) - cached)
