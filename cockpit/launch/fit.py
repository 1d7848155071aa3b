"""How a checkpoint lies on a rig: over how many GPUs, and with how long a context. For a first slug."""

from __future__ import annotations

import msgspec

from cockpit.checkpoint.types import Checkpoint
from cockpit.launch.forecast import MARLIN_WIDTHS, seen_by_cuda
from cockpit.planner.families import kv_model
from cockpit.planner.forecast import forecast
from cockpit.planner.forecast_inputs import CardMemory, MemorySettings
from cockpit.planner.forecast_types import Part
from cockpit.planner.kv import largest_max_model_len
from cockpit.planner.types import KvSettings, KvUnknown
from cockpit.planner.weights import rank_weights
from cockpit.rig.types import Gpu, Rig
from cockpit.rules.parallel import WITHOUT_KV, keeps_state, unshared
from cockpit.units import GIB, gib

UTILIZATION = 0.92
"""Share of each GPU that vLLM may fill: its own default."""
_RESERVE_BYTES = 2 * GIB
"""Left for activations, CUDA graphs and the runtime itself; the first boot says how much they really take."""
_KV_SHARE = 0.95
"""Of what is left, for the KV pool."""
_FALLBACK_CONTEXT = 32768
_STEP_TOKENS = 1024
DRAFT_TOKENS = 3
"""Guessed ahead by the MTP head of a first slug."""
HYBRID_SEQUENCES = 8
"""Of a first slug for a model that keeps one state block a sequence."""
_MIN_CONTEXT, _MAX_CONTEXT = 16, 16 << 20
"""What a slug's max_model_len may be."""


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """How a checkpoint lies on a rig."""

    tensor_parallel: int
    parallel_why: str
    left_bytes: int | None
    """Certainly left for the KV pool, a GPU; None when there is no GPU to measure against."""
    settings: MemorySettings | None = None
    """What that was forecast with; None where it is a rough figure."""


def within(length: int, checkpoint: Checkpoint) -> int:
    """``length`` in tokens, but no longer than the model's own, and such as a slug may have."""
    return max(_MIN_CONTEXT, min(length, checkpoint.max_model_len or length, _MAX_CONTEXT))


def _settings(checkpoint: Checkpoint, gpu: Gpu, total: int, parallel: int) -> MemorySettings:
    """The flags that a first slug will have."""
    kv = KvSettings(
        max_model_len=_STEP_TOKENS,
        tensor_parallel=parallel,
        speculative_tokens=DRAFT_TOKENS if checkpoint.mtp_layers else 0,
        capability=gpu.capability,
        gpu_total_bytes=total,
        gpu_name=gpu.name,
    )
    sequences = HYBRID_SEQUENCES if keeps_state(checkpoint) else None
    widths = {scheme.bits for scheme, _ in checkpoint.quantization.schemes if scheme.kind == "int"}
    return MemorySettings(
        kv=kv,
        utilization=UTILIZATION,
        max_num_seqs=sequences,
        vision=checkpoint.vision,
        humming=not MARLIN_WIDTHS.issuperset(widths),
    )


def _certainly_left(checkpoint: Checkpoint, settings: MemorySettings) -> int | None:
    """Bytes of the KV pool even if the forecast is at its worst; None where there is none."""
    kv = settings.kv
    found = rank_weights(
        checkpoint,
        tensor_parallel=kv.tensor_parallel,
        speculative_tokens=kv.speculative_tokens,
        vision=settings.vision,
    )
    if found is None or kv.gpu_total_bytes is None:
        return None
    weights = Part(bytes=found.bytes, basis=found.basis, error_bytes=found.error_bytes)
    card = CardMemory(gpu=0, name=kv.gpu_name or "", total_bytes=kv.gpu_total_bytes)
    result = forecast(checkpoint, settings, (card,), weights)
    pool = result.per_gpu[0].kv if result.per_gpu else None
    return None if pool is None else max(0, pool.bytes - pool.error_bytes)


def fit_to(checkpoint: Checkpoint, rig: Rig) -> Fit:
    """The fewest GPUs, a power of two that divides the heads, on which the weights leave room."""
    sizes = [(seen[0], gpu) for gpu in rig.gpus if (seen := seen_by_cuda(gpu, rig.wsl)) is not None]
    weights = None if checkpoint.sizes is None else checkpoint.sizes.total
    if not sizes or weights is None:
        return Fit(tensor_parallel=1, parallel_why="no GPU and weight sizes to fit them to", left_bytes=None)
    smallest, gpu = min(sizes, key=lambda one: one[0])
    fits: list[Fit] = []
    for parallel in (1, 2, 4, 8):
        if parallel > len(sizes) or unshared(checkpoint, parallel) is not None:
            continue
        settings = _settings(checkpoint, gpu, smallest, parallel)
        left = _certainly_left(checkpoint, settings)
        rough = int(UTILIZATION * smallest) - weights // parallel - _RESERVE_BYTES
        fits.append(
            Fit(
                tensor_parallel=parallel,
                parallel_why=f"{gib(weights / parallel)} GiB of weights a GPU of {gib(smallest)} GiB",
                left_bytes=max(0, rough) if left is None else left,
                settings=None if left is None else settings,
            )
        )
        if (fits[-1].left_bytes or 0) > _RESERVE_BYTES // 2:
            return fits[-1]
    widest = fits[-1]
    return msgspec.structs.replace(widest, parallel_why=f"{widest.parallel_why}: more than fits this rig well")


def kv_bytes_per_token(checkpoint: Checkpoint, parallel: int) -> int:
    """Bytes of 16-bit keys and values a token and a GPU: 2 · max(1, KV heads / TP) · head dim · 2 B · layers."""
    caching = (
        sum(count for kind, count in checkpoint.layers.items() if kind not in WITHOUT_KV) + checkpoint.mtp_layers
    )
    return 2 * max(1, checkpoint.kv_heads // parallel) * checkpoint.head_dim * 2 * caching


def context_of(checkpoint: Checkpoint, fit: Fit) -> tuple[int, str, str]:
    """Context in tokens, KV type, and why: the model's own where it fits, else what does."""
    native, layout = checkpoint.max_model_len, kv_model(checkpoint)
    if isinstance(layout, KvUnknown):
        return within(_FALLBACK_CONTEXT, checkpoint), "auto", f"cautious: {layout.reason}"
    if fit.left_bytes is None:
        why = "cautious: there is nothing here to fit it to"
        return within(_FALLBACK_CONTEXT, checkpoint), "auto", why
    wanted = within(native or _FALLBACK_CONTEXT, checkpoint)
    why = "the model's own" if native is not None else "config.json does not say how long it may be"
    longest = {dtype: _longest(checkpoint, fit, dtype) for dtype in ("auto", "fp8_e4m3")}
    for dtype, length in longest.items():
        if wanted <= length:
            return wanted, dtype, why
    length = longest["fp8_e4m3"] // _STEP_TOKENS * _STEP_TOKENS
    sure = "about" if fit.settings is None else "certainly"
    why = f"what {gib(fit.left_bytes)} GiB a GPU {sure} hold"
    return within(max(_STEP_TOKENS, length), checkpoint), "fp8_e4m3", why


def _longest(checkpoint: Checkpoint, fit: Fit, dtype: str) -> int:
    """The longest context that what is left holds."""
    left = fit.left_bytes or 0
    model = kv_model(checkpoint)
    if fit.settings is not None and not isinstance(model, KvUnknown):
        kv = msgspec.structs.replace(fit.settings.kv, kv_cache_dtype=dtype)
        found = largest_max_model_len(model, kv, left)
        if isinstance(found, int):
            return found
    per_token = kv_bytes_per_token(checkpoint, fit.tensor_parallel) // (1 if dtype == "auto" else 2)
    return int(left * _KV_SHARE / per_token) if per_token else _MAX_CONTEXT
