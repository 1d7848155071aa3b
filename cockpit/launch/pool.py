"""Does one request at full context fit? Only what is beyond doubt blocks: the pool is exact, its bytes are not.

Bytes of the pool on one GPU = utilization · what CUDA sees of it − weights / tensor parallel − what a boot takes
besides (vLLM's own budget rule). The last two are estimates until a boot has measured them.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from cockpit.planner.families import kv_model
from cockpit.planner.kv import forecast_kv, largest_max_model_len
from cockpit.planner.types import KvForecast, KvModel, KvSettings, KvUnknown
from cockpit.rules.context import Context
from cockpit.rules.finding import Finding
from cockpit.units import GIB, gib, percent, tokens

_DEFAULT_UTILIZATION = 0.92
_RUNTIME_BYTES = round(1.5 * GIB)
"""Activations, CUDA graphs and what is not PyTorch's: 1.55 GiB measured for an 8B on an H200, 1.53 for a 27B on an
RTX 3090."""
_MORE_BYTES = round(0.75 * GIB)
"""So much more than estimated may be free."""
_LESS_BYTES = 2 * GIB
"""So much less may be free: packed weights unpack some of their parts when they load."""
_TIGHT_FRACTION = 0.02


class _Pool(msgspec.Struct, frozen=True, kw_only=True):
    """What the pool of one GPU is computed from."""

    model: KvModel
    settings: KvSettings
    available_bytes: int
    """Estimated; may be negative."""
    limit: int
    """The model's own longest context."""

    def forecast(self, more_bytes: int) -> KvForecast | KvUnknown:
        """The pool, were so many bytes more (or fewer) free."""
        return forecast_kv(self.model, self.settings, max(0, self.available_bytes + more_bytes))

    def largest(self) -> int | None:
        """The longest context that the estimate holds; None when there is none."""
        length = largest_max_model_len(self.model, self.settings, max(0, self.available_bytes), self.limit)
        return length if isinstance(length, int) and length > 0 else None


def _weights_bytes(ctx: Context) -> int | None:
    """Bytes of the weights that are loaded, on all GPUs together."""
    sizes = ctx.checkpoint.sizes if ctx.checkpoint is not None else None
    if sizes is None:
        return None
    unused = 0 if ctx.values.get("speculative_tokens") else sizes.mtp
    return sizes.total - unused - (0 if ctx.values.get("vision") == "on" else sizes.vision)


def _pool(ctx: Context) -> _Pool | None:
    chosen = [gpu for gpu in ctx.rig.gpus if gpu.index in ctx.gpu_indices]
    usable = [gpu.usable_bytes or gpu.total_bytes for gpu in chosen]
    weights = _weights_bytes(ctx)
    if ctx.checkpoint is None or weights is None or not usable or None in usable or ctx.slug.platform != "cuda":
        return None
    model = kv_model(ctx.checkpoint)
    if isinstance(model, KvUnknown):
        return None
    smallest = min(size for size in usable if size is not None)
    parallel = ctx.values.get("tensor_parallel") or 1
    share = ctx.values.get("gpu_memory_utilization") or _DEFAULT_UTILIZATION
    caching = ctx.values.get("prefix_caching")
    spec = ctx.slug.speculative
    settings = KvSettings(
        max_model_len=ctx.values["max_model_len"],
        tensor_parallel=parallel,
        kv_cache_dtype=ctx.values.get("kv_cache_dtype", "auto"),
        speculative_tokens=ctx.values.get("speculative_tokens") or 0,
        speculative_method=spec.method if spec else "mtp",
        prefix_caching=None if caching is None else caching == "on",
        engine_version=ctx.engine.version if ctx.engine is not None else None,
        capability=min(ctx.capabilities, default=None),
        gpu_total_bytes=smallest,
        gpu_name=chosen[0].name,
    )
    available = int(share * smallest) - weights // parallel - _RUNTIME_BYTES
    limit = ctx.checkpoint.max_model_len or settings.max_model_len
    return _Pool(model=model, settings=settings, available_bytes=available, limit=limit)


def _finding(rule: str, severity: str, subject: str, message: str, fix: str) -> Finding:
    return Finding(
        rule=rule,
        severity="block" if severity == "block" else "warn",
        subject=subject,
        message=message,
        fix=fix,
        level="rig",
    )


def pool_findings(ctx: Context) -> Iterator[Finding]:
    """What the pool of KV blocks says against the plan; nothing where model, bytes or GPUs are unknown."""
    pool = _pool(ctx)
    if pool is None:
        return
    best, likely, worst = (pool.forecast(more) for more in (_MORE_BYTES, 0, -_LESS_BYTES))
    if isinstance(best, KvUnknown) or isinstance(likely, KvUnknown) or isinstance(worst, KvUnknown):
        return
    length = pool.settings.max_model_len
    largest = pool.largest()
    shorter = f"Set max_model_len={largest} or less" if largest else "Use more GPUs, or smaller weights"
    room = f"about {gib(max(0, pool.available_bytes))} GiB a GPU are left for the KV pool"
    if not best.fits:
        need = f"one request of {tokens(length)} tokens needs {gib(best.bytes_needed)}"
        yield _finding("kv-one-request", "block", "max_model_len", f"{room}, {need}", f"{shorter}.")
    elif not worst.fits or likely.capacity_tokens - length < _TIGHT_FRACTION * length:
        spare = likely.capacity_tokens - length
        left = "beyond" if spare >= 0 else "short of"
        amount = f"{tokens(abs(spare))} tokens ({percent(abs(spare) / length, 1)}) {left} one request"
        message = f"{room}, give or take {gib(_LESS_BYTES, 0)}: {amount}"
        fix = f"{shorter} for a calm boot." if spare < 0 else "The first boot says how many tokens there really are."
        yield _finding("kv-headroom", "warn", "max_model_len", message, fix)
    sequences = ctx.values.get("max_num_seqs")
    if pool.model.gated_delta_layers and sequences is not None and best.fits and sequences > best.blocks:
        message = (
            f"{sequences:,} sequences need as many state blocks, and the pool has about {likely.blocks:,} blocks"
        )
        fix = f"Set max_num_seqs={max(1, likely.blocks)} or less."
        yield _finding("hybrid-state-blocks", "block", "max_num_seqs", message, fix)
