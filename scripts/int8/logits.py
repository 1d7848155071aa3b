"""Save the logits of every position of some random prompts, as one vLLM computes them. Runs under vLLM's Python.

PYTHON scripts/int8/logits.py MODEL OUT.pt [--prompts 8 --tokens 300] [--no-fold] [--stand-ins]
"""

from __future__ import annotations

import argparse
import os
import sys
from types import SimpleNamespace
from typing import Any

os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # the hook below sees the model only in this process

import torch
from vllm import LLM, SamplingParams

BATCH = 1024
"""Tokens of a step; a prompt must be one step."""


def leave_signs() -> None:
    """The fault of vllm#48905: the switch handed on by the overlay, negative scales left as they are."""
    import cockpit_int8_fold

    cockpit_int8_fold.fold = lambda words, scales, exact: (words, scales, None, 0, 0)


def gather(ids: torch.Tensor, words: torch.Tensor, scales: torch.Tensor, width: int, bits: int) -> torch.Tensor:
    """What vLLM's Triton kernel ``_dequant_gather_kernel`` computes, in torch: rows of a packed embedding."""
    shifts = torch.arange(0, 32, bits, dtype=torch.int32)
    codes = ((words[ids].unsqueeze(-1) >> shifts) & (2**bits - 1)) - 2 ** (bits - 1)
    grouped = codes.view(len(ids), scales.shape[1], -1).float() * scales[ids].float().unsqueeze(-1)
    return grouped.view(len(ids), width).to(scales.dtype)


def stand_in() -> None:
    """Replace the one Triton kernel that a packed embedding needs, where there is no Triton."""
    import vllm.model_executor.layers.quantization.compressed_tensors.compressed_tensors_embedding as embedding

    embedding._dequant_gather_triton = gather


def keep_hidden(kept: list[tuple[Any, torch.Tensor]], model: Any) -> str:
    """Have the model keep what it hands to its head."""

    def keep(module: Any, _args: Any, _kwargs: Any, hidden: Any) -> None:
        kept.append((module, (hidden[0] if isinstance(hidden, tuple) else hidden).detach().clone()))

    model.register_forward_hook(keep, with_kwargs=True)
    return type(model).__name__


def logits_of(llm: LLM, prompts: int, tokens: int, below: int | None) -> torch.Tensor:
    """Logits [prompts x tokens, vocabulary] in float32; prompts of ids from 10 to ``below``, or all from 10 on."""
    kept: list[tuple[Any, torch.Tensor]] = []
    print(llm.apply_model(lambda model: keep_hidden(kept, model)))
    random = torch.Generator().manual_seed(3)
    end = below or llm.llm_engine.model_config.get_vocab_size()
    once = SamplingParams(max_tokens=1, temperature=0, detokenize=False)
    rows = []
    for _ in range(prompts):
        ids = torch.randint(10, end, (tokens,), generator=random).tolist()
        kept.clear()
        llm.generate([{"prompt_token_ids": ids}], once, use_tqdm=False)
        model, hidden = next((model, hidden) for model, hidden in kept if hidden.shape[0] >= tokens)
        with torch.inference_mode():
            rows.append(model.compute_logits(hidden[:tokens]).float().cpu())
    return torch.cat(rows)


def arguments() -> Any:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=300)
    parser.add_argument("--below", type=int, help="ids of the prompts lie below it")
    parser.add_argument("--no-images", action="store_true", help="load a model with vision for text alone")
    parser.add_argument("--no-fold", action="store_true", help="leave negative scales as they are")
    parser.add_argument("--stand-ins", action="store_true", help="torch in place of the embedding's Triton kernel")
    return parser.parse_args(namespace=SimpleNamespace())


def main() -> None:
    """Load, compute, save."""
    words = arguments()
    if words.no_fold:
        leave_signs()
    if words.stand_ins:
        stand_in()
    more: dict[str, Any] = {"language_model_only": True} if words.no_images else {}
    if torch.cuda.is_available():
        more |= {"kv_cache_memory_bytes": 1 << 30, "gpu_memory_utilization": 0.05}
        more |= {"gdn_prefill_backend": "triton"}  # FlashInfer's needs a CUDA compiler on Hopper
    llm = LLM(
        model=words.model,
        skip_tokenizer_init=True,
        enforce_eager=True,
        max_model_len=BATCH,
        max_num_batched_tokens=BATCH,
        max_num_seqs=4,
        enable_prefix_caching=False,
        disable_log_stats=True,
        seed=0,
        **more,
    )
    logits = logits_of(llm, words.prompts, words.tokens, words.below)
    torch.save(logits, words.out)
    print(f"{tuple(logits.shape)} logits, {int(logits.isnan().any(-1).sum())} positions without a number")
    sys.stdout.flush()
    os._exit(0)  # the engine's own end may hang after a fault


if __name__ == "__main__":
    main()
