"""What a boot measured of itself, and how that corrects the forecasts after it. Pure; files are kept elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from cockpit.checkpoint.types import Checkpoint
from cockpit.planner import runtime
from cockpit.planner.forecast_inputs import MemorySettings
from cockpit.planner.forecast_types import LearnedFrom, Part
from cockpit.planner.types import Frozen
from cockpit.units import GIB

ROUNDING_BYTES = round(0.005 * GIB)
"""vLLM prints GiB with two decimals."""
_DRIFT = 0.5
"""Of a modelled difference to the boot that was measured, so much may be wrong."""


class BootMemory(Frozen, frozen=True, kw_only=True):
    """Figures that vLLM printed about one rank's memory, in GiB; None was not printed."""

    weights_gib: float | None = None
    available_kv_gib: float | None = None
    total_gib: float | None = None
    """What CUDA sees of the card."""
    activation_gib: float | None = None
    """Peak of profiling; with the estimate of the graphs since vLLM 0.27."""
    consumed_gib: float | None = None
    """Weights and what is not PyTorch's together, since vLLM 0.27."""
    non_torch_gib: float | None = None
    """Before that."""
    graphs_gib: float | None = None
    """What the graphs really took."""
    graphs_estimate_gib: float | None = None
    capacity_tokens: int | None = None


class Boot(Frozen, frozen=True, kw_only=True):
    """One boot that became ready: what ran, on what, and what it took."""

    slug: str
    at: float
    """Unix time."""
    checkpoint: str
    """Identity of the checkpoint."""
    engine_version: str
    gpu_name: str
    total_bytes: int
    """What the forecast took for the card's memory; used where the boot did not print it."""
    settings: MemorySettings
    memory: BootMemory


class Shift(Frozen, frozen=True, kw_only=True):
    """Measured minus modelled bytes of a part for the boot's own flags."""

    bytes: int | None
    """None: that part was not measured."""
    modelled_bytes: int = 0
    error_bytes: int = ROUNDING_BYTES

    def applied(self, model: Part) -> Part:
        """The part as modelled for other flags, corrected."""
        if self.bytes is None:
            return model
        moved = abs(model.bytes - self.modelled_bytes)
        size = max(0, model.bytes + self.bytes)
        return Part(bytes=size, basis="measured", error_bytes=self.error_bytes + round(moved * _DRIFT))


class Lesson(Frozen, frozen=True, kw_only=True):
    """What one boot says about a plan."""

    learned_from: LearnedFrom
    weights: Part | None
    activation: Shift
    graphs: Shift
    overhead: Shift


def _bytes(gib: float) -> int:
    return round(gib * GIB)


def _shift(measured: float | None, modelled: Part) -> Shift:
    if measured is None:
        return Shift(bytes=None)
    return Shift(bytes=round(measured) - modelled.bytes, modelled_bytes=modelled.bytes)


def same_subject(boot: Boot, checkpoint: str, engine_version: str, gpu_name: str, settings: MemorySettings) -> bool:
    """Whether a boot may teach a plan: the same weights, engine, card, sharing and code paths."""

    def shape(one: MemorySettings) -> tuple[object, ...]:
        kv = one.kv
        drafts = (kv.speculative_tokens > 0, kv.speculative_method if kv.speculative_tokens else "")
        return (
            kv.tensor_parallel,
            kv.platform,
            drafts,
            one.eager,
            one.vision,
            one.int8,
            one.humming,
            one.counts_graphs,
        )

    return (
        (boot.checkpoint, boot.engine_version, boot.gpu_name) == (checkpoint, engine_version, gpu_name)
        and shape(boot.settings) == shape(settings)
        and boot.memory.available_kv_gib is not None
    )


def _distance(one: MemorySettings, other: MemorySettings) -> tuple[int, int]:
    """How many flags differ: first those that the memory beside the KV cache depends on, then the others."""
    near = ("max_num_seqs", "optimization_level")
    near_kv = ("max_num_batched_tokens", "speculative_tokens")
    far_kv = ("max_model_len", "kv_cache_dtype", "prefix_caching")
    costly = sum(getattr(one, name) != getattr(other, name) for name in near)
    costly += sum(getattr(one.kv, name) != getattr(other.kv, name) for name in near_kv)
    cheap = sum(getattr(one.kv, name) != getattr(other.kv, name) for name in far_kv)
    return costly, cheap + (one.utilization != other.utilization)


def nearest(
    boots: Iterable[Boot], checkpoint: str, engine_version: str, gpu_name: str, settings: MemorySettings
) -> Boot | None:
    """The boot whose flags are closest, the latest of equals; None when none may teach this plan."""
    fit = [boot for boot in boots if same_subject(boot, checkpoint, engine_version, gpu_name, settings)]
    return min(fit, key=lambda boot: (_distance(boot.settings, settings), -boot.at), default=None)


def lesson_of(boot: Boot, checkpoint: Checkpoint, settings: MemorySettings, fallback: Part | None) -> Lesson | None:
    """How a boot corrects a plan of ``settings``; None when it printed too little.

    The parts that it printed are taken, and what they leave of the budget beside the pool, so that the forecast for
    the boot's own flags gives its own pool. ``fallback`` are the weights as forecast, where it printed none.
    """
    memory, then = boot.memory, boot.settings
    if memory.available_kv_gib is None or then.kv_cache_bytes is not None:
        return None
    total = _bytes(memory.total_gib) if memory.total_gib is not None else boot.total_bytes
    beside = math.ceil(then.utilization * total) - _bytes(memory.available_kv_gib)
    counted = runtime.graphs_off_the_pool(checkpoint, then)
    graphs = runtime.graphs(checkpoint, then)
    weights = fallback
    if memory.weights_gib is not None:
        weights = Part(bytes=_bytes(memory.weights_gib), basis="measured", error_bytes=ROUNDING_BYTES)
    if weights is None:
        return None
    in_pool = (memory.graphs_estimate_gib if memory.graphs_estimate_gib is not None else memory.graphs_gib) or 0.0
    graph_bytes = _bytes(in_pool) if memory.graphs_gib is not None or memory.graphs_estimate_gib else graphs.bytes
    graph_bytes = max(0, graph_bytes)
    off_the_pool = graph_bytes if counted else 0
    overhead_bytes = _overhead_bytes(memory, then)
    peak = beside - weights.bytes - overhead_bytes - off_the_pool
    return Lesson(
        learned_from=LearnedFrom(slug=boot.slug, at=boot.at, exact=_distance(then, settings) == (0, 0)),
        weights=weights if memory.weights_gib is not None else None,
        activation=_shift(peak, runtime.activation(checkpoint, then)),
        graphs=_shift(graph_bytes, graphs),
        overhead=_shift(overhead_bytes, runtime.overhead(then)),
    )


def _overhead_bytes(memory: BootMemory, settings: MemorySettings) -> int:
    if memory.non_torch_gib is not None:
        return _bytes(memory.non_torch_gib)
    if memory.consumed_gib is not None and memory.weights_gib is not None:
        return max(0, _bytes(memory.consumed_gib) - _bytes(memory.weights_gib))
    return runtime.overhead(settings).bytes


def worth_keeping(boot: Boot) -> bool:
    """Whether a boot measured what a forecast needs."""
    return boot.memory.available_kv_gib is not None and boot.settings.kv.platform == "cuda"


def newest_first(boots: Iterable[Boot], limit: int) -> list[Boot]:
    """At most ``limit`` boots, of equal flags only the latest."""
    kept: list[Boot] = []
    for boot in sorted(boots, key=lambda one: -one.at):
        same = (msgspec.structs.replace(boot, slug="", at=0, memory=BootMemory()),)
        if all(msgspec.structs.replace(one, slug="", at=0, memory=BootMemory()) not in same for one in kept):
            kept.append(boot)
    return kept[:limit]
