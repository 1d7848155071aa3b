"""What happened in a window of scrapes: pure functions from its growth to rates."""

from __future__ import annotations

from collections.abc import Callable

from cockpit.telemetry.frame import (
    Latencies,
    Latency,
    PrefillBasis,
    PrefixCache,
    SpeculativeRates,
    Throughput,
    Totals,
)
from cockpit.telemetry.histogram import Histogram, mean, quantile
from cockpit.telemetry.scrape import Scrape
from cockpit.telemetry.uncredited import COMPUTED
from cockpit.telemetry.window import Change, Window

Read = Callable[[str], float | None]
"""A counter by its key: since the server began, or its growth in a window."""


def throughput(window: Window) -> Throughput:
    """Prefill (computed and cached), decode, and one request's speed in both; unknown until two scrapes exist."""
    change = window.change
    if change is None:
        return Throughput()
    basis, computed, cached = _prompt_growth(change)
    adjusted = window.uncredited[-1].adjusted - window.uncredited[0].adjusted
    by_log = _context_growth(window)
    if by_log is not None:
        basis, computed, adjusted = "iteration_log", by_log, 0.0
    waiting = window.uncredited[-1].tokens
    return Throughput(
        prefill_tokens_per_second=change.rate(None if computed is None else max(0.0, computed + adjusted)),
        cached_prefill_tokens_per_second=change.rate(cached),
        decode_tokens_per_second=change.rate(change.counter("generation")),
        prefill_tokens_per_second_per_request=_ratio(
            change.counter("request_prefill_tokens"), change.counter("request_prefill_seconds")
        ),
        decode_tokens_per_second_per_request=_stream_speed(change),
        prefill_basis=basis,
        prefill_is_estimate=computed is not None and abs(adjusted) >= 1.0,
        prefill_in_progress_tokens=round(waiting) if computed is not None and waiting > 0 else None,
    )


def _context_growth(window: Window) -> float | None:
    """Context tokens by the log's iteration details; None where the log has none."""
    old, new = window.scrapes[0].context_tokens, window.scrapes[-1].context_tokens
    return None if old is None or new is None or new < old else new - old


def _stream_speed(change: Change) -> float | None:
    """Tokens after each first one, over the seconds that streams spent decoding: accepted drafts count too."""
    generated, first = change.counter("generation"), change.counter("first_tokens")
    seconds = change.counter("decode_seconds")
    if seconds is None:
        seconds = change.counter("old_decode_seconds")
    if generated is None or first is None or not seconds or "denoising_steps" in change.keys:
        # A diffusion model's first output holds a whole block of tokens, and nobody counts how many.
        return None
    return max(0.0, generated - first) / seconds


def _prompt_growth(change: Change) -> tuple[PrefillBasis | None, float | None, float | None]:
    """How prompt tokens split into computed and cached ones, by the best counters that this vLLM has."""
    computed = change.counter(COMPUTED)
    if computed is not None:
        others = (key for key in change.keys if key.startswith("prompt_from:") and key != COMPUTED)
        return "by_source", computed, change.counters(others)
    prompt = change.counter("prompt")
    if prompt is None:
        return None, None, None
    # Hits are counted when a request is scheduled and prompts at its first token, so a window can hold more hits.
    if (cached := change.counter("prompt_cached")) is not None:
        return "prompt_minus_cached", max(0.0, prompt - cached), cached
    if (cached := change.counter("prefix_hits")) is not None:
        return "prompt_minus_hits", max(0.0, prompt - cached), cached
    return "including_cached", prompt, None


def latencies(change: Change) -> Latencies:
    """Mean and 95th percentile of the window, in seconds; None where nothing was observed."""
    return Latencies(
        ttft_seconds=_latency(change.histogram("ttft")),
        inter_token_seconds=_latency(change.histogram("inter_token", "old_inter_token")),
        queue_seconds=_latency(change.histogram("queue")),
    )


def _latency(observed: Histogram | None) -> Latency:
    if observed is None:
        return Latency()
    p95 = quantile(observed, 0.95)
    return Latency(
        mean=mean(observed),
        p95=None if p95 is None else p95.value,
        p95_is_lower_bound=p95 is not None and p95.is_lower_bound,
        p95_between=None if p95 is None else p95.between,
    )


def prefix_cache(newest: Scrape, change: Change | None) -> PrefixCache:
    """Hit share of the window and since start, by prompt tokens where their source is counted, else by queries.

    Some versions count a query, and its hits, again at every step in which a waiting request finds no room. The
    oldest count blocks, which gives the same shares.
    """
    blocks = {engine.pool.block_tokens for engine in newest.engines.values() if engine.pool is not None}
    in_window = (lambda _: None) if change is None else change.counter
    return PrefixCache(
        hit_fraction_window=None if change is None else _hit_share(change.counter),
        hit_fraction_lifetime=_hit_share(newest.counter),
        block_tokens=max((size for size in blocks if size is not None), default=None),
        external_hit_fraction_window=_external_share(in_window) if newest.counter("external_queries") else None,
        multimodal_hit_fraction_window=_ratio(in_window("mm_hits"), in_window("mm_queries")),
    )


def _hit_share(read: Read) -> float | None:
    """Hits of the server's own cache, of all prompt tokens: what a KV connector brought is no hit of it."""
    hit = read("prompt_from:local_cache_hit")
    return _first_ratio(
        (hit, _prompt(read)),
        (read("prefix_hits"), read("prefix_queries")),
        (read("old_prefix_hits"), read("old_prefix_queries")),
    )


def _external_share(read: Read) -> float | None:
    """Prompt tokens that came through a KV connector, of all; else its hits of the queries that it got."""
    brought = read("prompt_from:external_kv_transfer")
    return _first_ratio((brought, _prompt(read)), (read("external_hits"), read("external_queries")))


def _prompt(read: Read) -> float | None:
    """Prompt tokens from all sources; None unless computed and cached ones are told apart."""
    computed, hit = read(COMPUTED), read("prompt_from:local_cache_hit")
    if computed is None or hit is None:
        return None
    return computed + hit + (read("prompt_from:external_kv_transfer") or 0.0)


def speculative(newest: Scrape, change: Change | None) -> SpeculativeRates | None:
    """Draft acceptance of the window: length 1 + accepted / drafts; None where the server drafts nothing at all."""
    if newest.counter("drafts") is None:
        return None
    if change is None:
        return SpeculativeRates()
    drafts, accepted = change.counter("drafts"), change.counter("accepted")
    per_draft = _ratio(accepted, drafts)
    return SpeculativeRates(
        acceptance_length=None if per_draft is None else 1.0 + per_draft,
        acceptance_fraction=_ratio(accepted, change.counter("draft_tokens")),
        acceptance_per_position=_per_position(change, drafts),
    )


def _per_position(change: Change, drafts: float | None) -> tuple[float, ...]:
    """Accepted share at position 0, 1, … as long as the positions are without a gap."""
    shares: list[float] = []
    while (key := f"accepted_at:{len(shares)}") in change.keys:
        share = _ratio(change.counter(key), drafts)
        if share is None:
            break
        shares.append(share)
    return tuple(shares)


def totals(newest: Scrape) -> Totals:
    """Tokens and requests since the server began."""
    computed, cached = _prompt_totals(newest)
    return Totals(
        prompt_computed_tokens=_whole(computed),
        prompt_cached_tokens=_whole(cached),
        generation_tokens=_whole(newest.counter("generation")),
        requests_finished=_whole(newest.counter("finished")),
        preemptions=_whole(newest.counter("preemptions")),
    )


def _prompt_totals(newest: Scrape) -> tuple[float | None, float | None]:
    """Computed and cached prompt tokens; computed is None where the two cannot be told apart."""
    computed = newest.counter(COMPUTED)
    if computed is not None:
        others = [key for key in newest.counter_keys("prompt_from:") if key != COMPUTED]
        return computed, sum(newest.counter(key) or 0.0 for key in others)
    prompt = newest.counter("prompt")
    cached = newest.counter("prompt_cached")
    if cached is None:
        cached = newest.counter("prefix_hits")
    if prompt is None or cached is None:
        return None, cached
    return max(0.0, prompt - cached), cached


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _ratio(part: float | None, whole: float | None) -> float | None:
    """part / whole; None when either is unknown or the whole is zero."""
    return None if part is None or not whole else part / whole


def _first_ratio(*pairs: tuple[float | None, float | None]) -> float | None:
    """The first ratio that is known, at most 1."""
    for part, whole in pairs:
        if (ratio := _ratio(part, whole)) is not None:
            return min(1.0, ratio)
    return None
