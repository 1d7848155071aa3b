"""Prometheus histograms as values: differences, means and percentiles of a window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from math import inf, isfinite
from operator import mul

import msgspec


class Histogram(msgspec.Struct, frozen=True, kw_only=True):
    """Observations by bucket, in the unit of the observed figure (seconds here)."""

    bounds: tuple[float, ...]
    """Finite upper bounds, ascending."""
    cumulative: tuple[float, ...]
    """Observations at or below each bound, never falling; one a bound."""
    count: float
    """All observations, those above the last bound included."""
    total: float
    """Sum of all observed values."""


class Quantile(msgspec.Struct, frozen=True, kw_only=True):
    """A percentile read from buckets."""

    value: float
    is_lower_bound: bool = False
    """The percentile lies beyond the last finite bound, which ``value`` then is."""
    between: tuple[float, float] | None = None
    """Bounds between which the true one lies; None beyond the last bucket."""


def from_buckets(by_bound: Mapping[float, float], total: float | None) -> Histogram | None:
    """Histogram of cumulative counts by ``le`` (``+Inf`` among them) and a sum; None when +Inf or the sum is missing.

    Counts that fall from one bound to the next (a torn scrape) are lifted to the count before.
    """
    count = by_bound.get(float("inf"))
    if count is None or total is None:
        return None
    bounds = tuple(sorted(bound for bound in by_bound if isfinite(bound)))
    lifted = accumulate((min(by_bound[bound], count) for bound in bounds), max)
    return Histogram(bounds=bounds, cumulative=tuple(lifted), count=count, total=total)


def delta(old: Histogram, new: Histogram) -> Histogram | None:
    """Observations between two readings, in the buckets that both have; None when a count went backwards."""
    if new.count < old.count:
        return None
    old, new = _alike((old, new))
    steps = (max(0.0, now - before) for before, now in zip(old.cumulative, new.cumulative, strict=True))
    count = new.count - old.count
    cumulative = tuple(accumulate((min(step, count) for step in steps), max))
    return Histogram(bounds=new.bounds, cumulative=cumulative, count=count, total=max(0.0, new.total - old.total))


def together(parts: Sequence[Histogram | None]) -> Histogram | None:
    """The observations of all parts, in the buckets that all have; None when there is no part or one is None."""
    known = _alike([part for part in parts if part is not None])
    if not known or len(known) < len(parts):
        return None
    columns = zip(*(part.cumulative for part in known), strict=True)
    return Histogram(
        bounds=known[0].bounds,
        cumulative=tuple(sum(column) for column in columns),
        count=sum(part.count for part in known),
        total=sum(part.total for part in known),
    )


def _alike(parts: Sequence[Histogram]) -> Sequence[Histogram]:
    """With the bounds that all have: what lies at or below one of them is known of each."""
    if len({part.bounds for part in parts}) < 2:
        return parts
    shared = set.intersection(*(set(part.bounds) for part in parts))
    return [_only(part, shared) for part in parts]


def _only(part: Histogram, bounds: set[float]) -> Histogram:
    kept = [pair for pair in zip(part.bounds, part.cumulative, strict=True) if pair[0] in bounds]
    return Histogram(
        bounds=tuple(bound for bound, _ in kept),
        cumulative=tuple(count for _, count in kept),
        count=part.count,
        total=part.total,
    )


def mean(histogram: Histogram) -> float | None:
    """Mean of the observations, None when there are none."""
    return histogram.total / histogram.count if histogram.count > 0 else None


def quantile(histogram: Histogram, share: float) -> Quantile | None:
    """The value that ``share`` (0 to 1, exclusive) of the observations do not pass; None without observations.

    Linear inside the bucket, as Prometheus' histogram_quantile does it, as far as the sum of the observations allows
    (see ``_allowed``). Without that a queue time of microseconds in a first bucket of 0.3 s would read as 0.285 s.
    """
    if histogram.count <= 0 or not histogram.bounds:
        return None
    rank = share * histogram.count
    below, lower = 0.0, 0.0
    for index, (bound, reached) in enumerate(zip(histogram.bounds, histogram.cumulative, strict=True)):
        if reached >= rank and reached > below:
            linear = lower + (bound - lower) * (rank - below) / (reached - below)
            low, high = _allowed(histogram, rank, index)
            return Quantile(value=max(low, min(linear, high)), between=(low, high))
        below, lower = reached, bound
    return Quantile(value=histogram.bounds[-1], is_lower_bound=True)


def _allowed(histogram: Histogram, rank: float, index: int) -> tuple[float, float]:
    """What the sum of all observations leaves of the bucket that holds the one of that rank.

    Those above it are at least as large as it, those below at least as large as the lower bounds of their buckets.
    And those below are at most as large as it, or as their upper bounds, those above at most as large as theirs.
    """
    uppers, lowers = histogram.bounds, (0.0, *histogram.bounds)
    lower, bound, below = lowers[index], uppers[index], (0.0, *histogram.cumulative)[index]
    inside = [reached - before for before, reached in pairwise((0.0, *histogram.cumulative))]
    floor = sum(map(mul, lowers, inside[:index])) + lower * (rank - below)
    others = (
        inf if histogram.count > histogram.cumulative[-1] else sum(map(mul, uppers, inside)) - bound * inside[index]
    )
    ceiling = others + bound * (histogram.cumulative[index] - rank)
    high = (histogram.total - floor) / (histogram.count - rank)
    low = (histogram.total - ceiling) / (rank - below) if rank > below else lower
    low = max(lower, min(low, bound))
    return low, max(low, min(high, bound))
