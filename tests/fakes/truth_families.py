"""The metric families that a truth server publishes, with the names and labels of vLLM's."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from truth_modes import Mode, Truth

TTFT_BOUNDS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
INTER_TOKEN_BOUNDS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
QUEUE_BOUNDS = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0)

Working = tuple[list[str], Truth, float]
"""Labels of an engine, what it does, and for how many seconds it has done it."""


class TruthCollector:
    """The families of one moment; ``engines`` gives each engine that is there with the seconds since it began."""

    def __init__(self, mode: Mode, engines: dict[int, float], started_at: float, model: str = "m") -> None:
        self.mode, self.engines, self.started_at, self.model = mode, engines, started_at, model

    def collect(self) -> Iterator[Metric]:
        if self.mode.names.process_start:
            started = GaugeMetricFamily("process_start_time_seconds", "Start time of the process.")
            started.add_metric([], self.started_at)
            yield started
        if not self.mode.engines:
            return
        yield from self._gauges()
        yield from self._counters()
        yield from self._histograms()

    def _each(self) -> Iterator[Working]:
        return (([str(n), self.model], self.mode.engines[n], seconds) for n, seconds in self.engines.items())

    def _gauges(self) -> Iterator[Metric]:
        for name, read in (
            ("num_requests_running", lambda t, seconds: t.busy(seconds)),
            ("num_requests_waiting", lambda t, _: t.waiting),
            (self.mode.names.kv_usage, lambda t, seconds: t.used(seconds)),
        ):
            family = GaugeMetricFamily(f"vllm:{name}", name, labels=["engine", "model_name"])
            for labels, truth, seconds in self._each():
                family.add_metric(labels, read(truth, seconds))
            yield family
        sleep = GaugeMetricFamily(
            "vllm:engine_sleep_state", "Sleep state.", labels=["engine", "model_name", "sleep_state"]
        )
        for labels, truth, _ in self._each():
            for state in ("awake", "weights_offloaded", "discard_all"):
                sleep.add_metric([*labels, state], float(state == truth.sleep_state))
        yield sleep
        yield from (self._cache_config(labels[0], truth) for labels, truth, _ in self._each())

    def _cache_config(self, engine: str, truth: Truth) -> Metric:
        labels = {
            "block_size": str(truth.block_tokens),
            "cache_dtype": "auto",
            "engine": engine,
            "mamba_block_size": "262144" if truth.hybrid else "None",
            "mamba_cache_mode": "align" if truth.hybrid else "none",
            "num_gpu_blocks": str(self._blocks()),
        }
        if self.mode.names.pool_in_tokens:
            labels["kv_cache_size_tokens"] = str(truth.capacity_tokens)
            labels["kv_cache_max_concurrency"] = str(truth.max_concurrency)
        family = GaugeMetricFamily("vllm:cache_config_info", "CacheConfig", labels=list(labels))
        family.add_metric(list(labels.values()), 1.0)
        return family

    def _blocks(self) -> int:
        """Of all engines together, as vLLM labels it."""
        return sum(self.mode.engines[n].blocks for n in self.engines)

    def _counters(self) -> Iterator[Metric]:
        names = self.mode.names
        plain: dict[str, Callable[[Truth], float]] = {
            "prompt_tokens": lambda t: t.computed + t.cached + t.external,
            "generation_tokens": lambda t: t.decode,
            "num_preemptions": lambda t: t.preemptions,
            ("prefix_cache_queries" if names.hits_in_tokens else "gpu_prefix_cache_queries"): lambda t: (
                t.computed + t.cached + t.external
            ),
            ("prefix_cache_hits" if names.hits_in_tokens else "gpu_prefix_cache_hits"): lambda t: t.cached,
        }
        if names.cached_total:
            plain["prompt_tokens_cached"] = lambda t: t.cached + t.external
            plain["external_prefix_cache_queries"] = lambda t: t.computed + t.external if t.external else 0.0
            plain["external_prefix_cache_hits"] = lambda t: t.external
            plain["mm_cache_queries"] = lambda t: t.images
            plain["mm_cache_hits"] = lambda t: t.images * t.image_hits
        if any(truth.drafts is not None for truth in self.mode.engines):
            plain["spec_decode_num_drafts"] = lambda t: t.drafts or 0.0
            plain["spec_decode_num_draft_tokens"] = lambda t: (t.drafts or 0.0) * t.draft_depth
            plain["spec_decode_num_accepted_tokens"] = lambda t: (t.drafts or 0.0) * sum(t.accepted_shares)
        for name, per_second in plain.items():
            yield self._counter(name, None, lambda t, read=per_second: {"": read(t)})
        yield self._counter(
            "request_success",
            "finished_reason",
            lambda t: {reason: t.requests * share for reason, share in t.finish_shares.items()},
        )
        if names.by_source:
            yield self._counter(
                "prompt_tokens_by_source",
                "source",
                lambda t: {
                    "local_compute": t.computed,
                    "local_cache_hit": t.cached,
                    "external_kv_transfer": t.external,
                },
            )
        if any(truth.accepted_shares for truth in self.mode.engines):
            yield self._counter(
                "spec_decode_num_accepted_tokens_per_pos",
                "position",
                lambda t: {str(i): (t.drafts or 0.0) * share for i, share in enumerate(t.accepted_shares)},
            )

    def _counter(self, name: str, label: str | None, per_second: Callable[[Truth], dict[str, float]]) -> Metric:
        extra = [] if label is None else [label]
        family = CounterMetricFamily(f"vllm:{name}", name, labels=["engine", "model_name", *extra])
        for labels, truth, seconds in self._each():
            for value, rate in per_second(truth).items():
                whole = float(int(rate * self._worked(name, truth, seconds)))
                family.add_metric(
                    [*labels, *([value] if extra else [])],
                    whole,
                    created=self.started_at if self.mode.names.process_start else None,
                )
        return family

    def _worked(self, name: str, truth: Truth, seconds: float) -> float:
        """Seconds of work behind a counter: decoding goes on while prompts wait for their first token."""
        decoding = name in {"generation_tokens", self.mode.names.inter_token} or name.startswith("spec_decode")
        return truth.decoded(seconds) if decoding else truth.credited(seconds)

    def _histograms(self) -> Iterator[Metric]:
        yield self._histogram("time_to_first_token_seconds", TTFT_BOUNDS, lambda t: (t.requests, *t.ttft))
        yield self._histogram(self.mode.names.inter_token, INTER_TOKEN_BOUNDS, lambda t: (t.steps, *t.inter_token))
        yield self._histogram("request_queue_time_seconds", QUEUE_BOUNDS, lambda t: (t.requests, *t.queue))
        yield self._histogram(
            "request_prefill_time_seconds",
            QUEUE_BOUNDS,
            lambda t: (t.requests, t.prefill_seconds_per_request, t.prefill_seconds_per_request),
        )
        yield self._histogram(
            "request_prefill_kv_computed_tokens",
            (1.0, 100.0, 10_000.0),
            lambda t: (t.requests, *(2 * [t.computed / t.requests if t.requests else 0.0])),
        )

    def _histogram(
        self, name: str, bounds: tuple[float, ...], read: Callable[[Truth], tuple[float, float, float]]
    ) -> Metric:
        family = HistogramMetricFamily(f"vllm:{name}", name, labels=["engine", "model_name"])
        for labels, truth, seconds in self._each():
            rate, low, high = read(truth)
            count = int(rate * self._worked(name, truth, seconds))
            buckets = [(str(bound), float(int(count * _share_below(bound, low, high)))) for bound in bounds]
            family.add_metric(labels, [*buckets, ("+Inf", float(count))], sum_value=count * (low + high) / 2)
        return family


def _share_below(bound: float, low: float, high: float) -> float:
    """Share of values spread evenly over low..high that do not pass ``bound``."""
    if high <= low:
        return float(bound >= high)
    return min(1.0, max(0.0, (bound - low) / (high - low)))
