"""Where each group of figures comes from, and how old it is."""

from __future__ import annotations

from cockpit.telemetry.frame import Source
from cockpit.telemetry.notes import Figures

_PREFILL = {
    "iteration_log": "iteration details of the log",
    "by_source": "vllm:prompt_tokens_by_source",
    "prompt_minus_cached": "vllm:prompt_tokens less vllm:prompt_tokens_cached",
    "prompt_minus_hits": "vllm:prompt_tokens less vllm:prefix_cache_hits",
    "including_cached": "vllm:prompt_tokens, incl. cached",
}
_CAPACITY = {
    "label": "vllm:cache_config_info",
    "log": "boot log",
    "log_concurrency": "boot log, requests times length",
}
_GROWTH = " and growth of vllm:kv_cache_usage_perc"


def sources_of(shown: Figures, age: float | None) -> tuple[Source, ...]:
    """The sources of the figures that are known; ``age`` is that of /metrics in seconds."""
    speed, kv = shown.throughput, shown.kv
    found: list[Source] = []

    def add(known: object, group: str, origin: str, of_age: float | None = age) -> None:
        if known is not None:
            found.append(Source(figures=group, origin=origin, age_seconds=of_age))

    grown = _GROWTH if speed.prefill_is_estimate else ""
    add(speed.prefill_basis, "prefill", _PREFILL.get(speed.prefill_basis or "", "") + grown)
    add(speed.decode_tokens_per_second, "decode", "vllm:generation_tokens")
    add(kv.capacity_source, "KV capacity", _CAPACITY.get(kv.capacity_source or "", ""), None)
    add(kv.used_fraction, "KV use", "vllm:kv_cache_usage_perc")
    add(shown.requests.running, "requests", "vllm:num_requests_running, _waiting")
    add(shown.latency.ttft_seconds.mean, "latency", "histograms of the window")
    add(shown.prefix_cache.hit_fraction_lifetime, "prefix cache", "prompt tokens or prefix-cache queries")
    add(shown.speculative, "draft", "vllm:spec_decode_*")
    return tuple(found)
