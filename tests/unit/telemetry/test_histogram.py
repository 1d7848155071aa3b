"""Means and percentiles out of bucket counts."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.telemetry.histogram import Histogram, delta, from_buckets, mean, quantile, together

INF = float("inf")


def of(values, bounds=(1.0, 2.0, 4.0)):
    """The histogram that a server would hold after observing ``values``."""
    counts = tuple(float(sum(value <= bound for value in values)) for bound in bounds)
    return Histogram(bounds=bounds, cumulative=counts, count=float(len(values)), total=float(sum(values)))


def test_a_percentile_is_linear_inside_its_bucket():
    values = [2.0 + 2.0 * (i + 0.5) / 1000 for i in range(1000)]
    found = quantile(of(values), 0.95)
    assert found is not None
    assert found.value == pytest.approx(3.9, rel=0.01)
    assert not found.is_lower_bound


def test_a_percentile_beyond_the_last_bound_says_so():
    found = quantile(of([0.5] * 90 + [100.0] * 10), 0.95)
    assert found is not None
    assert (found.value, found.is_lower_bound) == (4.0, True)


def test_microseconds_in_a_wide_first_bucket_do_not_read_as_its_width():
    found = quantile(of([0.00001] * 100), 0.95)
    assert found is not None
    assert found.value <= 20 * 0.00001 * 1.001


def test_a_sum_at_the_top_of_a_bucket_leaves_nothing_below_it():
    """All of 0.5 s in a bucket of 0.25 to 0.5 s: a line would have the percentile at 0.4875 s."""
    assert quantile(of([0.5] * 8, (0.25, 0.5, 1.0)), 0.95).value == pytest.approx(0.5)
    assert quantile(of([0.1, *[0.5] * 99], (0.25, 0.5, 1.0)), 0.95).value == pytest.approx(0.5, rel=0.01)
    # One beyond the last bucket may hold any part of the sum.
    assert quantile(of([0.5] * 99 + [9.0], (0.25, 0.5, 1.0)), 0.95).value == pytest.approx(0.25 + 0.25 * 95 / 99)


def test_nothing_observed_gives_neither_mean_nor_percentile():
    assert mean(of([])) is None
    assert quantile(of([]), 0.95) is None


def test_a_window_holds_only_what_came_after_its_beginning():
    window = delta(of([0.5] * 10), of([0.5] * 10 + [3.0] * 5))
    assert window is not None
    assert (window.count, mean(window)) == (5, 3.0)


def test_of_other_buckets_those_that_both_have_are_kept_and_fewer_observations_give_no_window():
    grown = delta(of([0.5], bounds=(1.0, 2.0)), of([0.5, 0.7, 2.5], bounds=(1.0, 3.0)))
    assert grown is not None
    assert (grown.bounds, grown.cumulative, grown.count, grown.total) == ((1.0,), (1,), 2, pytest.approx(3.2))
    assert delta(of([0.5, 0.5]), of([0.5])) is None


def test_engines_are_added_in_the_buckets_that_all_have():
    both = together([of([0.5]), of([3.0])])
    assert both is not None
    assert (both.cumulative, both.count, both.total) == ((1, 1, 2), 2, 3.5)
    coarse = together([of([0.5]), of([0.5], bounds=(9.0,))])
    assert coarse is not None
    assert (coarse.bounds, mean(coarse), quantile(coarse, 0.95)) == ((), 0.5, None)
    assert together([of([0.5]), None]) is None
    assert together([]) is None


def test_buckets_without_infinity_or_sum_are_no_histogram():
    assert from_buckets({1.0: 2.0}, 1.0) is None
    assert from_buckets({1.0: 2.0, INF: 2.0}, None) is None


def test_falling_counts_of_a_torn_scrape_are_lifted():
    histogram = from_buckets({1.0: 5.0, 2.0: 3.0, INF: 6.0}, 4.0)
    assert histogram is not None
    assert histogram.cumulative == (5.0, 5.0)


@given(
    st.lists(st.floats(min_value=0, max_value=8), min_size=1, max_size=60),
    st.lists(st.floats(min_value=0.01, max_value=8), min_size=1, max_size=8, unique=True).map(sorted),
    st.floats(min_value=0.01, max_value=0.99),
)
def test_a_percentile_lies_in_the_bucket_of_the_true_one(values, bounds, share):
    histogram = of(values, tuple(bounds))
    found = quantile(histogram, share)
    assert found is not None
    assert 0.0 <= found.value <= bounds[-1]
    rank = share * len(values)
    true_value = next(value for value, n in zip(sorted(values), range(1, 99), strict=False) if n >= rank)
    if found.is_lower_bound:
        assert true_value > bounds[-1]
    else:
        upper = min(bound for bound in bounds if bound >= true_value)
        lower = max((bound for bound in bounds if bound < true_value), default=0.0)
        assert lower <= found.value <= upper
        assert found.between is not None
        low, high = found.between
        assert lower <= low <= found.value <= high <= upper
        assert low - 1e-9 <= true_value <= high + 1e-9


@given(st.lists(st.floats(min_value=0, max_value=9), min_size=1, max_size=9), st.floats(min_value=0, max_value=1e6))
def test_torn_and_inconsistent_histograms_still_give_percentiles_within_their_bounds(steps, total):
    bounds = tuple(float(i + 1) for i in range(len(steps)))
    counts = tuple(accumulate(steps))
    found = quantile(Histogram(bounds=bounds, cumulative=counts, count=counts[-1] + 0.5, total=total), 0.95)
    assert found is not None
    assert 0.0 <= found.value <= bounds[-1]
