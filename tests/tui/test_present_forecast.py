"""Forecast against actual, in one line of the live screen."""

from __future__ import annotations

import pytest

from cockpit.supervisor.against import Against, Pair
from cockpit.tui.content import row_text
from cockpit.tui.present_forecast import against_rows
from cockpit.units import GIB


def both(
    tokens: tuple[int | None, int | None], gib: tuple[float | None, float | None], error: float | None
) -> Against:
    sizes = [None if one is None else round(one * GIB) for one in gib]
    return Against(
        kv_capacity_tokens=Pair(forecast=tokens[0], actual=tokens[1]),
        kv_bytes=Pair(forecast=sizes[0], actual=sizes[1]),
        error_bytes=None if error is None else round(error * GIB),
    )


CASES = [
    (
        both((620_944, 623_873), (10.94, 11.05), 1.07),
        " forecast 620,944 → 623,873 tokens (+0.5 %) · 10.94 → 11.05 GiB, within ±1.07",
    ),
    (
        both((620_944, 500_000), (10.94, 8.80), 1.07),
        " forecast 620,944 → 500,000 tokens (-19.5 %) · 10.94 → 8.80 GiB, beyond ±1.07",
    ),
    (both((620_944, None), (10.94, None), 1.07), " forecast 620,944 → – tokens · 10.94 → – GiB"),
    (both((2_097_152, 2_097_152), (None, None), 0.0), " forecast 2,097,152 → 2,097,152 tokens (+0.0 %)"),
]


@pytest.mark.parametrize(("against", "text"), CASES)
def test_the_line_fits_the_smallest_screen(against: Against, text: str) -> None:
    (row,) = against_rows(against)
    assert row_text(row) == text and len(text) <= 80


def test_without_a_forecast_there_is_no_line() -> None:
    assert against_rows(None) == []
    assert against_rows(both((None, 5), (None, 5.0), None)) == []
