"""Run with an engine's Python: a folder → ``before.txt`` and ``after.txt``, written by vLLM's own Prometheus logger.

Two data-parallel engines with speculation do what ENGINES says between the two. With PROMETHEUS_MULTIPROC_DIR set the
pages are those of several API servers.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from prometheus_client import generate_latest
from vllm.v1.metrics import stats
from vllm.v1.metrics.loggers import PrometheusStatLogger
from vllm.v1.metrics.prometheus import get_prometheus_registry
from vllm.v1.spec_decode.metrics import SpecDecodingStats

MODEL = 'odd "name\\" {x="1"},é'
ENGINES: tuple[dict[str, Any], ...] = (
    {"computed": 1000, "hit": 300, "external": 50, "generated": 200, "running": 2, "waiting": 3, "use": 0.25},
    {"computed": 2000, "hit": 0, "external": 0, "generated": 400, "running": 1, "waiting": 0, "use": 0.5},
)
FIRST_TOKENS, TTFT, BETWEEN = 4, 0.5, 0.02
DRAFTS, ACCEPTED = 100, (80, 50, 30)
POOL = {
    "block_size": "16",
    "num_gpu_blocks": "1000",
    "kv_cache_size_tokens": "8000",
    "kv_cache_max_concurrency": "2.0",
    "mamba_block_size": "None",
    "mamba_cache_mode": "none",
}


class Settings(SimpleNamespace):
    """Settings of which all that is not named is None."""

    def __getattr__(self, name: str) -> None:
        return None


def settings() -> Settings:
    """What the logger reads of a VllmConfig."""
    return Settings(
        observability_config=Settings(),
        model_config=Settings(served_model_name=MODEL, max_model_len=4096),
        speculative_config=Settings(num_speculative_tokens=len(ACCEPTED)),
        parallel_config=Settings(),
        cache_config=Settings(),
    )


def did(engine: dict[str, Any]) -> tuple[stats.SchedulerStats, stats.IterationStats]:
    """One step of one engine, as its scheduler and its frontend report it."""
    prompt = engine["computed"] + engine["hit"] + engine["external"]
    scheduled = stats.SchedulerStats(
        num_running_reqs=engine["running"], num_waiting_reqs=engine["waiting"], kv_cache_usage=engine["use"]
    )
    scheduled.prefix_cache_stats = stats.PrefixCacheStats(requests=1, queries=prompt, hits=engine["hit"])
    drafted = SpecDecodingStats.new(len(ACCEPTED))
    drafted.num_drafts, drafted.num_draft_tokens = DRAFTS, DRAFTS * len(ACCEPTED)
    drafted.num_accepted_tokens, drafted.num_accepted_tokens_per_pos = sum(ACCEPTED), list(ACCEPTED)
    scheduled.spec_decoding_stats = drafted
    seen = stats.IterationStats()
    tokens = seen.prompt_token_stats
    tokens.computed, tokens.local_cache_hit = engine["computed"], engine["hit"]
    tokens.external_kv_transfer, tokens.cached_tokens = engine["external"], engine["hit"] + engine["external"]
    tokens.total = prompt
    seen.num_generation_tokens = engine["generated"]
    seen.time_to_first_tokens_iter = [TTFT] * FIRST_TOKENS
    seen.inter_token_latencies_iter = [BETWEEN] * engine["generated"]
    return scheduled, seen


def main() -> None:
    """Write both pages."""
    folder = Path(sys.argv[1])
    logger = PrometheusStatLogger(settings(), list(range(len(ENGINES))))
    logger.log_metrics_info("cache_config", SimpleNamespace(metrics_info=lambda: dict(POOL)))
    registry = get_prometheus_registry()
    folder.joinpath("before.txt").write_bytes(generate_latest(registry))
    for index, engine in enumerate(ENGINES):
        logger.record(*did(engine), engine_idx=index)
    folder.joinpath("after.txt").write_bytes(generate_latest(registry))


if __name__ == "__main__":
    main()
