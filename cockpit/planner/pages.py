"""Bytes that a token, and a GDN state, take in one layer of one rank; how long a block is."""

from __future__ import annotations

import re

from cockpit.checkpoint.types import LinearAttention

SCALE_BYTES = 4
"""A float32 scale of a key or a value (customize_spec of v1/attention/backends/triton_attn.py)."""
DEFAULT_BLOCK_TOKENS = {"cuda": 16, "cpu": 128}
"""vllm/config/cache.py and vllm/platforms/cpu.py; every CUDA backend for GQA takes multiples of 16."""
KERNEL_BLOCK_TOKENS = 16
"""The shortest block that the kernels take (get_supported_kernel_block_sizes of the attention backends)."""
PER_TOKEN_HEAD = frozenset({"int8_per_token_head", "fp8_per_token_head", "int4_per_token_head"})
NVFP4 = frozenset({"nvfp4", "nvfp4_4over6"})
_ELEMENT_BYTES = {
    "float16": 2,
    "bfloat16": 2,
    "fp8": 1,
    "fp8_e4m3": 1,
    "fp8_e5m2": 1,
    "fp8_inc": 1,
}
_PACKED = re.compile(r"(fp8|nvfp4)_ds_mla|(turboquant|octave|ultraquant)_[a-z0-9_]+")
"""Types that vLLM has and whose packing depends on more than the size of a head."""


def known_type(kv_cache_dtype: str) -> bool:
    """Whether vLLM has such a KV cache at all."""
    words = {"auto", *_ELEMENT_BYTES, *PER_TOKEN_HEAD, *NVFP4}
    return kv_cache_dtype in words or _PACKED.fullmatch(kv_cache_dtype) is not None


def bytes_per_head(head_dim: int, kv_cache_dtype: str, element_bytes: int) -> int | None:
    """Bytes of one token's key and value in one KV head; None for a type whose packing is not known here.

    ``state_content_size_bytes`` of v1/kv_cache_interface.py: both sides of head_dim elements; types with a scale
    for each token and head add a float32 to each side, and NVFP4 an FP8 scale for every 16 elements.
    """
    if kv_cache_dtype == "auto":
        return 2 * head_dim * element_bytes
    if kv_cache_dtype in _ELEMENT_BYTES:
        return 2 * head_dim * _ELEMENT_BYTES[kv_cache_dtype]
    if kv_cache_dtype == "int4_per_token_head":
        return 2 * (head_dim // 2 + SCALE_BYTES)
    if kv_cache_dtype in PER_TOKEN_HEAD:
        return 2 * (head_dim + SCALE_BYTES)
    if kv_cache_dtype in NVFP4:
        return 2 * (head_dim // 2 + head_dim // 16)
    return None


def heads_per_rank(kv_heads: int, tensor_parallel: int) -> int | None:
    """KV heads of one rank: a share, or one that several ranks hold copies of; None where neither comes out even.

    ``get_num_kv_heads`` of vllm/config/model.py, and the assertions of the model classes.
    """
    larger, smaller = max(kv_heads, tensor_parallel), min(kv_heads, tensor_parallel)
    return None if larger % smaller else max(1, kv_heads // tensor_parallel)


def gated_delta_bytes(
    state: LinearAttention, tensor_parallel: int, speculative_tokens: int, element_bytes: int
) -> int | None:
    """Bytes of one state of a GDN layer; None where the heads do not divide by the ranks.

    ``gated_delta_net_state_shape`` of layers/mamba/mamba_utils.py: a convolution state over all keys and values,
    longer by one for each speculative token, and a matrix of keys by values for each value head.
    """
    if state.key_heads % tensor_parallel or state.value_heads % tensor_parallel:
        return None
    width = 2 * state.key_heads * state.key_head_dim + state.value_heads * state.value_head_dim
    steps = state.conv_kernel - 1 + speculative_tokens
    heads = state.value_heads // tensor_parallel
    matrix = state.value_head_dim * state.key_head_dim
    return width // tensor_parallel * steps * element_bytes + heads * matrix * state.state_bytes


def aligned_block_tokens(block_tokens: int, multiple: int, token_bytes: int, state_bytes: int) -> int:
    """The shortest block, a multiple of ``multiple``, whose page in an attention layer holds one GDN state.

    ``_align_hybrid_block_size`` of vllm/platforms/interface.py.
    """
    step = multiple * token_bytes
    return max(block_tokens, multiple * -(-state_bytes // step))
