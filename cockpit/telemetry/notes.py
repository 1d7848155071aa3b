"""What the reader should know about the figures: a table of sentences, each with the moment when it holds."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

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
from cockpit.telemetry.pool import has_none
from cockpit.telemetry.scrape import Scrape
from cockpit.telemetry.window import Window

NO_FIGURES = "The server publishes no vLLM figures: it was started with --disable-log-stats, or it is not a vLLM."
NO_FIGURES_OF_VLLM = "This vLLM publishes no figures: it was started with --disable-log-stats."
NO_FIGURES_OF_OTHERS = "This is {}, not vLLM: its figures mean other things, and none of them are shown."
RESTARTED = "The server restarted (its counters began anew): rates start over."
BY_CACHED = "This vLLM does not count prompt tokens by source: prefill is prompt tokens less cached ones."
BY_HITS = "This vLLM does not count cached prompt tokens: prefill is prompt tokens less prefix-cache hits."
INCLUDING_CACHED = "Prefill is incl. cached: this vLLM does not tell cached prompt tokens from computed ones."
FROM_LOG = "KV capacity is the boot log's figure: this vLLM does not publish it."
FROM_CONCURRENCY = (
    "KV capacity is requests times their length: the log's token figure is wrong for this hybrid model."
)
STATE_BLOCKS = "Hybrid model: state blocks share the KV pool, so its use is a share of the pool, not tokens."
SHARED_POOL = (
    "Not all layers keep every token (sliding windows, cross-attention): use is a share of the pool, not tokens."
)
NO_POOL = "This model keeps no KV cache."
POOLING = "This server generates nothing (it embeds, classifies or scores): TTFT is the time until the whole answer."
DIFFUSION = "A diffusion model: each output holds a block of tokens, and the time per token is that per output."
MIXED = "Figures of several models stand under one engine: requests and rates are their sum, the pool is not known."
CAME = "Engine {} came to the figures: rates start over."
BY_TURNS = "Several servers answer at this address by turns: give the address of one, or rates are not to be had."
SLEEPING = "The engine sleeps ({}): it answers no requests until it is woken."
BEYOND = "The {} p95 lies beyond the last bucket: it is more than the figure shown."
IN_PROGRESS = (
    "A long prefill is in progress: {:,} tokens so far, by the KV pool's growth, as no counter shows it yet."
)
ESTIMATED = "Prefill is an estimate (≈): it holds a long prefill, spread over the time that its tokens took."
PREEMPTED = "Requests were preempted: what they compute anew is in no counter, so prefill is more than is shown."
BEGAN_BEFORE = "Prompts took longer than the window until their first token: all of their tokens count in it."
ENGINES = "{} engines: rates, requests and capacity are their sum, use is weighted by capacity."
ENGINE_RESTARTED = "Engine {} began anew (its counters fell): rates start over."
LOST = "Engine {} is no longer among the figures: they are those of the others."
API_SERVERS = (
    "The figures name no process (several API servers share them): a restart shows only as a falling counter."
)
STUCK = "Nothing has moved for {:.0f} s while {} run: the engine may hang."
STUCK_SECONDS = 30.0
NO_DRAFT = "Speculation was asked for, and nothing is drafted: decoding runs at its plain speed."
POOR_DRAFT = "Only {:.0%} of draft tokens are accepted: without speculation it would be faster."
SKIPPED = "{} of /metrics could not be read."

_ENOUGH_TOKENS = 500
"""Generated tokens, or drafted ones, before anything is said about drafts."""
_BASIS = {
    "prompt_minus_cached": BY_CACHED,
    "prompt_minus_hits": BY_HITS,
    "including_cached": INCLUDING_CACHED,
}
_CAPACITY = {"log": FROM_LOG, "log_concurrency": FROM_CONCURRENCY}
_SLEEP = {
    "paused": "paused, its weights are in place",
    "weights_offloaded": "weights offloaded",
    "discard_all": "weights and KV discarded",
}


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a Frame that come from /metrics; all unknown by default."""

    window_seconds: float | None = None
    model: str | None = None
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


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """What the sentences are about."""

    made: Figures
    window: Window
    newest: Scrape
    seconds: float
    """The wanted length of the window: a restart is mentioned for that long."""
    expects_draft: bool = False


def counted(number: int, what: str) -> str:
    """``1 line``, ``2 lines``."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def no_figures(other_server: str | None) -> str:
    """Why a server that answers publishes no vLLM figures; ``other_server`` is what serves, where that is known."""
    if other_server is None:
        return NO_FIGURES
    return NO_FIGURES_OF_VLLM if other_server == "vLLM" else NO_FIGURES_OF_OTHERS.format(other_server)


def notes_of(subject: Subject) -> tuple[str, ...]:
    """One sentence for each thing that is not as one would expect."""
    return tuple(sentence for rule in _RULES for sentence in rule(subject))


def _server(subject: Subject) -> list[str]:
    window, newest, found = subject.window, subject.newest, []
    if window.restarted_clock is not None and newest.clock - window.restarted_clock < subject.seconds:
        restarted = [BY_TURNS if window.by_turns else RESTARTED]
        found += [ENGINE_RESTARTED.format(engine[:60]) for engine in window.restarted_engines] or restarted
    if window.came_clock is not None and newest.clock - window.came_clock < subject.seconds:
        found += [CAME.format(engine[:60]) for engine in window.came_engines]
    found += [LOST.format(engine[:60]) for engine in window.lost_engines]
    if subject.made.sleep_state in _SLEEP:
        found.append(SLEEPING.format(_SLEEP[subject.made.sleep_state]))
    still = 0.0 if window.moved_clock is None else newest.clock - window.moved_clock
    running = subject.made.requests.running
    if running and still >= STUCK_SECONDS:
        found.append(STUCK.format(still, counted(running, "request")))
    if len(newest.engines) > 1:
        found.append(ENGINES.format(len(newest.engines)))
    if newest.mixes_models:
        found.append(MIXED)
    if newest.process_started_at is None and not any(engine.created_at for engine in newest.engines.values()):
        found.append(API_SERVERS)
    if newest.skipped_lines:
        found.append(SKIPPED.format(counted(newest.skipped_lines, "line")))
    return found


def _prefill(subject: Subject) -> list[str]:
    speed, found = subject.made.throughput, []
    if speed.prefill_basis in _BASIS:
        found.append(_BASIS[speed.prefill_basis])
    if speed.prefill_in_progress_tokens is not None:
        found.append(IN_PROGRESS.format(speed.prefill_in_progress_tokens))
    elif speed.prefill_is_estimate:
        found.append(ESTIMATED)
    if subject.made.requests.preemptions_per_second and speed.prefill_basis not in {None, "iteration_log"}:
        found.append(PREEMPTED)
    if subject.newest.counter("first_tokens") and subject.newest.counter("generation") == 0:
        found.append(POOLING)
    if subject.newest.counter("denoising_steps") is not None:
        found.append(DIFFUSION)
    ttft, window = subject.made.latency.ttft_seconds.mean, subject.made.window_seconds
    if ttft is not None and window is not None and ttft > window and not speed.prefill_is_estimate:
        found.append(BEGAN_BEFORE)
    return found


def _pool(subject: Subject) -> list[str]:
    kv = subject.made.kv
    if has_none(subject.newest):
        return [NO_POOL]
    found = [_CAPACITY[kv.capacity_source]] if kv.capacity_source in _CAPACITY else []
    if kv.holds_state_blocks:
        found.append(STATE_BLOCKS)
    elif kv.counts_tokens is False:
        found.append(SHARED_POOL)
    return found


def _latency(subject: Subject) -> list[str]:
    latency = subject.made.latency
    parts = (("TTFT", latency.ttft_seconds), ("inter-token", latency.inter_token_seconds))
    return [
        BEYOND.format(label) for label, part in (*parts, ("queue", latency.queue_seconds)) if part.p95_is_lower_bound
    ]


def _draft(subject: Subject) -> list[str]:
    newest = subject.newest
    generated = newest.counter("generation") or 0.0
    drafted, accepted = newest.counter("draft_tokens") or 0.0, newest.counter("accepted")
    if not drafted:
        return [NO_DRAFT] if subject.expects_draft and generated > _ENOUGH_TOKENS else []
    if accepted is not None and drafted > _ENOUGH_TOKENS and accepted < 0.1 * drafted:
        return [POOR_DRAFT.format(accepted / drafted)]
    return []


_RULES: tuple[Callable[[Subject], list[str]], ...] = (_server, _prefill, _pool, _latency, _draft)
