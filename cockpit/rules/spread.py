"""Findings about flags that spread a model over GPUs besides tensor parallel: pipelines, replicas, split contexts."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

from cockpit.checkpoint.types import Checkpoint
from cockpit.rules.context import Context
from cockpit.rules.finding import Finding

_STAGES, _REPLICAS = "pipeline-parallel-size", "data-parallel-size"
_DECODE, _PREFILL = "decode-context-parallel-size", "prefill-context-parallel-size"
_ELSEWHERE = (
    "data-parallel-address",
    "data-parallel-backend",
    "data-parallel-external-lb",
    "data-parallel-hybrid-lb",
    "data-parallel-rank",
    "data-parallel-size-local",
    "data-parallel-start-rank",
    "distributed-executor-backend",
    "nnodes",
)
"""Flags by which some of the ranks run on other machines, or are started by somebody else."""
_GROUPED = ("gemma", "gpt_oss", "granite", "llama", "minimax", "olmo", "phi", "qwen2", "qwen3")
"""How the types of models begin that keep keys and values by heads, and not as latents (MLA)."""
_MICROBATCHES = ("deepep_high_throughput", "deepep_low_latency", "nixl_ep")


def _size(flags: dict[str, Any], name: str) -> int:
    """A flag's number; 1, as in vLLM, where it is absent or none."""
    value = flags.get(name, 1)
    text = str(value)
    return int(text) if not isinstance(value, bool) and text.isascii() and text.isdigit() and len(text) < 6 else 1


def _block(rule: str, message: str, fix: str) -> Finding:
    return Finding(rule=rule, severity="block", subject="flags", message=message, fix=fix, level="usage")


def ranks(ctx: Context) -> Iterator[Finding]:
    """Every rank has a GPU of its own (config/parallel.py of 0.20 to 0.33: World size is larger than …)."""
    flags = ctx.slug.flags
    sizes = {name: _size(flags, name) for name in (_STAGES, _PREFILL, _REPLICAS)}
    more = [name for name, size in sizes.items() if size > 1]
    if ctx.slug.platform == "cpu" or not more or not ctx.gpu_indices or not flags.keys().isdisjoint(_ELSEWHERE):
        return
    parallel, have = ctx.values.get("tensor_parallel") or 1, len(ctx.gpu_indices)
    needed = parallel * prod(sizes.values())
    if needed > have:
        named = " and ".join(f"{name} {sizes[name]}" for name in more)
        message = f"tensor parallel {parallel} with {named} needs {needed} GPUs, the plan has {have}"
        yield _block(
            "ranks", message, f"Name {needed} GPUs with the gpus toggle, or take {more[0]} out of the flags."
        )


def decode_context(ctx: Context) -> Iterator[Finding]:
    """A split KV cache takes its ranks from those that would hold the same heads twice (config/model.py)."""
    flags, parallel = ctx.slug.flags, ctx.values.get("tensor_parallel") or 1
    split = _size(flags, _DECODE)
    if ctx.slug.platform == "cpu" or split < 2 or _size(flags, _PREFILL) > 1:
        return
    wrong = _unsplit(ctx.checkpoint, parallel, split)
    if parallel % split:
        wrong = f"tensor parallel {parallel} cannot be divided by it"
    if wrong is not None:
        yield _block("decode-context", f"{_DECODE} {split}: {wrong}", f"Take {_DECODE} out of the slug's flags.")


def _unsplit(checkpoint: Checkpoint | None, parallel: int, split: int) -> str | None:
    """Why the ranks cannot share the cache of a model with grouped heads; None when they can, or it is none."""
    if checkpoint is None or not checkpoint.model_type.startswith(_GROUPED):
        return None
    heads, queries = checkpoint.kv_heads, checkpoint.attention_heads // checkpoint.kv_heads
    if parallel < split * heads:
        return f"{heads} KV heads need tensor parallel {split * heads} or more, the plan has {parallel}"
    return f"{queries} query heads a KV head cannot be divided by it" if queries % split else None


def microbatches(ctx: Context) -> Iterator[Finding]:
    """Overlapped batches work with some of the experts' transfers only (config/vllm.py of 0.20 to 0.33)."""
    flags = ctx.slug.flags
    asked = flags.get("enable-dbo") is True or _size(flags, "ubatch-size") > 1
    transfer = flags.get("all2all-backend") or ctx.slug.env.get("VLLM_ALL2ALL_BACKEND")
    if asked and transfer not in _MICROBATCHES:
        message = (
            f"--enable-dbo works with all2all-backend {', '.join(_MICROBATCHES[:-1])} or {_MICROBATCHES[-1]} only"
        )
        yield _block("microbatches", message, "Take enable-dbo out of the slug's flags, or name such a backend.")


RULES = (ranks, decode_context, microbatches)
"""In the order in which their findings are shown."""
