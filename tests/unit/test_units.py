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


@pytest.mark.parametrize(
    ("count", "cells", "text"),
    [
        (None, 3, "–"),
        (0, 4, "0"),
        (999, 4, "999"),
        (1024, 5, "1,024"),
        (1024, 4, "1024"),
        (12_345, 5, "12345"),
        (123_456, 5, "123k"),
        (999_999, 5, "1.00M"),
        (123_456_789_012, 10, "123.457G"),
        (1e30, 9, "…"),
    ],
)
def test_a_count_that_is_too_wide_gives_up_separators_and_then_digits(
    count: float | None, cells: int, text: str
) -> None:
    assert units.short(count, cells) == text


@given(st.floats(min_value=0, max_value=1e14), st.integers(min_value=6, max_value=20))
def test_a_short_count_is_within_two_percent_and_never_too_wide(count: float, cells: int) -> None:
    shown = units.short(count, cells)
    assert len(shown) <= cells
    letter = shown[-1] if shown[-1].isalpha() else ""
    size = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}[letter]
    assert float(shown.removesuffix(letter).replace(",", "")) * size == pytest.approx(count, rel=0.02, abs=0.5)


def test_a_size_has_the_unit_that_shows_it() -> None:
    assert units.size_text(8.94 * units.GIB, 2) == "8.94 GiB"
    assert units.size_text(units.GIB / 10) == "0.1 GiB"
    assert units.size_text(1.1 * 2**20) == "1.1 MiB"
    assert units.size_text(0) == "0.0 MiB"
