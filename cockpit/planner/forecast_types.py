"""What the forecast says of a launch: bytes by part and GPU, the KV pool, and what would make it fit. Frozen."""

from __future__ import annotations

from typing import Any, Literal

from cockpit.planner.types import Frozen, KvForecast

Basis = Literal["measured", "headers", "config", "declared", "estimated"]
"""Where a figure comes from, best first: a boot of this checkpoint, safetensors headers, config.json, the slug's
own words, a general estimate."""
Fits = Literal["yes", "tight", "no", "unknown"]


class Part(Frozen, frozen=True, kw_only=True):
    """Bytes of one use of a GPU's memory."""

    bytes: int
    basis: Basis
    error_bytes: int = 0
    """How far off, either way, the figure may be."""


class GpuForecast(Frozen, frozen=True, kw_only=True):
    """How one GPU's memory is going to be used."""

    gpu: int
    """Index on the rig."""
    name: str
    total_bytes: int
    """What CUDA sees of the card."""
    free_bytes: int | None
    """Free now; None where nobody measured it, as on a described rig."""
    budget_bytes: int
    """vLLM's share: ceil(utilization · total)."""
    weights: Part
    activation: Part
    """Peak of the profiling run."""
    graphs: Part
    """CUDA graphs."""
    overhead: Part
    """Taken outside PyTorch: context, NCCL, workspaces."""
    kv: Part
    """What is left of the budget for the KV pool; 0 when nothing is."""


class Change(Frozen, frozen=True, kw_only=True):
    """A change of one toggle that makes it fit, computed with that value in place."""

    set: dict[str, Any]
    """Toggle id → value."""
    capacity_tokens: int
    max_concurrency: float


class LearnedFrom(Frozen, frozen=True, kw_only=True):
    """The boot that a forecast was corrected by."""

    slug: str
    at: float
    """Unix time of that boot."""
    exact: bool
    """Whether the same flags were in force, or a nearby boot (other context, other utilization)."""


class Forecast(Frozen, frozen=True, kw_only=True):
    """Will it fit, and with how much room."""

    fits: Fits
    reason: str | None = None
    """Why it does not fit, is tight or is unknown: one sentence without a full stop at its end."""
    per_gpu: tuple[GpuForecast, ...] = ()
    kv_bytes: int | None = None
    """Of the pool: the smallest GPU's, or what the CPU build is told to take; None is unknown."""
    kv: KvForecast | None = None
    """What vLLM makes of it; None is unknown."""
    headroom_tokens: int | None = None
    """capacity − max_model_len; negative when one request does not fit."""
    headroom_fraction: float | None = None
    """Of max_model_len."""
    largest_max_model_len: int | None = None
    """Longest context with which it boots, no longer than the model's own; 0 when none does."""
    missing_bytes: int = 0
    """What a GPU lacks for one request of max_model_len tokens."""
    error_bytes: int | None = None
    """How far off the bytes of the KV pool of one GPU may be, either way."""
    basis: Basis | None = None
    """The weakest basis among weights and runtime parts."""
    learned_from: LearnedFrom | None = None
    changes: tuple[Change, ...] = ()
    """Smallest changes that make it fit; empty when it fits or none does."""

    @property
    def error_tokens(self) -> int | None:
        """How far off the pool's tokens may be, either way; None where either figure is unknown."""
        kv = self.kv
        if kv is None or self.error_bytes is None or kv.blocks == 0:
            return None
        return round(self.error_bytes * kv.capacity_tokens / (kv.blocks * kv.bytes_per_block))
