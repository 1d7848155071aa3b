"""Figures as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit import units


@pytest.mark.parametrize("show", [units.tokens, units.gib, units.rate, units.percent, units.seconds, units.duration])
def test_what_is_not_known_is_a_dash(show: object) -> None:
    assert callable(show)
    assert show(None) == "–"


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (units.tokens(2_097_152), "2,097,152"),
        (units.gib(24 * 1024**3), "24.0"),
        (units.gib(1024**3 // 2, 2), "0.50"),
        (units.rate(88.72), "88.7"),
        (units.rate(2498.4), "2,498"),
        (units.rate(0), "0.0"),
        (units.percent(0.372), "37 %"),
        (units.percent(0.00123, 2), "0.12 %"),
        (units.percent(1023), "102,300 %"),
        (units.seconds(0.0112), "11.2 ms"),
        (units.seconds(0.45), "0.45 s"),
        (units.seconds(12.3), "12 s"),
        (units.duration(42.9), "42 s"),
        (units.duration(292), "4:52"),
        (units.duration(8040), "2 h 14 m"),
        (units.duration(-1), "0 s"),
    ],
)
def test_figures_have_fixed_units_and_separators(shown: str, text: str) -> None:
    assert shown == text


@given(st.integers(0, 10**15))
def test_token_counts_can_be_read_back(count: int) -> None:
    assert int(units.tokens(count).replace(",", "")) == count
