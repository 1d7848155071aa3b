"""Figures by time, and their picture in braille."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.telemetry.braille import chart
from cockpit.telemetry.frame import Frame, GpuReading, Throughput
from cockpit.telemetry.timeline import ONE_HOUR, TWO_MINUTES, Timeline


def frame(at, decode, stale=False, watts=None):
    gpus = () if watts is None else (GpuReading(index=0, uuid="", name="", power_watts=watts),)
    return Frame(at=at, state="ready", stale=stale, throughput=Throughput(decode_tokens_per_second=decode), gpus=gpus)


def timeline(*frames):
    made = Timeline()
    for one in frames:
        made.push(one)
    return made


def test_unknown_is_blank_zero_the_lowest_dot_and_the_top_is_full():
    assert chart([None, None, 0.0, 0.0, 8.0, 8.0], 1, 8.0) == ["⠀⣀⣿"]
    assert chart([4.0, 8.0], 2, 8.0) == ["⢸", "⣿"]


def test_columns_fill_from_below():
    assert chart([1.0, 2.0, 3.0, 4.0], 1, 4.0) == ["⣠⣾"]


@given(st.lists(st.none() | st.floats(0, 1e9), max_size=200), st.integers(1, 5), st.floats(0, 1e9))
def test_a_chart_is_as_large_as_asked(values, height, top):
    lines = chart(values, height, top)
    assert len(lines) == height
    assert all(len(line) == len(values) // 2 for line in lines)
    assert all(0x2800 <= ord(cell) <= 0x28FF for line in lines for cell in line)


def test_two_minutes_show_each_tick_at_its_time():
    made = timeline(*(frame(1_000.0 + second, float(second)) for second in range(200)))
    assert made.columns("decode", TWO_MINUTES, 120) == [float(second) for second in range(80, 200)]


def test_more_columns_than_ticks_leave_no_gaps():
    made = timeline(*(frame(1_000.0 + second, 5.0) for second in range(150)))
    assert made.columns("decode", TWO_MINUTES, 300) == [5.0] * 300


def test_fewer_columns_than_ticks_keep_the_peak():
    frames = [frame(960.0 + second, 90.0 if second == 77 else 1.0) for second in range(120)]
    assert timeline(*frames).columns("decode", TWO_MINUTES, 12) == [1.0] * 7 + [90.0] + [1.0] * 4


def test_an_hour_keeps_the_peaks_and_what_came_before_is_gone():
    frames = [frame(36_000.0 + second, 90.0 if second in (10, 3_000) else 1.0) for second in range(5_000)]
    columns = timeline(*frames).columns("decode", ONE_HOUR, 100)
    assert columns.count(90.0) == 1
    assert columns.count(1.0) == 99


def test_time_without_a_frame_and_stale_figures_are_gaps_but_power_is_not():
    frames = [
        frame(1_000.0 + second, 5.0, stale=40 <= second < 60, watts=100.0)
        for second in range(120)
        if second < 80 or second > 100
    ]
    made = timeline(*frames)
    columns = made.columns("decode", TWO_MINUTES, 120)
    assert columns[40:60] == [None] * 20
    assert columns[83:100] == [None] * 17
    assert made.columns("power", TWO_MINUTES, 120)[40:60] == [100.0] * 20


def test_a_picture_stands_still_until_it_moves_by_a_whole_column():
    made = timeline(*(frame(1_000.0 + second / 4, float(second % 7)) for second in range(480)))
    before = made.columns("decode", TWO_MINUTES, 60)
    made.push(frame(1_120.1, 0.0))
    assert made.columns("decode", TWO_MINUTES, 60)[:-2] in (before[:-2], before[1:-1])


def test_a_clock_that_is_set_back_begins_a_new_picture():
    made = timeline(frame(1_000.0, 5.0), frame(10.0, 7.0))
    assert [value for value in made.columns("decode", TWO_MINUTES, 120) if value is not None] == [7.0]


def test_an_unknown_series_is_an_error_and_nothing_is_blank():
    with pytest.raises(KeyError):
        Timeline().columns("nonsense", TWO_MINUTES, 10)
    assert Timeline().columns("decode", TWO_MINUTES, 3) == [None] * 3
    assert Timeline().columns("decode", TWO_MINUTES, 0) == []
