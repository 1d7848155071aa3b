"""How a checkpoint lies on a rig: over how many GPUs, and with how long a context. Rough, for a first slug."""

from __future__ import annotations

import msgspec

from cockpit.checkpoint.types import Checkpoint
from cockpit.rig.types import Gpu, Rig
from cockpit.rules.parallel import WITHOUT_KV, unshared
from cockpit.units import GIB, gib, tokens

UTILIZATION = 0.92
"""Share of each GPU that vLLM may fill: its own default."""
_RESERVE_BYTES = 2 * GIB
"""Left for activations, CUDA graphs and the runtime itself; the first boot says how much they really take."""
_KV_SHARE = 0.95
"""Of what is left, for the KV pool."""
_FALLBACK_CONTEXT = 32768
_STEP_TOKENS = 1024
_MIN_CONTEXT, _MAX_CONTEXT = 16, 16 << 20
"""What a slug's max_model_len may be."""


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """How a checkpoint lies on a rig."""

    tensor_parallel: int
    parallel_why: str
    left_bytes: int | None
    """For the KV pool, a GPU; None when there is no GPU to measure against."""


def within(length: int, checkpoint: Checkpoint) -> int:
    """``length`` in tokens, but no longer than the model's own, and such as a slug may have."""
    return max(_MIN_CONTEXT, min(length, checkpoint.max_model_len or length, _MAX_CONTEXT))


def _usable(gpu: Gpu) -> int | None:
    return gpu.usable_bytes or gpu.total_bytes


def fit_to(checkpoint: Checkpoint, rig: Rig) -> Fit:
    """The fewest GPUs, a power of two that divides the heads, on which the weights leave room."""
    sizes = [size for gpu in rig.gpus if (size := _usable(gpu)) is not None]
    weights = None if checkpoint.sizes is None else checkpoint.sizes.total
    if not sizes or weights is None:
        return Fit(tensor_parallel=1, parallel_why="no GPU and weight sizes to fit them to", left_bytes=None)
    smallest = min(sizes)
    fits: list[Fit] = []
    for parallel in (1, 2, 4, 8):
        if parallel > len(sizes) or unshared(checkpoint, parallel) is not None:
            continue
        left = int(UTILIZATION * smallest) - weights // parallel - _RESERVE_BYTES
        why = f"{gib(weights / parallel)} GiB of weights a GPU of {gib(smallest)} GiB"
        fits.append(Fit(tensor_parallel=parallel, parallel_why=why, left_bytes=max(0, left)))
        if left > _RESERVE_BYTES // 2:
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
    native = checkpoint.max_model_len
    if fit.left_bytes is None:
        why = "cautious: there is nothing here to fit it to"
        return within(_FALLBACK_CONTEXT, checkpoint), "auto", why
    per_token = kv_bytes_per_token(checkpoint, fit.tensor_parallel)
    wanted = within(native or _FALLBACK_CONTEXT, checkpoint)
    why = "the model's own" if native is not None else "config.json does not say how long it may be"
    for dtype, bytes_a_token in (("auto", per_token), ("fp8_e4m3", per_token // 2)):
        if wanted * bytes_a_token <= fit.left_bytes * _KV_SHARE:
            return wanted, dtype, why
    fits = int(fit.left_bytes * _KV_SHARE / (per_token // 2)) // _STEP_TOKENS * _STEP_TOKENS
    why = f"about what {gib(fit.left_bytes)} GiB a GPU hold at {tokens(per_token // 2)} bytes a token"
    return within(max(_STEP_TOKENS, fits), checkpoint), "fp8_e4m3", why
