"""Tokens in the steps that are under way: windowed layers keep them beside their window."""

from __future__ import annotations

from cockpit.planner.types import KvSettings
from cockpit.planner.versions import Release, has
from cockpit.units import GIB

CONCURRENT_STEPS = {"cuda": 2, "cpu": 1}
"""Asynchronous scheduling, vLLM's default, prepares a step while another runs (max_concurrent_batches of
vllm/config/vllm.py); the CPU build switches it off (vllm/platforms/cpu.py)."""
_ASYNCHRONOUS = frozenset({"mtp"})
"""Drafting that asynchronous scheduling works with under both of vLLM's model runners."""


def default_batched_tokens(settings: KvSettings, release: Release) -> int:
    """max_num_batched_tokens of ``vllm serve`` where it is not set (get_batch_defaults of engine/arg_utils.py)."""
    if settings.platform == "cpu":
        return 2048 * settings.tensor_parallel
    size = settings.gpu_total_bytes or 0
    if size >= 160 * GIB and has("batch-160-gib", release):
        return 16384
    gb10 = settings.capability == (12, 1) and has("batch-gb10", release)
    small = size < 70 * GIB or "a100" in (settings.gpu_name or "").lower() or gb10
    return 2048 if small else 8192


def batched_tokens(settings: KvSettings, release: Release) -> int:
    """max_num_batched_tokens, set or vLLM's own."""
    chosen = settings.max_num_batched_tokens
    return default_batched_tokens(settings, release) if chosen is None else chosen


def tokens_in_flight(settings: KvSettings, release: Release) -> int:
    """Tokens scheduled and not yet settled at most (max_in_flight_tokens of vllm/config/vllm.py)."""
    steps = CONCURRENT_STEPS[settings.platform] if has("steps-in-flight", release) else 1
    return steps * batched_tokens(settings, release)


def steps_problem(settings: KvSettings) -> str | None:
    """Why it is not known how many steps run at once; None where it is."""
    if not settings.speculative_tokens or settings.speculative_method in _ASYNCHRONOUS:
        return None
    return f"how many steps of a model with windows run at once with {settings.speculative_method} is not known here"
