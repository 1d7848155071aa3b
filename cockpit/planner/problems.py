"""What of a model and a launch the planner does not know, each as one sentence."""

from __future__ import annotations

from cockpit.planner.batch import default_batched_tokens, steps_problem
from cockpit.planner.pages import (
    DEFAULT_BLOCK_TOKENS,
    NVFP4,
    PER_TOKEN_HEAD,
    bytes_per_head,
    gated_delta_bytes,
    heads_per_rank,
)
from cockpit.planner.types import KvModel, KvSettings
from cockpit.planner.versions import OLDEST, OLDEST_MEMORY, Release, has

_LONGEST_ITEM_TOKENS = 8192
"""No image or video of these models is longer (_get_min_mm_batched_tokens of engine/arg_utils.py)."""


def _heads_problem(model: KvModel, settings: KvSettings) -> str | None:
    ranks = settings.tensor_parallel
    for one in model.attention:
        if heads_per_rank(one.kv_heads, ranks) is None:
            return f"{one.kv_heads} KV heads cannot be shared evenly by {ranks} ranks"
    gdn = model.gated_delta
    if gdn is not None and gated_delta_bytes(gdn, ranks, 0, model.element_bytes) is None:
        return f"{gdn.key_heads} key and {gdn.value_heads} value heads of GDN layers do not divide by {ranks} ranks"
    if gdn is not None and settings.platform == "cpu" and gdn.state_bytes != 4:
        return "whether GDN states are kept in 2 bytes or 4 depends on the processor (vllm/platforms/cpu.py)"
    return None


def _dtype_problem(model: KvModel, settings: KvSettings, release: Release) -> str | None:
    dtype = settings.kv_cache_dtype
    windowed = any(one.window is not None for one in model.attention)
    if any(bytes_per_head(one.head_dim, dtype, model.element_bytes) is None for one in model.attention):
        return f"how a KV cache of type {dtype} is packed is not known here"
    if settings.platform == "cpu" and dtype in PER_TOKEN_HEAD | NVFP4:
        return f"vLLM's CPU build has no KV cache of type {dtype}"
    if dtype in NVFP4 and any(one.head_dim % 16 for one in model.attention):
        return f"heads of {model.attention[0].head_dim} do not divide into the groups of 16 of a {dtype} cache"
    if windowed and steps_problem(settings):
        return steps_problem(settings)
    if dtype == "int4_per_token_head" and windowed and not has("packing-by-backend", release):
        return f"how windowed layers pack a cache of type {dtype} before vLLM 0.28 is not known here"
    return None


def _step_problem(model: KvModel, settings: KvSettings, release: Release) -> str | None:
    if not (model.whole_items and settings.vision) or settings.max_num_batched_tokens is not None:
        return None
    if default_batched_tokens(settings, release) >= _LONGEST_ITEM_TOKENS:
        return None
    return "how many tokens a step must have to hold a whole video is not known here: set max_num_batched_tokens"


def _kernel_problem(model: KvModel, settings: KvSettings) -> str | None:
    """Heads for which FlashAttention 4, where it is installed, changes the length of a block."""
    if settings.platform != "cuda" or settings.capability is None:
        return None
    sizes = {one.head_dim for one in model.attention}
    fp8 = settings.kv_cache_dtype in ("fp8", "fp8_e4m3")
    if (settings.capability[0] == 9 and fp8 and 512 in sizes) or (settings.capability[0] == 11 and 256 in sizes):
        return f"the block size of FlashAttention 4 with heads of {max(sizes)} is not known here"
    return None


def problem_of(model: KvModel, settings: KvSettings, release: Release | None) -> str | None:
    """Why there is no forecast, as one sentence; None where there is one. ``release`` None is an unread version."""
    if settings.platform not in DEFAULT_BLOCK_TOKENS:
        return f"the KV cache of vLLM for {settings.platform} is not known here"
    if release is None:
        return "the engine's version is not known"
    oldest = OLDEST if settings.platform == "cuda" else OLDEST_MEMORY
    if release < oldest:
        return f"vLLM {release[0]}.{release[1]} is older than {oldest[0]}.{oldest[1]}, from which on it is known here"
    if not model.attention:
        return "the model has no attention layers"
    if model.inclusive_window and release == (0, 29):
        return "whether vLLM 0.29 counts a token into its own window in this family is not known here"
    return (
        _heads_problem(model, settings)
        or _step_problem(model, settings, release)
        or _dtype_problem(model, settings, release)
        or _kernel_problem(model, settings)
    )
