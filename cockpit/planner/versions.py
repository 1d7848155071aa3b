"""What of the KV cache's arithmetic differs between vLLM versions: one table, compared release by release."""

from __future__ import annotations

from cockpit.rig.version import version_numbers

Release = tuple[int, int]

OLDEST: Release = (0, 21)
"""Older versions count the pool's tokens in another way."""
OLDEST_MEMORY: Release = (0, 26)
"""What older versions take beside the pool was not compared."""
NEWEST: Release = (0, 33)
"""Newer ones are taken to be like this one."""

SINCE: dict[str, Release] = {
    # Windowed layers keep the tokens of every step that is under way, not of one (max_in_flight_tokens of
    # config/vllm.py); published boots of 0.25.1 do not have it.
    "steps-in-flight": (0, 26),
    # What is consumed is read off the device's free memory (memory_profiling of utils/mem_utils.py).
    "consumed-by-free": (0, 27),
    # Prefix caching is on for hybrid models unless it is said otherwise (engine/arg_utils.py).
    "hybrid-prefix-caching": (0, 28),
    # GPUs of 160 GiB and more get larger steps (get_batch_defaults of engine/arg_utils.py).
    "batch-160-gib": (0, 28),
    # Backends pack quantized caches alike in every kind of layer (customize_spec of v1/attention/backend.py).
    "packing-by-backend": (0, 28),
    # Every model has the second model runner (use_v2_model_runner of config/vllm.py).
    "second-runner": (0, 29),
    # The second model runner measures its CUDA graphs before it sizes the pool (worker/gpu/cudagraph_utils.py).
    "graphs-in-budget": (0, 29),
    # The boot check leaves the pool's null block out (get_kv_cache_configs of v1/core/kv_cache_utils.py).
    "null-block": (0, 29),
    # Pages that divide no larger one are padded whatever the backend (unify_kv_cache_spec_page_size, likewise).
    "padded-pages": (0, 29),
    # The CPU's kernels take multiples of 32 tokens instead of 16 (v1/attention/backends/cpu_attn.py).
    "cpu-kernel-32": (0, 29),
    # Cohere's windows are one token longer (models/commandr.py); 0.29 was not read.
    "inclusive-window": (0, 30),
    # Windowed layers begin with blocks as long as the others' (get_kv_cache_spec of layers/attention/attention.py).
    "window-block": (0, 30),
    # Rotary tables of Qwen3-VL and later are as long as the context unless videos are pruned (models/qwen3_vl.py).
    "mrope-positions": (0, 32),
    # GDN layers of FlashInfer keep one state more for prefix caching (layers/mamba/gdn/qwen_gdn_linear_attn.py).
    "gdn-checkpoints": (0, 33),
    # GB10 gets small steps although its memory is large (get_batch_defaults of engine/arg_utils.py).
    "batch-gb10": (0, 33),
}
"""Change → the first release that has it."""


def release_of(version: str | None) -> Release | None:
    """Major and minor number of a version text, the newest one followed here for None, and None for nonsense."""
    if version is None:
        return NEWEST
    numbers = version_numbers(version)
    return (numbers[0], numbers[1]) if numbers else None


def has(change: str, release: Release) -> bool:
    """Whether a release has a change of the table."""
    return release >= SINCE[change]
