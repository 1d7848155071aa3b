"""A plan's context → what the planner asks for → its forecast. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from cockpit.checkpoint.types import Checkpoint
from cockpit.launch.types import LaunchPlan
from cockpit.planner.calibration import Boot, BootSubject, Lesson, lesson_of, nearest
from cockpit.planner.declared import Launch, declared_weights
from cockpit.planner.forecast import forecast, forecast_cpu, unknown
from cockpit.planner.forecast_inputs import DEFAULT_UTILIZATION, CardMemory, MemorySettings
from cockpit.planner.forecast_types import Forecast, Part
from cockpit.planner.types import KvSettings
from cockpit.planner.weights import rank_weights
from cockpit.rig.facts import asks_for_segments
from cockpit.rig.types import Gpu
from cockpit.rules.context import Context
from cockpit.rules.int8 import int8_state
from cockpit.units import GIB

_UNSEEN_BYTES, _UNSEEN_ERROR = round(0.45 * GIB), round(0.2 * GIB)
"""CUDA sees so much less of a card than NVML counts, where the driver does not say: 0.43 to 0.6 GiB."""
_WSL_BYTES, _WSL_ERROR = round(1.3 * GIB), round(0.4 * GIB)
_SIZE = re.compile(r"(\d{1,15}(?:\.\d+)?)(?:([kKmMgGtT])i?[bB]?)?")
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
MARLIN_WIDTHS = frozenset({4, 8, 16})
"""Widths for which there are other kernels than Humming."""
_OTHER_SHARES = {
    "pipeline-parallel-size": "the stages of a pipeline",
    "cpu-offload-gb": "weights that are moved to the host's memory",
    "decode-context-parallel-size": "a context that is shared by ranks",
    "prefill-context-parallel-size": "a context that is shared by ranks",
}
"""Flags whose effect on a card's memory is not modelled, unless they are 0 or 1."""
_BESIDE_THE_POOL = ("cpu-offload-gb",)
"""Of them those that change how large a pool is, and nothing of what is made of it."""
_OTHER_POOLS = {
    "kv-cache-dtype-skip-layers": "layers whose KV cache has another type",
    "block-size": "blocks of a given size",
    "mamba-block-size": "blocks of a given size",
    "mamba-cache-dtype": "states of a given type",
    "mamba-ssm-cache-dtype": "states of a given type",
    "mamba-cache-mode": "states that are kept in another way",
    "num-gpu-blocks-override": "a given number of blocks",
    "disable-hybrid-kv-cache-manager": "layers that are all treated as full attention",
    "disable-sliding-window": "layers without their windows",
    "enable-lora": "adapters",
}
"""Flags whose effect on the pool is not modelled."""
_HALF_TYPES = ("auto", "half", "float16", "bfloat16")


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """What a forecast is about, beside the toggles: none of it changes while a card is open."""

    checkpoint: Checkpoint | None
    """As its files say, else as the slug declares it."""
    declared: bool = False
    """Whether ``checkpoint`` is what the slug declares, as its files are not here."""
    source: str = ""
    """The repository or the checkpoint's folder, as vLLM is given it."""
    boots: tuple[Boot, ...] = ()
    environ: Mapping[str, str] = {}


def _size(value: object) -> int | None:
    """Bytes of a flag's value such as 9000000000 or 9G, as vLLM reads it (human_readable_int); None for nonsense."""
    match = _SIZE.fullmatch(str(value).strip())
    return None if match is None else int(float(match[1]) * _UNITS[match[2] or ""])


def whole_number(value: object) -> int | None:
    """A flag's value such as 8192 or 8k, as vLLM reads it; None for one that is none above 0."""
    size = _size(value)
    return size if size is not None and not isinstance(value, bool) and size > 0 else None


def _variable(ctx: Context, subject: Subject, name: str) -> str:
    return ctx.slug.env.get(name, subject.environ.get(name, ""))


def _pool_bytes(ctx: Context, subject: Subject) -> int | None:
    """Size of the KV pool where a flag says it, or the CPU build's variable, which counts more (platforms/cpu.py)."""
    flags = ctx.slug.flags
    space = _variable(ctx, subject, "VLLM_CPU_KVCACHE_SPACE") if ctx.slug.platform == "cpu" else ""
    if not space:
        return whole_number(flags.get("kv-cache-memory-bytes", flags.get("kv-cache-memory")))
    whole = re.fullmatch(r"\s*\+?(\d{1,9})\s*", space)
    return None if whole is None else int(whole[1]) * GIB


def seen_by_cuda(gpu: Gpu, wsl: bool) -> tuple[int, int] | None:
    """Bytes of a card that CUDA sees, and how far off that may be; None where nobody knows its memory."""
    if gpu.usable_bytes is not None and not wsl:
        return gpu.usable_bytes, 0
    if gpu.total_bytes is None:
        return None
    less, error = (_WSL_BYTES, _WSL_ERROR) if wsl else (_UNSEEN_BYTES, _UNSEEN_ERROR)
    if gpu.usable_bytes is not None and gpu.usable_bytes < gpu.total_bytes - less:
        return gpu.usable_bytes, error
    less = min(less, gpu.total_bytes // 20)
    return gpu.total_bytes - less, error


def _cards(ctx: Context) -> tuple[CardMemory, ...] | str:
    """The card of each rank, or why they are not known."""
    by_index = {gpu.index: gpu for gpu in ctx.rig.gpus}
    parallel = ctx.values.get("tensor_parallel") or 1
    indices = ctx.gpu_indices[:parallel]
    if not by_index:
        return "there is no GPU to fit it to"
    if missing := [index for index in indices if index not in by_index]:
        return f"this rig has no GPU {', '.join(map(str, missing))}"
    if len(indices) < parallel:
        return f"tensor parallel {parallel} needs {parallel} GPUs, the plan has {len(indices)}"
    cards = []
    for index in indices:
        gpu = by_index[index]
        seen = seen_by_cuda(gpu, ctx.rig.wsl)
        if seen is None:
            return f"how much memory GPU {index} has is not known"
        measured = ctx.rig.described is None and gpu.used_bytes is not None
        cards.append(
            CardMemory(
                gpu=index,
                name=gpu.name,
                total_bytes=seen[0],
                free_bytes=max(0, seen[0] - (gpu.used_bytes or 0)) if measured else None,
                error_bytes=seen[1],
            )
        )
    return tuple(cards)


def memory_settings(ctx: Context, subject: Subject, cards: tuple[CardMemory, ...]) -> MemorySettings:
    """The plan's flags as the planner reads them."""
    values, flags, spec = ctx.values, ctx.slug.flags, ctx.slug.speculative
    caching, engine = values.get("prefix_caching"), ctx.engine
    smallest = min(cards, key=lambda card: card.total_bytes, default=None)
    cpu = ctx.slug.platform == "cpu"
    vision = values.get("vision") == "on" and flags.get("language-model-only") is not True
    kv = KvSettings(
        max_model_len=values["max_model_len"],
        tensor_parallel=values.get("tensor_parallel") or 1,
        kv_cache_dtype=values.get("kv_cache_dtype", "auto"),
        speculative_tokens=values.get("speculative_tokens") or 0,
        speculative_method=spec.method if spec else "mtp",
        prefix_caching=None if caching is None else caching == "on",
        platform=ctx.slug.platform,
        engine_version=engine.version if engine is not None else None,
        capability=None if cpu else min(ctx.capabilities, default=None),
        cuda_runtime=None if engine is None or engine.cuda is None else engine.cuda[0],
        max_num_batched_tokens=whole_number(flags.get("max-num-batched-tokens")),
        gpu_total_bytes=None if smallest is None else smallest.total_bytes,
        gpu_name=None if smallest is None else smallest.name,
        vision=vision,
    )
    return MemorySettings(
        kv=kv,
        utilization=values.get("gpu_memory_utilization") or DEFAULT_UTILIZATION,
        max_num_seqs=values.get("max_num_seqs"),
        eager=values.get("enforce_eager") == "on",
        vision=vision,
        int8=_int8(ctx),
        humming=not MARLIN_WIDTHS.issuperset(_widths(ctx)),
        optimization_level=_level(flags.get("optimization-level")),
        counts_graphs=_variable(ctx, subject, "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS") != "0",
        kv_cache_bytes=_pool_bytes(ctx, subject),
    )


def _int8(ctx: Context) -> bool:
    """Whether the plan switches int8 activations on: what the checkpoint forbids is not in the command."""
    if ctx.values.get("int8") != "on":
        return False
    state = int8_state(ctx)
    return state.state == "offered" or state.level == "rig"


def _widths(ctx: Context) -> set[int]:
    """Bits of the integer weights, by the files or in the slug's own words."""
    if ctx.checkpoint is not None:
        return {scheme.bits for scheme, _ in ctx.checkpoint.quantization.schemes if scheme.kind == "int"}
    weights = ctx.slug.weights
    return set(weights.widths or ([weights.bits] if weights.bits else []))


def _level(value: object) -> int:
    text = str(value).removeprefix("O")
    return int(text) if text in ("0", "1", "2", "3") else 2


def _segments(ctx: Context, subject: Subject) -> bool:
    """Whether PyTorch has expandable segments: a plan asks for them where nobody says otherwise."""
    names = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
    said = [text for name in names if (text := _variable(ctx, subject, name))]
    return any(asks_for_segments(text) for text in said) if said else not ctx.rig.wsl


def _weights(ctx: Context, subject: Subject, settings: MemorySettings) -> Part | None:
    """Of one rank."""
    checkpoint = subject.checkpoint
    if checkpoint is None:
        return None
    kv = settings.kv
    loaded: Launch = {
        "tensor_parallel": kv.tensor_parallel,
        "speculative_tokens": kv.speculative_tokens,
        "speculative_method": kv.speculative_method,
        "vision": settings.vision,
        "engine_version": kv.engine_version,
        "expandable_segments": _segments(ctx, subject),
    }
    if subject.declared:
        found = declared_weights(checkpoint, ctx.slug.weights, **loaded)
    else:
        found = rank_weights(checkpoint, **loaded)
    return None if found is None else Part(bytes=found.bytes, basis=found.basis, error_bytes=found.error_bytes)


def identity_of(checkpoint: Checkpoint, source: str) -> str:
    """What tells one set of weights from another in the records of boots.

    The same before and after a repository's files have come; a folder's content may be replaced, so its size counts.
    """
    size = checkpoint.sizes.total if checkpoint.folder is not None and checkpoint.sizes is not None else 0
    return f"{source} {checkpoint.architecture} {checkpoint.n_layers}x{checkpoint.hidden_size}" + (
        f" {size}" if source.startswith("/") else ""
    )


def _boot_subject(ctx: Context, subject: Subject, settings: MemorySettings) -> BootSubject | None:
    """What a boot of this plan is going to be about; None where it teaches nothing."""
    name, total = settings.kv.gpu_name, settings.kv.gpu_total_bytes
    if subject.checkpoint is None or name is None or total is None:
        return None
    return BootSubject(
        slug=ctx.slug.name,
        checkpoint=identity_of(subject.checkpoint, subject.source),
        engine_version=ctx.engine.version if ctx.engine is not None else "",
        gpu_name=name,
        total_bytes=total,
        settings=settings,
    )


def boot_subject(ctx: Context, subject: Subject) -> BootSubject | None:
    """What a boot of this plan is going to be about; None where it teaches nothing: no GPU, nothing known."""
    cards = _cards(ctx) if ctx.slug.platform != "cpu" else ""
    if isinstance(cards, str) or subject.checkpoint is None:
        return None
    return _boot_subject(ctx, subject, memory_settings(ctx, subject, cards))


def planned(plan: LaunchPlan) -> dict[str, Any]:
    """What the record of an instance keeps: its forecast, and what its boot can teach the next one."""
    kept: dict[str, Any] = msgspec.to_builtins({"forecast": plan.forecast, "boot": plan.boot})
    return kept


def _lesson(ctx: Context, subject: Subject, settings: MemorySettings, weights: Part | None) -> Lesson | None:
    about = _boot_subject(ctx, subject, settings) if subject.boots else None
    boot = None if about is None else nearest(subject.boots, about)
    if boot is None or subject.checkpoint is None:
        return None
    return lesson_of(boot, subject.checkpoint, settings, weights)


def not_modelled(flags: Mapping[str, Any], pool_alone: bool = False) -> str | None:
    """Why nothing is known of the memory, or of its pool alone, where one of a slug's further flags decides on it."""
    for flag, what in _OTHER_SHARES.items():
        beside = pool_alone and flag in _BESIDE_THE_POOL
        if not beside and flags.get(flag, 1) not in (1, 0, "1", "0"):
            return f"how {what} share the memory is not known here (--{flag})"
    for flag, what in _OTHER_POOLS.items():
        if flags.get(flag, False) not in (False, "auto", []):
            return f"what {what} make of the pool is not known here (--{flag})"
    if flags.get("dtype", "auto") not in _HALF_TYPES:
        return f"what a model in {str(flags['dtype'])[:20]} takes is not known here (--dtype)"
    return None


def gpus_missing(ctx: Context) -> int | None:
    """How many GPUs the plan takes, where the rig has fewer."""
    wanted = max(len(ctx.gpu_indices), ctx.values.get("tensor_parallel") or 1)
    return wanted if ctx.slug.platform != "cpu" and wanted > len(ctx.rig.gpus) else None


def forecast_of(ctx: Context, subject: Subject) -> Forecast:
    """Will this plan fit; without the changes that would make it."""
    wanted = gpus_missing(ctx)
    if wanted is not None:
        gpus = "1 GPU" if wanted == 1 else f"{wanted} GPUs"
        return Forecast(fits="no", reason=f"it takes {gpus}, and this rig has {len(ctx.rig.gpus) or 'none'}")
    checkpoint = subject.checkpoint
    if checkpoint is None:
        return unknown("the checkpoint's files are not on this machine")
    if (reason := not_modelled(ctx.slug.flags)) is not None:
        return unknown(reason)
    if ctx.slug.platform == "cpu":
        free = None if ctx.rig.described else ctx.rig.memory_available_bytes or None
        return forecast_cpu(checkpoint, memory_settings(ctx, subject, ()), free)
    cards = _cards(ctx)
    if isinstance(cards, str):
        return unknown(cards)
    settings = memory_settings(ctx, subject, cards)
    weights = _weights(ctx, subject, settings)
    return forecast(checkpoint, settings, cards, weights, _lesson(ctx, subject, settings, weights))


def with_values(ctx: Context, **changed: Any) -> Context:
    """The same plan with other values of some toggles."""
    return msgspec.structs.replace(ctx, values={**ctx.values, **changed})
