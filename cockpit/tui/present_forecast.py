"""What was forecast of a server beside what came of it, as one line. Pure."""

from __future__ import annotations

from cockpit import units
from cockpit.supervisor.against import Against
from cockpit.tui.content import Row, Segment
from cockpit.tui.gauges import label


def _tokens(against: Against) -> list[Segment]:
    pair = against.kv_capacity_tokens
    off = ""
    if pair.forecast and pair.actual is not None:
        off = f" ({(pair.actual - pair.forecast) / pair.forecast * 100:+.1f} %)"
    return [
        (f"{units.tokens(pair.forecast)} → ", ""),
        (units.tokens(pair.actual), "bold"),
        (f" tokens{off}", ""),
    ]


def _bytes(against: Against) -> list[Segment]:
    pair = against.kv_bytes
    if pair.forecast is None:
        return []
    row: list[Segment] = [
        (f" · {units.gib(pair.forecast, 2)} → ", ""),
        (units.gib(pair.actual, 2), "bold"),
        (" GiB", ""),
    ]
    if pair.actual is None or against.error_bytes is None:
        return row
    band = f"±{units.gib(against.error_bytes, 2)}"
    if abs(pair.actual - pair.forecast) <= against.error_bytes:
        return [*row, (f", within {band}", "good")]
    return [*row, (f", beyond {band}", "warn")]


def against_rows(against: Against | None) -> list[Row]:
    """``forecast 620,944 → 623,873 tokens (+0.5 %) · 10.94 → 11.05 GiB, within ±1.07``; none without a forecast."""
    if against is None:
        return []
    if against.kv_capacity_tokens.forecast is None and against.kv_bytes.forecast is None:
        return []
    return [[label("forecast"), *_tokens(against), *_bytes(against)]]
