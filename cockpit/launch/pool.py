"""What the forecast says against a plan. Only what is beyond its error band blocks."""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.checkpoint.types import Checkpoint
from cockpit.planner.forecast import TIGHT_FRACTION
from cockpit.planner.forecast_types import Change, Forecast
from cockpit.planner.types import KvForecast
from cockpit.rules.context import Context
from cockpit.rules.finding import Finding, Severity
from cockpit.rules.parallel import keeps_state
from cockpit.units import gib, percent, size_text, tokens


def _finding(rule: str, severity: Severity, subject: str, message: str, fix: str) -> Finding:
    return Finding(rule=rule, severity=severity, subject=subject, message=message, fix=fix, level="rig")


def _left(forecast: Forecast, kv: KvForecast) -> str:
    """What the smallest pool has, as a clause."""
    if not forecast.per_gpu:
        return f"the KV pool has {size_text(kv.blocks * kv.bytes_per_block)} as the slug says"
    least = min(gpu.kv.bytes for gpu in forecast.per_gpu)
    band = f", give or take {gib(forecast.error_bytes)}" if forecast.error_bytes else ""
    about = "" if forecast.basis == "measured" else "about "
    return f"{about}{gib(least)} GiB a GPU are left for the KV pool{band}"


def change_text(change: Change) -> str:
    """A change as ``--set`` takes it."""

    def value_text(value: object) -> str:
        return ",".join(str(one) for one in value) if isinstance(value, tuple | list) else str(value)

    return " ".join(f"{name}={value_text(value)}" for name, value in change.set.items())


def _fix(forecast: Forecast) -> str:
    """The shorter context where there is one, else what else makes it fit."""
    longest = forecast.largest_max_model_len
    others = [change_text(one) for one in forecast.changes if "max_model_len" not in one.set]
    if longest:
        return f"Set max_model_len={longest} or less" + (f", or {others[0]}." if others else ".")
    return f"Set {' or '.join(others)}." if others else "Use more GPUs, or smaller weights."


def _one_request(forecast: Forecast, kv: KvForecast, length: int) -> Iterator[Finding]:
    need = f"one request of {tokens(length)} tokens needs {size_text(kv.bytes_needed)}"
    spare = kv.capacity_tokens - length
    if forecast.missing_bytes > (forecast.error_bytes or 0):
        yield _finding("kv-one-request", "block", "max_model_len", f"{_left(forecast, kv)}, {need}", _fix(forecast))
    elif not kv.fits:
        message = (
            f"{_left(forecast, kv)}, {need}: {tokens(abs(spare))} tokens ({percent(abs(spare) / length, 1)}) short"
        )
        yield _finding("kv-headroom", "warn", "max_model_len", message, _fix(forecast))
    elif _certain(forecast, kv, length):
        if forecast.fits == "tight" and forecast.reason is not None:
            fix = "Free memory there, or set gpu_memory_utilization lower."
            yield _finding("memory-hardly-free", "warn", "gpu_memory_utilization", forecast.reason, fix)
    else:
        message = f"{_left(forecast, kv)}: {tokens(spare)} tokens ({percent(spare / length, 1)}) beyond one request"
        fix = "" if forecast.basis == "measured" else "The first boot says how many tokens there really are."
        yield _finding("kv-headroom", "warn", "max_model_len", message, fix)


def _certain(forecast: Forecast, kv: KvForecast, length: int) -> bool:
    """Whether one request fits with room to spare, whatever of the error band comes true."""
    pool = min((gpu.kv.bytes for gpu in forecast.per_gpu), default=kv.blocks * kv.bytes_per_block)
    spare = kv.capacity_tokens - length
    return spare >= TIGHT_FRACTION * length and kv.bytes_needed <= pool - (forecast.error_bytes or 0)


def _state_blocks(ctx: Context, forecast: Forecast, kv: KvForecast, hybrid: bool) -> Iterator[Finding]:
    """A hybrid model pins a block of state for each request that runs."""
    sequences = ctx.values.get("max_num_seqs")
    if not hybrid or sequences is None:
        return
    most = kv.blocks + (forecast.error_bytes or 0) // kv.bytes_per_block
    if sequences > most > 0:
        message = f"{sequences:,} sequences need as many state blocks, and the pool has about {kv.blocks:,} blocks"
        fix = f"Set max_num_seqs={max(1, kv.blocks)} or less."
        yield _finding("hybrid-state-blocks", "block", "max_num_seqs", message, fix)


def pool_findings(ctx: Context, forecast: Forecast, checkpoint: Checkpoint | None) -> Iterator[Finding]:
    """What the pool of KV blocks says against the plan; nothing where it is unknown.

    That a card has less free than vLLM asks for is a finding of `rules.parallel.free_memory`.
    """
    kv = forecast.kv
    if kv is None:
        return
    yield from _one_request(forecast, kv, ctx.values["max_model_len"])
    if not forecast.per_gpu and forecast.fits == "no" and kv.fits:
        fix = "Set VLLM_CPU_KVCACHE_SPACE lower, or end other programs."
        yield _finding("host-pool", "block", "host", forecast.reason or "the host has no room for it", fix)
    hybrid = checkpoint is not None and keeps_state(checkpoint)
    yield from _state_blocks(ctx, forecast, kv, hybrid)


def boots_findings(problem: str | None) -> Iterator[Finding]:
    """A file of earlier boots that cannot be used, as a warning."""
    if problem is not None:
        yield _finding("boots-unreadable", "warn", "max_model_len", problem, "")
