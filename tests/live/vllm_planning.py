"""Runs inside the engine's own Python: vLLM's planning functions on made-up models, JSON in and JSON out.

Only what would need a model in memory is stood in for; block alignment, specs, grouping, the boot check, the search
for the longest context and the capacity are vLLM's own code.
"""

from __future__ import annotations

import json
import logging
import sys
from types import SimpleNamespace
from typing import Any

import torch
from vllm.model_executor.layers.attention.attention import _largest_kernel_block_within
from vllm.model_executor.layers.mamba.mamba_utils import MambaStateShapeCalculator
from vllm.model_executor.models import ModelRegistry
from vllm.platforms.interface import Platform
from vllm.utils.torch_utils import STR_DTYPE_TO_TORCH_DTYPE
from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend
from vllm.v1.attention.backends.triton_attn import TritonAttentionBackend
from vllm.v1.core import kv_cache_utils
from vllm.v1.kv_cache_interface import FullAttentionSpec, MambaSpec, SlidingWindowSpec, get_kv_quant_mode
from vllm.v1.kv_cache_layout import KVCacheLayout

BACKENDS = {"cuda": TritonAttentionBackend, "cpu": CPUAttentionBackend}
BLOCKS = {"cuda": 16, "cpu": 128}


class Alignment(Platform):
    """The alignment of hybrid models, with the backend that a model would have."""

    backend: Any = None

    @classmethod
    def _find_non_ssm_backends(cls, vllm_config: Any) -> list[Any]:
        return [cls.backend]


def kv_type(case: dict[str, Any]) -> torch.dtype:
    return torch.bfloat16 if case["dtype"] == "auto" else STR_DTYPE_TO_TORCH_DTYPE[case["dtype"]]


def state_shapes(case: dict[str, Any]) -> Any:
    gdn = case["gdn"]
    return MambaStateShapeCalculator.gated_delta_net_state_shape(
        case["ranks"], gdn["nk"], gdn["nv"], gdn["dk"], gdn["dv"], gdn["k"], case["spec"]
    )


def state_types(case: dict[str, Any]) -> tuple[torch.dtype, torch.dtype]:
    return torch.bfloat16, torch.float32 if case["gdn"]["bytes"] == 4 else torch.bfloat16


def config_of(case: dict[str, Any]) -> Any:
    """What the planning functions read of a VllmConfig."""
    main = next((one for one in case["attention"] if not one["window"]), case["attention"][0])
    cache = SimpleNamespace(
        block_size=BLOCKS[case["platform"]],
        cache_dtype=case["dtype"],
        kv_cache_dtype_skip_layers=[],
        mamba_cache_mode="align" if case["prefix"] else "none",
        mamba_block_size=None,
        mamba_page_size_padded=None,
        num_gpu_blocks_override=None,
        prefix_cache_retention_interval=None,
        skip_page_size_padded=None,
        get_resolved_kv_cache_layout=lambda: KVCacheLayout.LBNHC,
    )
    model = SimpleNamespace(
        dtype=torch.bfloat16,
        use_mla=False,
        is_hybrid=case["gdn"] is not None,
        architecture="any",
        max_model_len=case["length"],
        original_max_model_len=case["length"],
        get_num_kv_heads=lambda _parallel: max(1, main["heads"] // case["ranks"]),
        get_head_size=lambda: main["dim"],
    )
    return SimpleNamespace(
        cache_config=cache,
        model_config=model,
        parallel_config=SimpleNamespace(decode_context_parallel_size=1, tensor_parallel_size=case["ranks"]),
        scheduler_config=SimpleNamespace(disable_hybrid_kv_cache_manager=False),
        attention_config=SimpleNamespace(hisparse_config=None),
        compilation_config=SimpleNamespace(),
        device_config=SimpleNamespace(device_type=case["platform"]),
        speculative_config=None,
        num_prefill_lookahead_tokens=1 if case["spec"] else 0,
        max_in_flight_tokens=case["steps"] * case["batch"],
    )


def align(case: dict[str, Any], config: Any) -> None:
    """Block and page sizes of a hybrid model."""
    model_class = SimpleNamespace(
        get_mamba_state_shape_from_config=lambda _config: state_shapes(case),
        get_mamba_state_dtype_from_config=lambda _config: state_types(case),
    )
    ModelRegistry.resolve_model_cls = lambda *_args, **_kw: (model_class, "any")  # type: ignore[method-assign]
    Alignment.backend = BACKENDS[case["platform"]]
    Alignment._align_hybrid_block_size(config, Alignment.backend)


def attention_spec(case: dict[str, Any], one: dict[str, Any], config: Any) -> Any:
    """As the attention layer builds it, packed as its backend packs it."""
    backend = BACKENDS[case["platform"]]
    shape: dict[str, Any] = {
        "num_kv_heads": max(1, one["heads"] // case["ranks"]),
        "head_size": one["dim"],
        "dtype": kv_type(case),
        "kv_quant_mode": get_kv_quant_mode(case["dtype"]),
    }
    block = config.cache_config.block_size
    if not one["window"]:
        return backend.customize_spec(FullAttentionSpec(block_size=block, **shape))
    single = backend.customize_spec(SlidingWindowSpec(block_size=1, sliding_window=one["window"], **shape))
    token = single.real_page_size_bytes
    block = _largest_kernel_block_within(backend, token, token * block, block, single)
    return backend.customize_spec(SlidingWindowSpec(block_size=block, sliding_window=one["window"], **shape))


def specs_of(case: dict[str, Any], config: Any) -> dict[str, Any]:
    specs: dict[str, Any] = {}
    for kind, one in enumerate(case["attention"]):
        for layer in range(one["layers"]):
            specs[f"attention.{kind}.{layer}"] = attention_spec(case, one, config)
    cache = config.cache_config
    for layer in range(case["gdn"]["layers"] if case["gdn"] else 0):
        specs[f"gdn.{layer}"] = MambaSpec(
            shapes=state_shapes(case),
            dtypes=state_types(case),
            block_size=cache.mamba_block_size or case["length"],
            page_size_padded=cache.mamba_page_size_padded,
            mamba_cache_mode=cache.mamba_cache_mode,
            num_speculative_blocks=case["spec"],
        )
    return specs


def longest(config: Any, specs: dict[str, Any], available: int) -> int:
    """What --max-model-len auto comes to, 0 where vLLM refuses to boot."""
    asked, config.model_config.original_max_model_len = config.model_config.max_model_len, -1
    try:
        kv_cache_utils.get_kv_cache_configs(config, [dict(specs)], [available])
        return int(config.model_config.max_model_len)
    except ValueError:
        return 0
    finally:
        config.model_config.max_model_len = config.model_config.original_max_model_len = asked


def answer(case: dict[str, Any]) -> dict[str, Any]:
    config = config_of(case)
    if case["gdn"] is not None:
        align(case, config)
    specs = specs_of(case, config)
    groups = kv_cache_utils.get_kv_cache_groups(config, dict(specs))
    made = kv_cache_utils.get_kv_cache_config_from_groups(config, groups, case["available"])
    tokens, concurrency = kv_cache_utils.get_kv_cache_capacity(config, made)
    try:
        fits = bool(kv_cache_utils.get_kv_cache_configs(config, [dict(specs)], [case["available"]]))
    except ValueError:
        fits = False
    return {
        "block": config.cache_config.block_size,
        "block_bytes": kv_cache_utils._pool_bytes_per_block(config, groups),
        "needed": kv_cache_utils._max_memory_usage_bytes_from_groups(config, groups),
        "blocks": made.num_blocks,
        "tokens": tokens,
        "concurrency": concurrency,
        "fits": fits,
        "longest": longest(config, specs, case["available"]),
    }


def main() -> None:
    logging.disable(logging.CRITICAL)
    print(json.dumps([answer(case) for case in json.load(sys.stdin)]))


if __name__ == "__main__":
    main()
