"""Figures as the words that every surface shows: an estimate, a bound and a share never look like a count."""

from __future__ import annotations

from cockpit import units
from cockpit.telemetry.frame import Int8, Kv, Latency, PrefixCache, SpeculativeRates, Throughput

_SMALL_BLOCK_TOKENS = 128
"""Blocks up to this size surprise nobody."""


def prefill_speed(speed: Throughput, cells: int | None = None) -> str:
    """Prompt tokens a second: ``≈`` is an estimate, ``≤`` one with cached tokens in it; in so many cells at most."""
    mark = "≈ " if speed.prefill_is_estimate else "≤ " if speed.prefill_basis == "including_cached" else ""
    return mark + rate(speed.prefill_tokens_per_second, None if cells is None else cells - len(mark))


def rate(per_second: float | None, cells: int | None = None) -> str:
    """Tokens a second, in so many cells at most."""
    text = units.rate(per_second)
    return text if cells is None or len(text) <= cells else units.short(per_second, cells)


def prefill_kind(speed: Throughput) -> str:
    """What the prefill figure counts."""
    return "incl. cached" if speed.prefill_basis == "including_cached" else "computed"


def latency(part: Latency) -> str:
    """Mean and 95th percentile; one beyond the last bucket reads ``> 10 s``."""
    beyond = "> " if part.p95_is_lower_bound else ""
    return f"{units.seconds(part.mean)} (p95 {beyond}{units.seconds(part.p95)})"


def between_tokens(part: Latency, drafts: SpeculativeRates | None) -> str:
    """The inter-token latency; with drafts a step gives several tokens."""
    return f"per {'token' if drafts is None else 'step'} {latency(part)}"


def pool_amount(kv: Kv) -> str:
    """Tokens used of tokens there are; only those that there are, where not all layers keep every token."""
    if kv.holds_state_blocks or kv.counts_tokens is False:
        return f"of the pool, {units.tokens(kv.capacity_tokens)} tokens"
    return f"{units.tokens(kv.used_tokens)} / {units.tokens(kv.capacity_tokens)} tokens"


def prefix_hits(prefix: PrefixCache) -> str:
    """Hits of the window, the block where it is so large that short prefixes never hit, and other caches' hits."""
    text = f"hits {units.percent(prefix.hit_fraction_window)}"
    if prefix.block_tokens is not None and prefix.block_tokens > _SMALL_BLOCK_TOKENS:
        text += f" in blocks of {units.tokens(prefix.block_tokens)}"
    if prefix.external_hit_fraction_window is not None:
        text += f", {units.percent(prefix.external_hit_fraction_window)} by KV connector"
    if prefix.multimodal_hit_fraction_window is not None:
        text += f", images {units.percent(prefix.multimodal_hit_fraction_window)}"
    return text


def draft(rates: SpeculativeRates) -> str:
    """Tokens a step, share accepted, and the share at each position."""
    length = units.UNKNOWN if rates.acceptance_length is None else f"{rates.acceptance_length:.2f}"
    text = f"{length} tokens a step, {units.percent(rates.acceptance_fraction)} accepted"
    positions = " ".join(f"{share * 100:.0f}" for share in rates.acceptance_per_position)
    return f"{text} ({positions} % by position)" if positions else text


def int8(reading: Int8) -> str:
    """int8 activations that were asked for: proven, known not to be active and why, or neither."""
    if reading.active:
        return f"proven active ({reading.proof})"
    if reading.active is False:
        return f"requested, not active (why: {reading.proof})"
    return f"requested, not proven: {reading.proof}" if reading.proof else "requested, not proven"
