"""Rings of figures and their picture."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.telemetry.frame import Frame, GpuReading, Throughput
from cockpit.telemetry.history import BLOCKS, History, sparkline


def frame(decode, stale=False, watts=()):
    gpus = tuple(GpuReading(index=i, uuid="", name="", power_watts=watt) for i, watt in enumerate(watts))
    return Frame(at=0, state="ready", stale=stale, throughput=Throughput(decode_tokens_per_second=decode), gpus=gpus)


def test_the_ring_keeps_the_newest_values():
    history = History(length=3)
    for decode in (1.0, None, 3.0, 4.0):
        history.push(frame(decode))
    assert history.series("decode") == (None, 3.0, 4.0)
    assert history.series("prefill") == (None, None, None)


def test_a_stale_frame_leaves_a_gap_in_served_figures_but_not_in_measured_power():
    history = History()
    history.push(frame(5.0, stale=True, watts=(100.0, None, 50.0)))
    assert history.series("decode") == (None,)
    assert history.series("power") == (150.0,)


def test_an_unknown_series_is_an_error():
    with pytest.raises(KeyError):
        History().series("nonsense")


def test_unknown_is_a_space_and_zero_is_the_lowest_block():
    assert sparkline([0.0, None, 0.0], 3) == "▁ ▁"
    assert sparkline([None, 0.0, 4.0, 8.0], 4) == " ▁▅█"


def test_few_values_stand_at_the_right():
    assert sparkline([1.0], 4) == "   █"


def test_a_peak_survives_downsampling():
    values = [0.0] * 100
    values[37] = 9.0
    assert sparkline(values, 10) == "▁▁▁█▁▁▁▁▁▁"


def test_a_ceiling_fixes_the_scale():
    assert sparkline([0.5, 1.0, 2.0], 3, ceiling=1.0) == "▅██"


VALUES = st.lists(st.none() | st.floats(), max_size=300)


@given(VALUES, st.integers(min_value=0, max_value=200), st.none() | st.floats(min_value=0, max_value=10))
def test_a_sparkline_is_as_wide_as_asked_and_made_of_blocks(values, width, ceiling):
    line = sparkline(values, width, ceiling)
    assert len(line) == width
    assert set(line) <= set(BLOCKS + " ")
