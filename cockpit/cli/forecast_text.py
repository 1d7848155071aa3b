"""A forecast as JSON, and as lines of text."""

from __future__ import annotations

import time
from typing import Any

from cockpit.launch.pool import change_text
from cockpit.launch.verdict import verdict_text
from cockpit.planner.forecast_types import Basis, Forecast, GpuForecast, Part
from cockpit.planner.types import KvForecast
from cockpit.units import UNKNOWN, gib, percent, tokens

_PARTS = ("weights", "kv", "activation", "graphs", "overhead")
_NAMES = {"graphs": "graph"}
_WORDS: dict[Basis, str] = {
    "measured": "measured",
    "headers": "read from the files",
    "config": "worked out from config.json",
    "declared": "as the slug declares",
    "estimated": "estimated",
}


def _parts(gpu: GpuForecast) -> dict[str, Part]:
    return {name: getattr(gpu, name) for name in _PARTS}


def _json_basis(forecast: Forecast) -> str | None:
    """``measured``, ``config`` or ``declared``: runtime parts are always estimates where nothing was measured."""
    if forecast.basis is None:
        return None
    if forecast.basis in ("measured", "declared"):
        return forecast.basis
    return "declared" if any(gpu.weights.basis == "declared" for gpu in forecast.per_gpu) else "config"


def _gpu_json(gpu: GpuForecast) -> dict[str, Any]:
    parts = _parts(gpu)
    return {
        "gpu": gpu.gpu,
        "name": gpu.name,
        "total_bytes": gpu.total_bytes,
        "free_bytes": gpu.free_bytes,
        "budget_bytes": gpu.budget_bytes,
        **{f"{_NAMES.get(name, name)}_bytes": part.bytes for name, part in parts.items()},
        "error_bytes": {name: part.error_bytes for name, part in parts.items()},
        "basis": {name: part.basis for name, part in parts.items()},
    }


def _kv_json(kv: KvForecast) -> dict[str, Any]:
    return {name: getattr(kv, name) for name in KvForecast.__struct_fields__}


def forecast_json(forecast: Forecast) -> dict[str, Any]:
    """The ``forecast`` of `cockpit plan --json`; null where it is unknown."""
    learned = forecast.learned_from
    return {
        "fits": forecast.fits,
        "reason": forecast.reason,
        "per_gpu": [_gpu_json(gpu) for gpu in forecast.per_gpu],
        "kv_bytes": forecast.kv_bytes,
        "kv": None if forecast.kv is None else _kv_json(forecast.kv),
        "headroom_tokens": forecast.headroom_tokens,
        "headroom_fraction": forecast.headroom_fraction,
        "largest_max_model_len": forecast.largest_max_model_len,
        "missing_bytes": None if forecast.kv is None else forecast.missing_bytes,
        "error_bytes": forecast.error_bytes,
        "basis": _json_basis(forecast),
        "learned_from": None if learned is None else {"slug": learned.slug, "at": learned.at, "exact": learned.exact},
        "changes": [
            {"set": one.set, "capacity_tokens": one.capacity_tokens, "max_concurrency": one.max_concurrency}
            for one in forecast.changes
        ],
    }


def _gpu_line(gpu: GpuForecast) -> str:
    parts = _parts(gpu)
    uses = " · ".join(
        f"{label} {gib(parts[name].bytes, 2)}"
        for name, label in (
            ("weights", "weights"),
            ("kv", "KV"),
            ("activation", "activations"),
            ("graphs", "graphs"),
            ("overhead", "other"),
        )
    )
    free = "" if gpu.free_bytes is None else f", {gib(gpu.free_bytes, 2)} free"
    return f"GPU{gpu.gpu:<9} {gib(gpu.total_bytes, 2)} GiB{free}, {gib(gpu.budget_bytes, 2)} for vLLM: {uses}"


def _basis_lines(forecast: Forecast) -> list[str]:
    """What was measured and what was not, best first."""
    if not forecast.per_gpu:
        return []
    by_basis: dict[Basis, list[str]] = {}
    for name, part in _parts(forecast.per_gpu[0]).items():
        if name != "kv":
            by_basis.setdefault(part.basis, []).append(name)
    text = "; ".join(f"{', '.join(names)} {_WORDS[basis]}" for basis, names in by_basis.items())
    lines = [f"known        {text}; a pool of ±{gib(forecast.error_bytes, 2)} GiB"]
    learned = forecast.learned_from
    if learned is not None:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(learned.at))
        nearby = "" if learned.exact else ", whose flags were a little different"
        lines.append(f"learned      from the boot of {learned.slug} on {when}{nearby}")
    return lines


def _change_lines(forecast: Forecast) -> list[str]:
    lines = [
        f"--set {change_text(one)}: {tokens(one.capacity_tokens)} tokens, {one.max_concurrency:,.2f} requests"
        for one in forecast.changes
    ]
    return [("would fit    " if number == 0 else " " * 13) + line for number, line in enumerate(lines)]


def forecast_lines(forecast: Forecast, max_model_len: int) -> list[str]:
    """The forecast for a reader."""
    verdict = verdict_text(forecast.fits) + (f": {forecast.reason}" if forecast.reason else "")
    lines = [f"forecast     {verdict}"]
    kv = forecast.kv
    if kv is None:
        return lines
    lines += [_gpu_line(gpu) for gpu in forecast.per_gpu]
    spare = forecast.headroom_tokens or 0
    fraction = percent(forecast.headroom_fraction, 1) if abs(forecast.headroom_fraction or 0) < 10 else UNKNOWN
    share = "" if fraction == UNKNOWN else f" ({fraction})"
    lines.append(
        f"KV pool      {tokens(kv.capacity_tokens)} tokens, {kv.max_concurrency:,.2f} requests of "
        f"{tokens(max_model_len)}, headroom {spare:+,} tokens{share}"
    )
    if forecast.largest_max_model_len is not None and not kv.fits:
        lines.append(f"context      the longest that fits is {tokens(forecast.largest_max_model_len)} tokens")
    return [*lines, *_basis_lines(forecast), *_change_lines(forecast)]
