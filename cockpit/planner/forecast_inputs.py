"""What a forecast reads besides the checkpoint: the cards, and the flags of the launch that cost memory. Frozen."""

from __future__ import annotations

from cockpit.planner.types import Frozen, KvSettings

DEFAULT_UTILIZATION = 0.92
"""gpu_memory_utilization where it is not set (vllm/config/cache.py)."""


class CardMemory(Frozen, frozen=True, kw_only=True):
    """The memory of one GPU."""

    gpu: int
    """Index on the rig."""
    name: str
    total_bytes: int
    """What CUDA sees of the card."""
    free_bytes: int | None = None
    """Free now; None where nobody measured it."""
    error_bytes: int = 0
    """How far off ``total_bytes`` may be."""


class MemorySettings(Frozen, frozen=True, kw_only=True):
    """Flags of a launch that its memory depends on; None leaves one to vLLM."""

    kv: KvSettings
    utilization: float = DEFAULT_UTILIZATION
    max_num_seqs: int | None = None
    eager: bool = False
    vision: bool = False
    """Whether the vision tower is loaded."""
    int8: bool = False
    humming: bool = False
    """Whether weights of 2, 3, 5, 6 or 7 bits run on the Humming kernel."""
    optimization_level: int = 2
    counts_graphs: bool = True
    """Whether vLLM takes the graphs off the pool (VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS)."""
    kv_cache_bytes: int | None = None
    """Size of the pool when a flag says it; then neither utilization nor profiling count."""
