"""Run with an engine's Python: a file for its processes, checkpoint folders → JSON with the KV cache specs of each.

Builds each model class on the meta device, so that no weights are allocated, and asks its attention layers.
"""

from __future__ import annotations

import collections
import json
import sys
from typing import Any

import torch
from vllm.config import set_current_vllm_config
from vllm.distributed import ensure_model_parallel_initialized, init_distributed_environment
from vllm.engine.arg_utils import EngineArgs
from vllm.model_executor.model_loader.utils import initialize_model
from vllm.model_executor.models import registry


def specs(folder: str) -> dict[str, int]:
    """``kv_heads head_size window`` of each attention layer → how many there are; needs the parallel groups."""
    config = EngineArgs(
        model=folder, skip_tokenizer_init=True, load_format="dummy", enforce_eager=True, max_model_len=512
    ).create_engine_config()
    with set_current_vllm_config(config):
        if not torch.distributed.is_initialized():
            init_distributed_environment(1, 0, f"file://{sys.argv[1]}", 0, backend="gloo")
            ensure_model_parallel_initialized(1, 1)
        torch.set_default_dtype(config.model_config.dtype)
        with torch.device("meta"):
            initialize_model(config)
    found: collections.Counter[str] = collections.Counter()
    for layer in config.compilation_config.static_forward_context.values():
        spec: Any = layer.get_kv_cache_spec(config) if hasattr(layer, "get_kv_cache_spec") else None
        if spec is not None:
            found[f"{spec.num_kv_heads} {spec.head_size} {getattr(spec, 'sliding_window', None)}"] += 1
    return dict(found)


def main() -> None:
    """Print one JSON object, folder → specs or the message with which vLLM refuses it."""
    # vLLM imports itself anew to look at a class it does not know yet; there is no CUDA here to keep off.
    registry._run_in_subprocess = lambda look: look()  # type: ignore[assignment]
    answers: dict[str, dict[str, int] | str] = {}
    for folder in sys.argv[2:]:
        try:
            answers[folder] = specs(folder)
        except (AssertionError, ValueError, NotImplementedError) as error:
            answers[folder] = str(error)
    print(json.dumps(answers))


main()
