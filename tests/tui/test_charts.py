"""Charts on the instance screen: two minutes, an hour, none; at both sizes."""

from __future__ import annotations

import math

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from cockpit.telemetry.timeline import TWO_MINUTES, Timeline
from cockpit.tui.content import row_text
from cockpit.tui.present_charts import chart_rows
from cockpit.tui.screens.instance import InstanceScreen, Seen

from .helpers import SIZES, opened, settled, shown, until, until_shown
from .still_life import StillSession, cpu_frame, gpu_frame
from .test_snapshots import open_instance, rig_of, serving_dual


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
async def test_instance_with_charts(screen_text: SnapshotAssertion, size: tuple[int, int]) -> None:
    seen = serving_dual()
    async with opened(StillSession(rig_of(2), [seen]), size) as pilot:
        await open_instance(pilot, seen)
        await until_shown(pilot, "88.7")
        for second in range(121):
            wave = (1 + math.sin(second / 9)) / 2
            frame = gpu_frame(prefill=2498.0 * wave, decode=88.7 * (1 - wave / 3))
            frame = msgspec.structs.replace(frame, at=1_200_000.0 + second)
            pilot.app.screen.post_message(Seen(msgspec.structs.replace(seen, frame=frame)))
        await pilot.press("c")
        await until_shown(pilot, "── 2 min", "running", "now")
        assert await settled(pilot) == screen_text
        await pilot.press("c")
        await until_shown(pilot, "── 1 h", "-1 h")
        await pilot.press("c")
        await until(pilot, lambda: "── 1 h" not in shown(pilot) and "── log" in shown(pilot))


async def test_what_is_copied_holds_the_charts_that_are_shown() -> None:
    seen = serving_dual()
    async with opened(StillSession(rig_of(2), [seen])) as pilot:
        await open_instance(pilot, seen)
        pilot.app.screen.post_message(Seen(seen))
        await until_shown(pilot, "88.7")
        await pilot.press("y")
        await until(pilot, lambda: "decode" in pilot.app.clipboard)
        assert "now" not in pilot.app.clipboard
        await pilot.press("c")
        await until_shown(pilot, "── 2 min")
        await pilot.press("y")
        await until(pilot, lambda: "now" in pilot.app.clipboard)
        assert isinstance(pilot.app.screen, InstanceScreen)


@pytest.mark.parametrize("width", [80, 120, 200])
def test_every_row_of_the_charts_fits_and_ends_at_the_same_cell(width: int) -> None:
    timeline = Timeline()
    for second in range(120):
        timeline.push(msgspec.structs.replace(gpu_frame(prefill=123_456.0), at=1_000.0 + second))
    lines = [row_text(row) for row in chart_rows(timeline, TWO_MINUTES, width)]
    assert all(len(line) <= width for line in lines)
    assert len({len(line) for line in lines[:-1]}) == 1
    assert "123,456" in lines[0] and "power" in "".join(lines)


def test_without_a_gpu_the_processor_stands_for_power() -> None:
    timeline = Timeline()
    timeline.push(msgspec.structs.replace(cpu_frame(), at=1_000.0))
    text = "\n".join(row_text(row) for row in chart_rows(timeline, TWO_MINUTES, 80))
    assert "CPU" in text and "power" not in text and "12.0 %" in text


def test_a_server_elsewhere_has_no_chart_of_a_machine() -> None:
    timeline = Timeline()
    timeline.push(msgspec.structs.replace(cpu_frame(), host=None))
    names = [row_text(row)[:9].strip() for row in chart_rows(timeline, TWO_MINUTES, 120)]
    assert "waiting" in names and not {"CPU", "power"} & set(names)
