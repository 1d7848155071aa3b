"""What would make a plan fit: the smallest change of each toggle, found by forecasting with it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from cockpit.launch.forecast import Subject, forecast_of, with_values
from cockpit.planner.forecast import CONTEXT_BYTES
from cockpit.planner.forecast_types import Change, Fits, Forecast
from cockpit.planner.pages import bytes_per_head
from cockpit.rules.context import Context
from cockpit.rules.longest import context_length
from cockpit.rules.parallel import free_memory, heads, kv_dtype
from cockpit.rules.toggles import toggle_state

_MOST_UTILIZATION = 0.98
"""Above that nothing is left for what vLLM does not count."""
_ROUND_TOKENS = 1024
_LOW_TOKENS = 16
_DTYPES = ("fp8_e4m3", "nvfp4")
_RULES = (heads, kv_dtype, context_length, free_memory)
"""What stands against a value that the forecast knows nothing of."""
_Values = dict[str, Any]


def _allowed(ctx: Context, values: _Values) -> bool:
    """Whether toggles and rules let these values be."""
    if any(toggle_state(name, ctx).state == "blocked" for name in values):
        return False
    changed = with_values(ctx, **values)
    return not any(finding.severity == "block" for rule in _RULES for finding in rule(changed))


def _tried(ctx: Context, subject: Subject, values: _Values, enough: tuple[Fits, ...] = ("yes",)) -> Forecast | None:
    """The forecast with these values, when it fits and they are allowed."""
    if not _allowed(ctx, values):
        return None
    result = forecast_of(with_values(ctx, **values), subject)
    return result if result.fits in enough and result.kv is not None and result.kv.fits else None


def _lengths(ctx: Context, subject: Subject, now: Forecast) -> Iterator[_Values]:
    """The longest context that certainly fits, rounded down; else the longest that is expected to."""
    current = ctx.values["max_model_len"]
    longest = min(now.largest_max_model_len or 0, current - 1)

    def fits(length: int) -> bool:
        return _tried(ctx, subject, {"max_model_len": length}) is not None

    low, high = 0, longest // _LOW_TOKENS
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle * _LOW_TOKENS) else (low, middle - 1)
    found = low * _LOW_TOKENS
    if found >= _LOW_TOKENS:
        yield {"max_model_len": found // _ROUND_TOKENS * _ROUND_TOKENS or found}
    elif now.fits == "no" and longest >= _LOW_TOKENS:
        yield {"max_model_len": longest // _LOW_TOKENS * _LOW_TOKENS}


def _dtypes(ctx: Context, _subject: Subject, _now: Forecast) -> Iterator[_Values]:
    """Smaller KV types, the least change first."""
    current = bytes_per_head(128, ctx.values.get("kv_cache_dtype", "auto"), 2) or 0
    for dtype in _DTYPES:
        if (bytes_per_head(128, dtype, 2) or 0) < current:
            yield {"kv_cache_dtype": dtype}


def _utilizations(ctx: Context, _subject: Subject, now: Forecast) -> Iterator[_Values]:
    """More of the card; less where others hold so much of it that vLLM would refuse to start."""
    current = ctx.values.get("gpu_memory_utilization") or 0.92
    crowded = any(
        gpu.free_bytes is not None and gpu.budget_bytes > gpu.free_bytes - CONTEXT_BYTES for gpu in now.per_gpu
    )
    if crowded:
        room = min(((gpu.free_bytes or 0) - CONTEXT_BYTES) / gpu.total_bytes for gpu in now.per_gpu)
        best = int(room * 100) / 100
        if 0 < best < current and all(gpu.free_bytes is not None for gpu in now.per_gpu):
            yield {"gpu_memory_utilization": best}
        return
    step = round(current * 100) + 1
    yield from (
        {"gpu_memory_utilization": number / 100} for number in range(step, round(_MOST_UTILIZATION * 100) + 1)
    )


def _sequences(ctx: Context, _subject: Subject, _now: Forecast) -> Iterator[_Values]:
    """Fewer requests at once, by halves."""
    current = ctx.values.get("max_num_seqs") or 256
    while current > 1:
        current //= 2
        yield {"max_num_seqs": current}


def _gpus(ctx: Context, _subject: Subject, _now: Forecast) -> Iterator[_Values]:
    """More of the rig's GPUs, by doubling: the plan's own first, then those with most free."""
    chosen = ctx.gpu_indices
    others = sorted(
        (gpu for gpu in ctx.rig.gpus if gpu.index not in chosen), key=lambda gpu: (gpu.used_bytes or 0, gpu.index)
    )
    indices = (*chosen, *(gpu.index for gpu in others))
    count = ctx.values.get("tensor_parallel") or 1
    while (count := count * 2) <= len(indices):
        yield {"gpus": tuple(sorted(indices[:count])), "tensor_parallel": count}


def _vision(ctx: Context, _subject: Subject, _now: Forecast) -> Iterator[_Values]:
    if ctx.values.get("vision") == "on":
        yield {"vision": "off"}


_SEARCHES: tuple[Callable[[Context, Subject, Forecast], Iterator[_Values]], ...] = (
    _lengths,
    _dtypes,
    _utilizations,
    _sequences,
    _vision,
    _gpus,
)


def _smallest(
    search: Callable[[Context, Subject, Forecast], Iterator[_Values]],
    ctx: Context,
    subject: Subject,
    now: Forecast,
    enough: tuple[Fits, ...],
) -> Change | None:
    """The first of a search's values that fits well enough."""
    for values in search(ctx, subject, now):
        result = _tried(ctx, subject, values, enough)
        if result is not None and result.kv is not None:
            kv = result.kv
            return Change(set=values, capacity_tokens=kv.capacity_tokens, max_concurrency=kv.max_concurrency)
    return None


def changes(ctx: Context, subject: Subject, now: Forecast) -> tuple[Change, ...]:
    """For each toggle the smallest change with which the plan fits, whatever of its error band comes true.

    Where no context or share of the card is certain to fit, one that is expected to does. Nothing for a plan that
    fits, and for one that nobody can forecast.
    """
    if now.fits not in ("no", "tight") or now.kv is None:
        return ()
    found = []
    for search in _SEARCHES:
        change = _smallest(search, ctx, subject, now, ("yes", "tight") if search is _lengths else ("yes",))
        if change is None and search is _utilizations and now.fits == "no":
            change = _smallest(search, ctx, subject, now, ("tight",))
        if change is not None:
            found.append(change)
    return tuple(found)


def full_forecast(ctx: Context, subject: Subject) -> Forecast:
    """Will it fit, and what would make it."""
    now = forecast_of(ctx, subject)
    return msgspec.structs.replace(now, changes=changes(ctx, subject, now))
