"""All figures that one window of scrapes gives, with what the reader should know about them."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from cockpit.telemetry import pool, rates
from cockpit.telemetry.frame import (
    Kv,
    Latencies,
    PrefixCache,
    Requests,
    SleepState,
    SpeculativeRates,
    Throughput,
    Totals,
)
from cockpit.telemetry.rates import Change, Window
from cockpit.telemetry.scrape import Scrape

NO_FIGURES = "The server publishes no vLLM figures: it was started with --disable-log-stats, or it is not a vLLM."
RESTARTED = "The server restarted (its counters began anew): rates start over."
BY_CACHED = "This vLLM does not count prompt tokens by source: prefill is prompt tokens less cached ones."
BY_HITS = "This vLLM does not count cached prompt tokens: prefill is prompt tokens less prefix-cache hits."
INCLUDING_CACHED = "Prefill is incl. cached: this vLLM does not tell cached prompt tokens from computed ones."
FROM_LOG = "KV capacity is the boot log's figure: this vLLM does not publish it."
STATE_BLOCKS = "Hybrid model: state blocks share the KV pool, so its use is a share of the pool, not tokens."
SLEEPING = "The engine sleeps ({}): it answers no requests until it is woken."
BEYOND = "The {} p95 lies beyond the last bucket: it is at least the figure shown."

_BASIS_NOTES = {
    "prompt_minus_cached": BY_CACHED,
    "prompt_minus_hits": BY_HITS,
    "including_cached": INCLUDING_CACHED,
}
_SLEEP_WORDS = {"weights_offloaded": "weights offloaded", "discard_all": "weights and KV discarded"}


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a Frame that come from /metrics; all unknown by default."""

    window_seconds: float | None = None
    engines: int | None = None
    throughput: Throughput = Throughput()
    kv: Kv = Kv()
    requests: Requests = Requests()
    latency: Latencies = Latencies()
    prefix_cache: PrefixCache = PrefixCache()
    speculative: SpeculativeRates | None = None
    sleep_state: SleepState | None = None
    totals: Totals = Totals()
    notes: tuple[str, ...] = ()


def figures(window: Window, seconds: float, log_capacity_tokens: int | None = None) -> Figures:
    """Figures of a window; rates and latencies are None until it holds two scrapes.

    ``seconds`` is the wanted length of the window: a restart is mentioned for that long.
    """
    newest = window.newest
    if newest is None:
        return Figures()
    if not newest.engines:
        return Figures(notes=(NO_FIGURES,))
    change = window.change
    made = Figures(
        window_seconds=None if change is None else change.seconds,
        engines=len(newest.engines),
        throughput=Throughput() if change is None else rates.throughput(change),
        kv=pool.kv(newest, log_capacity_tokens),
        requests=_requests(newest, change),
        latency=Latencies() if change is None else rates.latencies(change),
        prefix_cache=rates.prefix_cache(newest, change),
        speculative=rates.speculative(newest, change),
        sleep_state=_sleep_state(newest),
        totals=rates.totals(newest),
    )
    restarted_lately = window.restarted_clock is not None and newest.clock - window.restarted_clock < seconds
    return _with_notes(made, newest, restarted_lately)


def _requests(newest: Scrape, change: Change | None) -> Requests:
    running, waiting = newest.gauge("running"), newest.gauge("waiting")
    return Requests(
        running=None if running is None else round(running),
        waiting=None if waiting is None else round(waiting),
        preemptions_per_second=None if change is None else change.rate(change.counter("preemptions")),
    )


def _sleep_state(newest: Scrape) -> SleepState | None:
    """The state of the deepest sleeper, None where no engine says one."""
    states = {engine.sleep_state for engine in newest.engines.values()}
    order: tuple[SleepState, ...] = ("discard_all", "weights_offloaded", "awake")
    return next((state for state in order if state in states), None)


def _with_notes(made: Figures, newest: Scrape, restarted_lately: bool) -> Figures:
    """The figures with one sentence for each thing that is not as one would expect."""
    notes: list[str] = []
    if restarted_lately:
        notes.append(RESTARTED)
    if made.sleep_state in _SLEEP_WORDS:
        notes.append(SLEEPING.format(_SLEEP_WORDS[made.sleep_state]))
    if made.throughput.prefill_basis in _BASIS_NOTES:
        notes.append(_BASIS_NOTES[made.throughput.prefill_basis])
    if pool.is_from_log(newest, made.kv):
        notes.append(FROM_LOG)
    if made.kv.holds_state_blocks:
        notes.append(STATE_BLOCKS)
    latency = made.latency
    for label, part in (
        ("TTFT", latency.ttft_seconds),
        ("inter-token", latency.inter_token_seconds),
        ("queue", latency.queue_seconds),
    ):
        if part.p95_is_lower_bound:
            notes.append(BEYOND.format(label))
    return replace(made, notes=tuple(notes))
