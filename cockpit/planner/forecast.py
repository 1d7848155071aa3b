"""Checkpoint, flags and cards → how each GPU's memory will be used, and whether one request at full context fits.

Mirrors ``determine_available_memory`` of vllm/v1/worker/gpu_worker.py and ``request_memory`` of v1/worker/utils.py:
KV = ⌈utilization · total⌉ − weights and what is not PyTorch's − peak of profiling − CUDA graphs where the version
counts them. The pool that comes of it is exact; its bytes are as good as their parts.
"""

from __future__ import annotations

import math

import msgspec

from cockpit.checkpoint.types import Checkpoint
from cockpit.planner import runtime
from cockpit.planner.calibration import Lesson
from cockpit.planner.families import kv_model
from cockpit.planner.forecast_inputs import CardMemory, MemorySettings
from cockpit.planner.forecast_types import Basis, Fits, Forecast, GpuForecast, Part
from cockpit.planner.kv import forecast_layout, largest_length
from cockpit.planner.layout import kv_layout
from cockpit.planner.types import KvForecast, KvLayout, KvUnknown
from cockpit.planner.versions import OLDEST_MEMORY
from cockpit.units import GIB, gib, percent, size_text, tokens

TIGHT_FRACTION = 0.02
"""Less headroom than that is worth a word."""
CONTEXT_BYTES = round(0.51 * GIB)
"""Of a CUDA context, which is there before vLLM looks at what is free: 139.29 of 139.80 GiB on an idle H200."""
_ORDER: tuple[Basis, ...] = ("measured", "headers", "config", "declared", "estimated")
_NOTHING = Part(bytes=0, basis="measured")


def unknown(reason: str) -> Forecast:
    """There is no forecast, and this is why."""
    return Forecast(fits="unknown", reason=reason)


def weakest(parts: tuple[Part, ...]) -> Basis:
    """The basis of the part that is known worst."""
    return max((part.basis for part in parts), key=_ORDER.index)


def _gpu(
    card: CardMemory, checkpoint: Checkpoint, settings: MemorySettings, weights: Part, lesson: Lesson | None
) -> GpuForecast:
    """One card's budget and its parts."""
    activation, graphs = runtime.activation(checkpoint, settings), runtime.graphs(checkpoint, settings)
    overhead = runtime.overhead(settings)
    if lesson is not None:
        weights = lesson.weights or weights
        activation = lesson.activation.applied(activation)
        graphs = lesson.graphs.applied(graphs)
        overhead = lesson.overhead.applied(overhead)
    budget = math.ceil(settings.utilization * card.total_bytes)
    counted: tuple[Part, ...] = (weights, activation, overhead)
    if runtime.graphs_off_the_pool(checkpoint, settings):
        counted = (*counted, graphs)
    left = budget - sum(part.bytes for part in counted)
    # What is unsure of the card's size cancels out against a boot with the same utilization.
    unsure = settings.utilization if lesson is None else abs(settings.utilization - lesson.utilization)
    error = sum(part.error_bytes for part in counted) + math.ceil(card.error_bytes * unsure)
    kv = Part(bytes=left, basis=weakest(counted), error_bytes=error)
    if settings.kv_cache_bytes is not None:
        kv = Part(bytes=settings.kv_cache_bytes, basis="config")
    return GpuForecast(
        gpu=card.gpu,
        name=card.name,
        total_bytes=card.total_bytes,
        free_bytes=card.free_bytes,
        budget_bytes=budget,
        weights=weights,
        activation=activation,
        graphs=graphs,
        overhead=overhead,
        kv=kv,
    )


class _Verdict(msgspec.Struct, frozen=True):
    fits: Fits
    reason: str | None = None


def _crowded(gpus: tuple[GpuForecast, ...], settings: MemorySettings) -> _Verdict | None:
    """Whether a card has too little free, or hardly enough, as vLLM would say at its start (request_memory)."""
    for gpu in gpus:
        given = settings.kv_cache_bytes
        wanted, what = gpu.budget_bytes, "vLLM asks for"
        if given is not None:
            parts = (gpu.weights, gpu.activation, gpu.graphs, gpu.overhead)
            wanted, what = given + sum(part.bytes for part in parts), "the plan takes"
        free = gpu.total_bytes if gpu.free_bytes is None else gpu.free_bytes
        asks = f"{what} {gib(wanted, 2)} GiB of GPU {gpu.gpu}, which has {gib(free, 2)} GiB free"
        if wanted > free:
            return _Verdict("no", asks)
        if gpu.free_bytes is not None and wanted > free - CONTEXT_BYTES:
            return _Verdict("tight", f"{asks}, of which CUDA itself takes up to {gib(CONTEXT_BYTES)}")
    return None


def _verdict(kv: KvForecast, pool: Part, layout: KvLayout, length: int, where: str) -> _Verdict:
    """Whether one request fits the pool, whatever of its error band comes true."""
    need = f"one request of {tokens(length)} tokens needs {size_text(kv.bytes_needed, 2)} of KV cache"
    left = f"{size_text(max(0, pool.bytes), 2)}{where} are left"
    if kv.bytes_needed > pool.bytes + pool.error_bytes:
        return _Verdict("no", f"{need}, and {left}" if pool.bytes > 0 else f"{need}, and nothing is left for it")
    if not kv.fits:
        return _Verdict("tight", f"{need}, and {left}, give or take {gib(pool.error_bytes, 2)}")
    spare = kv.capacity_tokens - length
    if spare < TIGHT_FRACTION * length:
        return _Verdict("tight", f"the pool has {tokens(spare)} tokens ({percent(spare / length, 1)}) to spare")
    worst = forecast_layout(layout, length, pool.bytes - pool.error_bytes)
    if not worst.fits:
        return _Verdict("tight", f"{left}, give or take {gib(pool.error_bytes, 2)}: at worst that is too little")
    return _Verdict("yes")


def _layout(checkpoint: Checkpoint, settings: MemorySettings) -> KvLayout | KvUnknown:
    model = kv_model(checkpoint)
    return model if isinstance(model, KvUnknown) else kv_layout(model, settings.kv)


def forecast_cpu(checkpoint: Checkpoint, settings: MemorySettings, host_free_bytes: int | None = None) -> Forecast:
    """On the CPU build the pool is as large as it is told to be, and must be free when it is made.

    ``determine_available_memory`` of vllm/v1/worker/cpu_worker.py. Untold it takes a share of the host's memory less
    what its process holds by then, which nobody knows before.
    """
    layout = _layout(checkpoint, settings)
    if isinstance(layout, KvUnknown):
        return unknown(layout.reason)
    size = settings.kv_cache_bytes
    if size is None:
        return unknown(
            "without whole GiB in VLLM_CPU_KVCACHE_SPACE the pool is a share of the host's memory, less what vLLM's "
            "process holds after its start"
        )
    result = _result((), layout, Part(bytes=size, basis="config"), checkpoint, settings, None)
    if host_free_bytes is None or size <= host_free_bytes or result.fits == "no":
        return result
    reason = f"vLLM asks for {gib(size, 2)} GiB of KV cache, and the host has {gib(host_free_bytes, 2)} GiB free"
    return msgspec.structs.replace(result, fits="no", reason=reason)


def _result(
    gpus: tuple[GpuForecast, ...],
    layout: KvLayout,
    pool: Part,
    checkpoint: Checkpoint,
    settings: MemorySettings,
    lesson: Lesson | None,
) -> Forecast:
    length = settings.kv.max_model_len
    kv = forecast_layout(layout, length, pool.bytes)
    verdict = _verdict(kv, pool, layout, length, " a GPU" if gpus else "")
    crowded = _crowded(gpus, settings)
    if crowded is not None and verdict.fits != "no" and (crowded.fits == "no" or verdict.fits == "yes"):
        verdict = crowded
    return Forecast(
        fits=verdict.fits,
        reason=verdict.reason,
        per_gpu=gpus,
        kv_bytes=max(0, pool.bytes),
        kv=kv,
        headroom_tokens=kv.capacity_tokens - length,
        headroom_fraction=(kv.capacity_tokens - length) / length,
        largest_max_model_len=largest_length(layout, pool.bytes, checkpoint.max_model_len or length),
        missing_bytes=max(0, kv.bytes_needed - pool.bytes),
        error_bytes=pool.error_bytes,
        basis=pool.basis,
        learned_from=None if lesson is None else lesson.learned_from,
    )


def forecast(
    checkpoint: Checkpoint,
    settings: MemorySettings,
    cards: tuple[CardMemory, ...],
    weights: Part | None,
    lesson: Lesson | None = None,
) -> Forecast:
    """Will it fit ``cards``, one rank on each. ``weights`` are those of one rank, None for unknown.

    ``lesson`` is what an earlier boot measured. The changes that would make it fit are left to
    `cockpit.launch.changes`, which knows the toggles.
    """
    layout = _layout(checkpoint, settings)
    if isinstance(layout, KvUnknown):
        return unknown(layout.reason)
    if not cards:
        return unknown("there is no GPU to fit it to")
    if runtime.release(settings) < OLDEST_MEMORY:
        older, known = (".".join(map(str, one)) for one in (runtime.release(settings), OLDEST_MEMORY))
        return unknown(f"what vLLM {older} takes beside its KV pool is not known here; from {known} on it is")
    if weights is None and (lesson is None or lesson.weights is None):
        return unknown("how much memory its weights take is not known")
    gpus = tuple(_gpu(card, checkpoint, settings, weights or _NOTHING, lesson) for card in cards)
    smallest = min(gpus, key=lambda gpu: gpu.kv.bytes)
    shown = tuple(_without_negative(gpu) for gpu in gpus)
    return _result(shown, layout, smallest.kv, checkpoint, settings, lesson)


def _without_negative(gpu: GpuForecast) -> GpuForecast:
    """A pool that is not there has no bytes; how much is missing stands elsewhere."""
    if gpu.kv.bytes >= 0:
        return gpu
    return msgspec.structs.replace(gpu, kv=msgspec.structs.replace(gpu.kv, bytes=0))
