"""A tape on the instance screen."""

from __future__ import annotations

from pathlib import Path

import msgspec

from cockpit.tape import Replay, TapeWriter, read_tape
from cockpit.tui.app import CockpitApp
from cockpit.tui.screens.catalog import CatalogScreen
from cockpit.tui.screens.instance import InstanceScreen

from .helpers import shown, until, until_shown
from .still_life import StillSession, gpu_frame
from .test_snapshots import rig_of, serving_dual

TAPES = Path(__file__).resolve().parents[1] / "fixtures" / "tapes"
RECORDED, H200 = TAPES / "cpu-0.32-mixed.tape", TAPES / "h200-0.26-int8.tape"


def tape_of_a_minute(path: Path) -> Path:
    writer = TapeWriter(path)
    seen = serving_dual()
    for second in range(61):
        frame = msgspec.structs.replace(gpu_frame(prefill=100.0 * second), at=1_000_000.0 + second)
        writer.add(msgspec.structs.replace(seen, frame=frame, lines=(f"second [{second}] of /the/tape",)))
    writer.close()
    return path


async def test_a_tape_is_shown_as_it_was_and_cannot_be_stopped(tmp_path: Path) -> None:
    replay = Replay(read_tape(tape_of_a_minute(tmp_path / "a.tape")), speed=1000.0)
    session = StillSession(rig_of(2))
    session.config = msgspec.structs.replace(session.config, refresh_seconds=0.1)
    app = CockpitApp(session, show_clock=False, replay=replay)
    async with app.run_test(size=(120, 35)) as pilot:
        await until_shown(pilot, "tape 60 of 60 s", "vllm/dual", "6,000 tok/s computed", "second [60] of /the/tape")
        assert "stop" not in shown(pilot).splitlines()[-1]
        await pilot.press("K")
        await pilot.pause()
        assert isinstance(app.screen, InstanceScreen)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, CatalogScreen))


async def test_a_real_tape_is_shown_at_the_smallest_size() -> None:
    replay = Replay(read_tape(RECORDED), speed=1000.0)
    session = StillSession(rig_of(2))
    session.config = msgspec.structs.replace(session.config, refresh_seconds=0.1)
    app = CockpitApp(session, show_clock=False, replay=replay)
    async with app.run_test(size=(80, 24)) as pilot:
        await until_shown(pilot, "cpu/tiny-qwen3", "2,097,152 tokens", "prefix   hits", "of 2 cores")
        await pilot.press("c")
        await until_shown(pilot, "── 2 min", "CPU")


async def test_a_real_session_on_a_gpu_shows_its_memory_its_power_and_that_int8_is_active() -> None:
    replay = Replay(read_tape(H200), speed=1000.0)
    session = StillSession(rig_of(2))
    session.config = msgspec.structs.replace(session.config, refresh_seconds=0.1)
    app = CockpitApp(session, show_clock=False, replay=replay)
    async with app.run_test(size=(120, 35)) as pilot:
        await until_shown(pilot, "gpu/8b-ar4", "884,112 tokens", "tape 37 of 37 s")
        await until_shown(pilot, "130.5/140.4 GiB", "this 130.5", "123/700 W", "PCIe 5 x16", "NVLink 18")
        await until_shown(pilot, "proven active (144 layers, 27,248,256 of 54,263,808 groups folded)")
        await until_shown(pilot, "102,496 computed", "883,440", "within ±0.53")
