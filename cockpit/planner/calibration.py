"""What a boot measured of itself, and how that corrects the forecasts after it. Pure; files are kept elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from cockpit.checkpoint.types import Checkpoint
from cockpit.planner import runtime
from cockpit.planner.families import kv_model
from cockpit.planner.forecast_inputs import MemorySettings
from cockpit.planner.forecast_types import LearnedFrom, Part
from cockpit.planner.kv import forecast_layout
from cockpit.planner.layout import kv_layout
from cockpit.planner.types import Frozen, KvUnknown
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


class BootSubject(Frozen, frozen=True, kw_only=True):
    """What a boot is about: two of the same subject need the same memory."""

    slug: str
    checkpoint: str
    """Identity of the checkpoint."""
    engine_version: str
    gpu_name: str
    total_bytes: int
    """What the forecast took for the card's memory."""
    settings: MemorySettings


class Boot(Frozen, frozen=True, kw_only=True):
    """One boot that became ready: what ran, on what, and what it took."""

    subject: BootSubject
    at: float
    """Unix time of the spawn."""
    memory: BootMemory


class Shift(Frozen, frozen=True, kw_only=True):
    """Measured minus modelled bytes of a part for the boot's own flags."""

    bytes: int
    modelled_bytes: int
    error_bytes: int = ROUNDING_BYTES

    def applied(self, model: Part) -> Part:
        """The part as modelled for other flags, corrected."""
        moved = abs(model.bytes - self.modelled_bytes)
        size = max(0, model.bytes + self.bytes)
        return Part(bytes=size, basis="measured", error_bytes=self.error_bytes + round(moved * _DRIFT))


class Lesson(Frozen, frozen=True, kw_only=True):
    """What one boot says about a plan."""

    learned_from: LearnedFrom
    utilization: float
    """Of that boot."""
    weights: Part | None
    activation: Shift
    graphs: Shift
    overhead: Shift


def _bytes(gib: float) -> int:
    return round(gib * GIB)


def _shift(measured: int, modelled: Part) -> Shift:
    return Shift(bytes=measured - modelled.bytes, modelled_bytes=modelled.bytes)


def _shape(one: MemorySettings) -> tuple[object, ...]:
    """Flags that choose code paths, and not only amounts."""
    kv = one.kv
    method = kv.speculative_method if kv.speculative_tokens else None
    ways = (one.eager, one.vision, one.int8, one.humming, one.counts_graphs)
    return (kv.tensor_parallel, kv.platform, method, one.optimization_level, *ways)


def may_teach(boot: Boot, subject: BootSubject) -> bool:
    """Whether a boot says something about a plan: the same weights, engine, card, sharing and code paths.

    A plan without an engine, for a rig that is not here, learns of every version.
    """
    past = boot.subject
    same_engine = subject.engine_version in ("", past.engine_version)
    return (
        same_engine
        and (past.checkpoint, past.gpu_name) == (subject.checkpoint, subject.gpu_name)
        and _shape(past.settings) == _shape(subject.settings)
        and worth_keeping(boot)
    )


def _distance(one: MemorySettings, other: MemorySettings) -> tuple[int, int]:
    """How many flags differ: first those that the memory beside the KV cache depends on, then the others."""
    near_kv = ("max_num_batched_tokens", "speculative_tokens")
    far_kv = ("max_model_len", "kv_cache_dtype", "prefix_caching")
    costly = int(one.max_num_seqs != other.max_num_seqs)
    costly += sum(getattr(one.kv, name) != getattr(other.kv, name) for name in near_kv)
    cheap = sum(getattr(one.kv, name) != getattr(other.kv, name) for name in far_kv)
    return costly, cheap + (one.utilization != other.utilization)


def nearest(boots: Iterable[Boot], subject: BootSubject) -> Boot | None:
    """The boot whose flags are closest, the latest of equals; None when none may teach this plan."""
    fit = [boot for boot in boots if may_teach(boot, subject)]
    return min(fit, key=lambda boot: (_distance(boot.subject.settings, subject.settings), -boot.at), default=None)


def lesson_of(boot: Boot, checkpoint: Checkpoint, settings: MemorySettings, fallback: Part | None) -> Lesson | None:
    """How a boot corrects a plan of ``settings``; None when it printed too little.

    The parts that it printed are taken, and as activations what they leave of the budget beside the pool, so that
    the forecast for the boot's own flags gives its own pool. ``fallback`` are the weights as forecast, where it
    printed none.
    """
    memory, then = boot.memory, boot.subject.settings
    weights = fallback
    if memory.weights_gib is not None:
        weights = Part(bytes=_bytes(memory.weights_gib), basis="measured", error_bytes=ROUNDING_BYTES)
    if memory.available_kv_gib is None or then.kv_cache_bytes is not None or weights is None:
        return None
    # The total as the forecast had it: taken wrongly, it cancels out in the next one.
    budget = math.ceil(then.utilization * boot.subject.total_bytes)
    beside = budget - _pool_bytes(memory, memory.available_kv_gib, checkpoint, then)
    graphs = _graph_bytes(memory, runtime.graphs(checkpoint, then))
    overhead = _overhead_bytes(memory, then)
    counted = graphs if runtime.graphs_off_the_pool(checkpoint, then) else 0
    peak = beside - weights.bytes - overhead - counted
    slug, exact = boot.subject.slug, _distance(then, settings) == (0, 0)
    return Lesson(
        learned_from=LearnedFrom(slug=slug, at=boot.at, exact=exact),
        utilization=then.utilization,
        weights=weights if memory.weights_gib is not None else None,
        activation=_shift(peak, runtime.activation(checkpoint, then)),
        graphs=_shift(graphs, runtime.graphs(checkpoint, then)),
        overhead=_shift(overhead, runtime.overhead(then)),
    )


def _pool_bytes(memory: BootMemory, printed_gib: float, checkpoint: Checkpoint, settings: MemorySettings) -> int:
    """The pool behind a printed figure: of the bytes that round to it, those that make the printed tokens."""
    size = _bytes(printed_gib)
    model = kv_model(checkpoint)
    layout = model if isinstance(model, KvUnknown) else kv_layout(model, settings.kv)
    if memory.capacity_tokens is None or isinstance(layout, KvUnknown):
        return size
    block, length = layout.bytes_per_block, settings.kv.max_model_len
    for blocks in range((size - ROUNDING_BYTES) // block, (size + ROUNDING_BYTES) // block + 1):
        if forecast_layout(layout, length, blocks * block).capacity_tokens == memory.capacity_tokens:
            return min(max(size, blocks * block), (blocks + 1) * block - 1)
    return size


def _graph_bytes(memory: BootMemory, modelled: Part) -> int:
    """What vLLM took off the pool for graphs where it printed that, else what they took."""
    printed = memory.graphs_gib if memory.graphs_estimate_gib is None else memory.graphs_estimate_gib
    return modelled.bytes if printed is None else max(0, _bytes(printed))


def _overhead_bytes(memory: BootMemory, settings: MemorySettings) -> int:
    if memory.non_torch_gib is not None:
        return _bytes(memory.non_torch_gib)
    if memory.consumed_gib is not None and memory.weights_gib is not None:
        return max(0, _bytes(memory.consumed_gib) - _bytes(memory.weights_gib))
    return runtime.overhead(settings).bytes


def worth_keeping(boot: Boot) -> bool:
    """Whether a boot measured what a forecast needs."""
    return boot.memory.available_kv_gib is not None and boot.subject.settings.kv_cache_bytes is None


def latest(boots: Iterable[Boot], limit: int) -> tuple[Boot, ...]:
    """At most ``limit`` boots, the newest first; of one subject only the newest."""
    kept: dict[bytes, Boot] = {}
    for boot in sorted(boots, key=lambda one: -one.at):
        kept.setdefault(msgspec.json.encode(boot.subject), boot)
    return tuple(list(kept.values())[:limit])
