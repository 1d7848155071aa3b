"""The text of /metrics → Scrape: only the families that the cockpit shows, whatever the text holds.

Names and meanings are those of vllm/v1/metrics/loggers.py (0.26 to 0.33), with the names of older versions under
keys of their own, because versions in between publish both and nothing must be counted twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from math import inf, isfinite

from msgspec.structs import replace

from cockpit.telemetry.frame import SleepState
from cockpit.telemetry.histogram import from_buckets
from cockpit.telemetry.identify import server_of
from cockpit.telemetry.scrape import CachePool, EngineScrape, Scrape
from cockpit.telemetry.series import parse_series

MAX_LINE_CHARS = 4096
"""The longest real line (cache_config_info) has about 1,500; the parser's cost grows faster than a line."""
MAX_SAMPLES = 20_000
"""More than 100 engines' worth; a body that holds more is not a vLLM's."""
MAX_VALUE = 1e18
"""No figure of a server passes it in its lifetime; sums of such figures stay finite."""
MAX_NAME_CHARS = 200
"""Of a model's name."""

COUNTERS = {
    "vllm:prompt_tokens_total": "prompt",
    "vllm:prompt_tokens_cached_total": "prompt_cached",
    "vllm:generation_tokens_total": "generation",
    "vllm:num_preemptions_total": "preemptions",
    "vllm:request_success_total": "finished",
    "vllm:prefix_cache_queries_total": "prefix_queries",
    "vllm:prefix_cache_hits_total": "prefix_hits",
    "vllm:external_prefix_cache_queries_total": "external_queries",
    "vllm:external_prefix_cache_hits_total": "external_hits",
    "vllm:mm_cache_queries_total": "mm_queries",
    "vllm:mm_cache_hits_total": "mm_hits",
    "vllm:gpu_prefix_cache_queries_total": "old_prefix_queries",
    "vllm:gpu_prefix_cache_hits_total": "old_prefix_hits",
    "vllm:request_prefill_kv_computed_tokens_sum": "request_prefill_tokens",
    "vllm:request_prefill_time_seconds_sum": "request_prefill_seconds",
    "vllm:inter_token_latency_seconds_sum": "decode_seconds",
    "vllm:time_per_output_token_seconds_sum": "old_decode_seconds",
    "vllm:time_to_first_token_seconds_count": "first_tokens",
    "vllm:spec_decode_num_drafts_total": "drafts",
    "vllm:spec_decode_num_draft_tokens_total": "draft_tokens",
    "vllm:spec_decode_num_accepted_tokens_total": "accepted",
    "vllm:diffusion_num_denoising_steps_total": "denoising_steps",
}
LABELLED_COUNTERS = {
    "vllm:prompt_tokens_by_source_total": ("prompt_from:", "source"),
    "vllm:spec_decode_num_accepted_tokens_per_pos_total": ("accepted_at:", "position"),
}
GAUGES = {
    "vllm:num_requests_running": "running",
    "vllm:num_requests_waiting": "waiting",
}
SHARES = {
    "vllm:kv_cache_usage_perc": "kv_usage",
    "vllm:gpu_cache_usage_perc": "old_kv_usage",
}
"""Shares of 1: two of one engine do not add up."""
_WHOLE = 1.001
"""What a share may reach by rounding; more is no share, as of a server that gives percent."""
HISTOGRAMS = {
    "vllm:time_to_first_token_seconds": "ttft",
    "vllm:inter_token_latency_seconds": "inter_token",
    "vllm:time_per_output_token_seconds": "old_inter_token",
    "vllm:request_queue_time_seconds": "queue",
}
CACHE_CONFIG = "vllm:cache_config_info"
SLEEP = "vllm:engine_sleep_state"
CREATED = "vllm:generation_tokens_created"
PROCESS_START = "process_start_time_seconds"
LEADER = "vllm:num_requests_running"
"""One series an engine: it names the model, and what else tells engines apart where a proxy adds labels (a pod)."""

_SERIES = re.compile(r'[a-zA-Z_:][\w:]*(?:[ \t]*\{[^"}]*(?:"[^"\\]*(?:\\.[^"\\]*)*"[^"}]*)*\})?', re.ASCII)
"""A sample line up to its value: a brace may stand in a quoted label, and again in an exemplar after the value."""
_BUCKETS = {f"{name}_bucket": key for name, key in HISTOGRAMS.items()}
_SUMS = {f"{name}_sum": key for name, key in HISTOGRAMS.items()}
_WANTED = frozenset(
    (*COUNTERS, *LABELLED_COUNTERS, *GAUGES, *SHARES, *_BUCKETS, *_SUMS, CACHE_CONFIG, SLEEP, CREATED, PROCESS_START)
)
_SLEEP_STATES: dict[str, SleepState] = {
    "awake": "awake",
    "weights_offloaded": "weights_offloaded",
    "discard_all": "discard_all",
}

Labels = Mapping[str, str]
Sample = tuple[str, Labels, float]


def parse_scrape(text: str, at: float, clock: float | None = None) -> Scrape:
    """What a /metrics text says; ``at`` is Unix time, ``clock`` monotonic seconds (``at`` when not given).

    Never raises: unreadable lines, NaN, infinite, impossibly large and negative values are left out (and the
    unreadable ones counted), missing families are missing keys.
    """
    samples, skipped = _samples(text)
    known = [sample for sample in samples if 0 <= sample[2] <= MAX_VALUE]
    leaders = [labels for name, labels, _ in samples if name == LEADER]
    replica = sorted({label for labels in leaders for label in labels} - {"engine", "model_name"})
    drafts: dict[str, _Draft] = {}
    for name, labels, value in known:
        if name != PROCESS_START:
            engine = " ".join([labels.get("engine", "0"), *(labels.get(label, "") for label in replica)])
            drafts.setdefault(engine, _Draft()).add(name, labels, value)
    mixed = _mixed(drafts.values())
    _share_blocks(drafts)
    return Scrape(
        at=at,
        clock=at if clock is None else clock,
        engines={engine: draft.frozen() for engine, draft in sorted(drafts.items())},
        models=tuple(sorted({labels.get("model_name", "")[:MAX_NAME_CHARS] for labels in leaders} - {""})),
        mixes_models=mixed,
        process_started_at=_only_start({value for name, _, value in known if name == PROCESS_START}),
        skipped_lines=skipped,
        other_server=None if drafts else server_of(text),
    )


def _mixed(drafts: Iterable[_Draft]) -> bool:
    """Whether any engine has figures of several models, as pages put together have; then its pool is not known."""
    mixed = [draft for draft in drafts if len(draft.models) > 1]
    for draft in mixed:
        draft.pool = None
        for key in SHARES.values():
            draft.gauges.pop(key, None)
    return bool(mixed)


def _only_start(starts: set[float]) -> float | None:
    """The process start; None of several, as behind a proxy that puts servers together: they begin one by one."""
    return starts.pop() if len(starts) == 1 else None


def _share_blocks(drafts: Mapping[str, _Draft]) -> None:
    """Give each engine its part of the blocks that its server counts together, by the requests that fit into each."""
    servers: dict[str, list[_Draft]] = {}
    for engine, draft in drafts.items():
        # All but the number of the rank tells servers apart.
        servers.setdefault(engine.partition(" ")[2], []).append(draft)
    for together in servers.values():
        pools = [draft.pool for draft in together if draft.pool is not None]
        sizes = [pool.max_concurrency or 1.0 for pool in pools]
        for draft in together if len(pools) > 1 else ():
            if draft.pool is not None and draft.pool.blocks is not None:
                own = draft.pool.blocks * (draft.pool.max_concurrency or 1.0) / sum(sizes)
                draft.pool = replace(draft.pool, blocks=own, is_exact=False)


def _samples(text: str) -> tuple[list[Sample], int]:
    """Every wanted series with its value, the last where one stands twice; and how many lines are unreadable."""
    found: dict[str, Sample] = {}
    skipped = 0
    for line in _wanted_lines(text):
        series = None if len(line) > MAX_LINE_CHARS else _SERIES.match(line)
        sample = None if series is None else _sample(series[0], line[series.end() :])
        if series is None or sample is None:
            skipped += 1
        else:
            found[series[0]] = sample
    return list(found.values()), skipped


def _wanted_lines(text: str) -> Iterator[str]:
    """Sample lines of the families that are used, at most MAX_SAMPLES; a last line without its end is dropped."""
    found = 0
    for raw in text.split("\n")[:-1]:
        # prometheus_client itself writes OpenMetrics so, as do exporters that know no colons.
        line = f"vllm:{raw[5:]}" if raw.startswith("vllm_") else raw
        name = line.partition("{")[0]
        if name not in _WANTED and name.partition(" ")[0] not in _WANTED:
            continue
        yield line
        found += 1
        if found >= MAX_SAMPLES:
            return


def _sample(series: str, rest: str) -> Sample | None:
    """One sample of the two parts of its line; None when it cannot be read. ``rest`` may have a time, an exemplar."""
    parsed, fields = _series(series), rest.split(maxsplit=1)
    if parsed is None or not fields or "_" in fields[0]:
        return None
    try:
        return (*parsed, float(fields[0]))
    except ValueError:
        return None


@lru_cache(maxsize=8192)
def _series(series: str) -> tuple[str, Labels] | None:
    """Name and labels of the part before a sample's value; None when it cannot be read.

    A server repeats the same series every second with new values, so each is parsed once and then remembered.
    """
    return parse_series(series)


class _Draft:
    """One engine's figures while its lines are read."""

    def __init__(self) -> None:
        self.counters: dict[str, float] = {}
        self.gauges: dict[str, float] = {}
        self.buckets: dict[str, dict[float, float]] = {}
        self.sums: dict[str, float] = {}
        self.models: set[str] = set()
        self.pool: CachePool | None = None
        self.sleep_state: SleepState | None = None
        self.created_at: float | None = None

    def add(self, name: str, labels: Labels, value: float) -> None:
        """Take one sample in; series that differ in labels which nobody shows are summed."""
        if name in COUNTERS:
            _increase(self.counters, COUNTERS[name], value)
        if name in _SUMS:
            _increase(self.sums, _SUMS[name], value)
        elif name in LABELLED_COUNTERS:
            prefix, label = LABELLED_COUNTERS[name]
            _increase(self.counters, prefix + labels.get(label, ""), value)
        elif name in SHARES and value <= _WHOLE:
            self.gauges[SHARES[name]] = max(value, self.gauges.get(SHARES[name], 0.0))
        elif name in GAUGES:
            if name == LEADER:
                self.models.add(labels.get("model_name", ""))
            _increase(self.gauges, GAUGES[name], value)
        elif name in _BUCKETS:
            self._add_bucket(_BUCKETS[name], labels.get("le", ""), value)
        elif name == CACHE_CONFIG:
            self.pool = _pool(labels)
        elif name == CREATED:
            self.created_at = value if self.created_at is None else min(value, self.created_at)
        elif name == SLEEP:
            self._add_sleep(_SLEEP_STATES.get(labels.get("sleep_state", "")), value > 0)

    def _add_sleep(self, state: SleepState | None, holds: bool) -> None:
        """Not awake and in neither state of sleep is level 0: AsyncLLM.sleep and release_kv_cache_memory set that."""
        if holds:
            self.sleep_state = state
        elif state == "awake" and self.sleep_state is None:
            self.sleep_state = "paused"

    def _add_bucket(self, key: str, bound_text: str, value: float) -> None:
        bound = _number(bound_text)
        if bound is not None:
            by_bound = self.buckets.setdefault(key, {})
            by_bound[bound] = by_bound.get(bound, 0.0) + value

    def frozen(self) -> EngineScrape:
        """The engine's figures; histograms that lack their sum or their +Inf bucket are left out."""
        histograms = {
            key: histogram
            for key, by_bound in self.buckets.items()
            if (histogram := from_buckets(by_bound, self.sums.get(key))) is not None
        }
        return EngineScrape(
            counters=self.counters,
            gauges=self.gauges,
            histograms=histograms,
            pool=self.pool,
            sleep_state=self.sleep_state,
            created_at=self.created_at,
        )


def _increase(into: dict[str, float], key: str, value: float) -> None:
    into[key] = into.get(key, 0.0) + value


def _number(text: str) -> float | None:
    """A label's figure, infinity included; None for ``None``, NaN, a negative one and anything else."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value <= MAX_VALUE or value == inf else None


def _pool(labels: Labels) -> CachePool:
    """The pool that cache_config_info describes; the label text ``None`` is Python's None."""
    concurrency = _number(labels.get("kv_cache_max_concurrency", ""))
    attention_block = _count(labels, "effective_attention_block_size")
    return CachePool(
        capacity_tokens=_count(labels, "kv_cache_size_tokens"),
        max_concurrency=concurrency if concurrency is not None and isfinite(concurrency) else None,
        blocks=_count(labels, "num_gpu_blocks"),
        block_tokens=_count(labels, "block_size") if attention_block is None else attention_block,
        holds_state_blocks=_holds_state_blocks(labels),
    )


def _count(labels: Labels, name: str) -> int | None:
    """A label's whole number above zero; None where it has none."""
    value = _number(labels.get(name, ""))
    return int(value) if value is not None and isfinite(value) and value >= 1 else None


def _holds_state_blocks(labels: Labels) -> bool | None:
    """Whether recurrent state lives in the pool: mamba_block_size is set, or mamba_cache_mode is not none."""
    block_size = labels.get("mamba_block_size")
    mode = labels.get("mamba_cache_mode")
    if block_size is None and mode is None:
        return None
    return block_size not in {None, "None", "0"} or mode not in {None, "None", "none"}
