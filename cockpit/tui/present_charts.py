"""Charts of the live figures on one axis of time, as rows."""

from __future__ import annotations

from collections.abc import Callable

from cockpit import units
from cockpit.telemetry.braille import chart
from cockpit.telemetry.timeline import ONE_HOUR, TWO_MINUTES, Timeline
from cockpit.tui.content import Row
from cockpit.tui.gauges import LABEL_WIDTH, label

SPANS: dict[float, str] = {TWO_MINUTES: "2 min", ONE_HOUR: "1 h"}
_NOW_WIDTH, _TOP_WIDTH = 9, 9


def _share(value: float | None) -> str:
    return units.percent(value, 1)


def _watts(value: float | None) -> str:
    return units.UNKNOWN if value is None else f"{value:,.0f} W"


_CHARTS: tuple[tuple[str, str, int, float | None, Callable[[float | None], str], str], ...] = (
    ("prefill", "prefill", 3, None, units.rate, "bar"),
    ("decode", "decode", 3, None, units.rate, "bar2"),
    ("KV pool", "kv", 2, 1.0, _share, "bar"),
    ("running", "running", 1, None, units.tokens, "bar2"),
    ("waiting", "waiting", 1, None, units.tokens, "warn"),
    ("power", "power", 2, None, _watts, "bar"),
    ("CPU", "cpu", 2, 1.0, _share, "bar"),
)
"""Name, series, height, top of the scale (None: the largest value shown), how a value reads, style."""


def chart_rows(timeline: Timeline, span: float, width: int) -> list[Row]:
    """Each chart with its newest value at the left and the top of its scale at the right, and the axis below.

    Power of the GPUs, or the processor where none says its power; neither of a server elsewhere.
    """
    cells = max(10, width - LABEL_WIDTH - _NOW_WIDTH - _TOP_WIDTH - 3)
    has_power, has_cpu = (
        any(value is not None for value in timeline.columns(name, span, cells)) for name in ("power", "cpu")
    )
    unknown = {"cpu"} if has_power else {"power"} if has_cpu else {"power", "cpu"}
    rows: list[Row] = []
    for name, series, height, ceiling, text, style in _CHARTS:
        if series in unknown:
            continue
        columns = timeline.columns(series, span, cells * 2)
        known = [value for value in columns if value is not None]
        top = ceiling if ceiling is not None else max(known, default=0.0)
        for number, line in enumerate(chart(columns, height, top)):
            first = number == 0
            now = text(columns[-1]) if first else ""
            rows.append(
                [
                    label(name if first else ""),
                    (f"{now:>{_NOW_WIDTH}} ", "bold"),
                    (line, style),
                    (f" {text(top) if first and known else '':<{_TOP_WIDTH}}", "dim"),
                ]
            )
    return [*rows, _axis(span, cells)]


def _axis(span: float, cells: int) -> Row:
    """Four marks of time under the charts."""
    line = [" "] * cells
    for quarter in range(4):
        at = cells * quarter // 4
        seconds = span * (4 - quarter) / 4
        text = f"╵-{units.duration(seconds)}"
        line[at : at + len(text)] = list(text)
    text = "".join(line)[: cells - 4] + "now╵"
    return [(" " * (LABEL_WIDTH + 1 + _NOW_WIDTH + 1), ""), (text, "dim")]
