"""Run with an engine's Python: a file for its processes; models without memory as JSON in, and bytes of a rank out.

The model classes are vLLM's own; that there are several ranks is only said to them.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import torch
from vllm.config import set_current_vllm_config
from vllm.distributed import parallel_state
from vllm.engine.arg_utils import EngineArgs
from vllm.model_executor.layers import rotary_embedding
from vllm.model_executor.model_loader.utils import initialize_model
from vllm.model_executor.models import registry
from vllm.utils.torch_utils import set_default_torch_dtype


def say_ranks(count: int) -> None:
    """Let every layer believe that it is the first of ``count`` ranks."""
    # Anew for each model, as only a sparse one gets a group of experts.
    parallel_state.destroy_model_parallel()
    parallel_state.initialize_model_parallel(1)
    assert parallel_state._TP is not None
    parallel_state._TP.world_size = count
    rotary_embedding._ROPE_DICT.clear()


def loaded(folder: str, ranks: int) -> dict[str, int]:
    """Bytes of parameters and of rotary tables that one rank makes room for."""
    config = EngineArgs(
        model=folder,
        load_format="dummy",
        enforce_eager=True,
        max_model_len=1024,
        max_num_seqs=4,
        skip_tokenizer_init=True,
    ).create_engine_config()
    with set_current_vllm_config(config):
        say_ranks(ranks)
        with set_default_torch_dtype(torch.bfloat16), torch.device("meta"):
            model = initialize_model(config)
    tensors: dict[int, tuple[str, Any]] = {
        id(tensor): (name, tensor) for name, tensor in [*model.named_parameters(), *model.named_buffers()]
    }
    sizes = {"weights": 0, "tables": 0}
    for name, tensor in tensors.values():
        sizes["tables" if "cos_sin" in name else "weights"] += tensor.numel() * tensor.element_size()
    return sizes


def main() -> None:
    logging.disable(logging.CRITICAL)
    # vLLM imports itself anew to look at a class it does not know yet; there is no CUDA here to keep off.
    registry._run_in_subprocess = lambda look: look()  # type: ignore[assignment]
    parallel_state.init_distributed_environment(1, 0, f"file://{sys.argv[1]}", 0, "gloo")
    print(json.dumps([loaded(case["folder"], case["ranks"]) for case in json.load(sys.stdin)]))


if __name__ == "__main__":
    main()
