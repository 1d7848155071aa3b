"""Tensor parallel, KV type and memory against the model and the chosen GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.checkpoint.types import Checkpoint
from cockpit.rules import longest
from cockpit.rules.context import Context
from cockpit.rules.finding import Finding
from cockpit.units import GIB, gib

_NVFP4_KV = ((10, 0), (10, 3))
_VLLM_DEFAULT_UTILIZATION = 0.92
_WSL_BYTES = round(1.31 * GIB)
"""What WSL2 and its driver hold of a GPU, unseen by nvidia-smi."""
_STATE_LAYERS = frozenset({"linear_attention", "mamba", "mamba2", "conv", "recurrent"})
WITHOUT_KV = _STATE_LAYERS | {"ffn"}
"""Kinds of layers that keep no keys and values."""


def unshared(checkpoint: Checkpoint, parallel: int) -> str | None:
    """What of the model cannot be shared by that many GPUs, as a few words; None when it can.

    Source: the assertions of vLLM's attention and gated-delta layers. KV heads are kept more than once where they are
    fewer than the GPUs, which must then be a multiple of them.
    """
    kv_heads, linear = checkpoint.kv_heads, checkpoint.linear_attention
    if checkpoint.attention_heads % parallel:
        return f"{checkpoint.attention_heads} attention heads"
    if kv_heads % parallel and parallel % kv_heads:
        return f"{kv_heads} KV heads"
    if linear is not None and linear.key_heads % parallel:
        return f"{linear.key_heads} key heads of linear attention"
    if linear is not None and linear.value_heads % parallel:
        return f"{linear.value_heads} value heads of linear attention"
    return None


def _one_worker(parallel: int, wrong: str | None) -> Finding:
    """The CPU build is started without the flag."""
    useless = f"tensor parallel {parallel} has no effect on the CPU, where it runs as one worker"
    impossible = f"{wrong} cannot be shared by {parallel} workers, and on the CPU it runs as one"
    return Finding(
        rule="one-worker" if wrong is None else "heads",
        severity="warn" if wrong is None else "block",
        subject="tensor_parallel",
        message=useless if wrong is None else impossible,
        fix="Set tensor_parallel to 1 in the slug.",
        level="usage",
    )


def heads(ctx: Context) -> Iterator[Finding]:
    """Tensor parallel must divide every kind of heads; few KV heads are replicated."""
    checkpoint = ctx.checkpoint
    parallel = ctx.values.get("tensor_parallel", 1)
    if checkpoint is None or parallel <= 1:
        return
    wrong = unshared(checkpoint, parallel)
    if ctx.slug.platform == "cpu":
        yield _one_worker(parallel, wrong)
    elif wrong is not None:
        fitting = [str(size) for size in (1, 2, 4, 8, 16) if unshared(checkpoint, size) is None]
        yield Finding(
            rule="heads",
            severity="block",
            subject="tensor_parallel",
            message=f"{wrong} cannot be shared by {parallel} GPUs",
            fix=f"Set tensor_parallel to {'one of ' if len(fitting) > 1 else ''}{', '.join(fitting)}.",
            level="usage",
        )
    elif parallel > checkpoint.kv_heads:
        yield Finding(
            rule="kv-heads-replicated",
            severity="note",
            subject="tensor_parallel",
            message=f"{checkpoint.kv_heads} KV heads for {parallel} GPUs: they are kept more than once, "
            "so the KV pool does not grow with the GPUs",
        )


def kv_dtype(ctx: Context) -> Iterator[Finding]:
    """The KV type against the engine's list, the GPUs and the draft."""
    dtype = ctx.values.get("kv_cache_dtype", "auto")
    engine = ctx.engine
    if engine is not None and engine.kv_cache_dtypes and dtype not in engine.kv_cache_dtypes:
        yield Finding(
            rule="kv-dtype-unknown",
            severity="block",
            subject="kv_cache_dtype",
            message=f"vLLM {engine.version} has no KV cache type {dtype}",
            fix=f"Set kv_cache_dtype to one of {', '.join(engine.kv_cache_dtypes)}.",
            level="rig",
        )
    wrong = [cc for cc in ctx.capabilities if cc not in _NVFP4_KV]
    if dtype.startswith("nvfp4") and wrong:
        yield Finding(
            rule="kv-nvfp4-capability",
            severity="block",
            subject="kv_cache_dtype",
            message="an nvfp4 KV cache needs compute capability 10.0 or 10.3, a chosen GPU has "
            f"{wrong[0][0]}.{wrong[0][1]}",
            fix="Set kv_cache_dtype=fp8_e4m3.",
            level="rig",
        )
    spec = ctx.slug.speculative
    if spec is not None and spec.method == "dflash" and dtype not in ("auto", "bfloat16"):
        yield Finding(
            rule="kv-dflash",
            severity="warn",
            subject="kv_cache_dtype",
            message=f"DFlash drafters want a bfloat16 KV cache, the plan has {dtype}",
            fix="Set kv_cache_dtype=bfloat16.",
        )


def keeps_state(checkpoint: Checkpoint) -> bool:
    """Whether it is a hybrid: some of its layers keep one block of state a sequence instead of keys and values."""
    return not _STATE_LAYERS.isdisjoint(checkpoint.layers)


def hybrid_sequences(ctx: Context) -> Iterator[Finding]:
    """A hybrid model needs one state block a sequence, and vLLM's default of 256 or more can exceed the pool."""
    checkpoint = ctx.checkpoint
    if checkpoint is None or not keeps_state(checkpoint) or ctx.values.get("max_num_seqs") is not None:
        return
    yield Finding(
        rule="hybrid-sequences",
        severity="warn",
        subject="max_num_seqs",
        message="a hybrid model keeps one state block a sequence, and vLLM's default number of them can exceed "
        "what fits",
        fix="Set max_num_seqs to what you need, such as 8.",
    )


def free_memory(ctx: Context) -> Iterator[Finding]:
    """What vLLM asks for at its start must be free on every chosen GPU."""
    share = ctx.values.get("gpu_memory_utilization") or _VLLM_DEFAULT_UTILIZATION
    for gpu in ctx.rig.gpus:
        if gpu.index not in ctx.gpu_indices or gpu.total_bytes is None or gpu.used_bytes is None:
            continue
        total = gpu.usable_bytes or gpu.total_bytes
        free = total - gpu.used_bytes - (_WSL_BYTES if ctx.rig.wsl else 0)
        if share * total > free:
            holder = ctx.gpu_holders.get(gpu.index)
            held = f", held by {holder}" if holder else ""
            largest = int(free / total * 100) / 100
            yield Finding(
                rule="memory-in-use",
                severity="block",
                subject="gpu_memory_utilization",
                message=f"GPU {gpu.index} has {gib(free)} GiB free, vLLM would ask for {gib(share * total)} "
                f"({share:g} of {gib(total)}){held}",
                fix=f"Free it, or set gpu_memory_utilization={largest:g}."
                if largest > 0
                else "Free it, or choose other GPUs with the gpus toggle.",
                level="rig",
            )


RULES = (heads, kv_dtype, longest.context_length, hybrid_sequences, free_memory)
"""In the order in which their findings are shown."""
