"""Every screen as text, at the smallest size and at the design's: read the .txt files to see the cockpit."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion
from textual.widgets import Button

from cockpit.supervisor.again import Change
from cockpit.supervisor.boot_pace import Pace
from cockpit.supervisor.boot_state import StageId
from cockpit.supervisor.diagnose.files import diagnose_file
from cockpit.supervisor.logfile import clean
from cockpit.supervisor.others import Other
from cockpit.supervisor.record import ProcessIdentity
from cockpit.supervisor.silence import Silence
from cockpit.tui.screens.catalog import CatalogScreen
from cockpit.tui.screens.dialogs import FixQuestion, HelpScreen
from cockpit.tui.screens.instance import InstanceScreen, Seen
from cockpit.watch import Observation

from .forecasts import FITS, TIGHT, TOO_BIG, UNKNOWN
from .helpers import SIZES, Cockpit, app_of, mark, open_card, opened, settled, until, until_shown
from .still_life import BOOTED, LOADED, LONG_AGO, StillSession, boot, cpu_frame, gpu_frame, observation, record
from .world import CPU_RIG, rig_of, write_slug

USUAL: dict[StageId, float] = {"environment": 9, "config": 5, "weights": 67, "compile": 59, "graphs": 140, "ready": 5}
BOOT_LOGS = Path(__file__).parents[1] / "fixtures" / "boot-logs"
GRAPHS = "h200-0.26-ct4-graph.log"
COMPLETE = "Application startup complete"
at_both_sizes = pytest.mark.parametrize("size", SIZES, ids=[f"{width}x{height}" for width, height in SIZES])


@pytest.fixture(autouse=True)
def same_port_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cockpit.this_host.first_free_port", lambda *_, **__: 8000)


@pytest.fixture(autouse=True)
def same_place_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cockpit.launch.overlay.FOLDER", Path("/opt/cockpit/overlays"))


@pytest.fixture(autouse=True)
def same_time_everywhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def serving_dual() -> Observation:
    who = record("vllm/dual", 8010, gpus=(0, 1), forecast={"forecast": msgspec.to_builtins(FITS)})
    booted = boot(*BOOTED)
    booted = msgspec.structs.replace(booted, facts=msgspec.structs.replace(booted.facts, available_kv_gib=11.05))
    return observation(who, "ready", booted, gpu_frame())


def with_log(seen: Observation, name: str, until_line: str = "") -> Observation:
    """The log of a real boot, up to the last line that has ``until_line`` in it."""
    text = (BOOT_LOGS / name).read_text(encoding="utf-8")
    lines = [clean(line) for line in text.splitlines()]
    end = max(number for number, line in enumerate(lines) if until_line in line)
    return msgspec.structs.replace(seen, lines=tuple(lines[max(0, end - 40) : end + 1]))


def dead_dual() -> Observation:
    """As its log says: one request did not fit, and its diagnosis knows what does; the sentence is a fixed one."""
    why = "One request of 262,144 tokens does not fit the KV pool: it needs 16.2 GiB, and 1.9 GiB are there."
    found = msgspec.structs.replace(diagnose_file(str(BOOT_LOGS / "h200-0.26-nokv.log")), explanation=why)
    cause = found.first_exception
    who = record("vllm/dual", 8010, ready=False, gpus=(0, 1), exit_code=1)
    who = msgspec.structs.replace(who, ended_at=who.created_at + 97.5)
    died = (*LOADED, ("kv_pool", 81.0, None, ""))
    seen = observation(who, "dead", boot(*died, first_exception=cause))
    return with_log(msgspec.structs.replace(seen, diagnosis=found), "h200-0.26-nokv.log")


@at_both_sizes
async def test_catalog(screen_text: SnapshotAssertion, size: tuple[int, int]) -> None:
    write_slug("broken", "name: mine/broken\nmodel: x\ntemprature: 3\n")
    dead = observation(record("cpu/tiny-qwen3", 8000, exit_code=1), "dead", boot(*BOOTED))
    async with opened(StillSession(rig_of(2), [serving_dual(), dead]), size) as pilot:
        await mark(pilot, "vllm/dual")
        await until_shown(pilot, "● ready", "✕ dead", "1 serving")
        await until(pilot, lambda: app_of(pilot).judged)
        assert await settled(pilot) == screen_text


@at_both_sizes
async def test_catalog_filtered(screen_text: SnapshotAssertion, size: tuple[int, int]) -> None:
    async with opened(StillSession(rig_of(2)), size) as pilot:
        await until(pilot, lambda: app_of(pilot).judged)
        await pilot.press("slash", "i", "n", "t", "6")
        await until_shown(pilot, "── vllm/qwen38-27b-int6-flat")
        await pilot.press("enter")
        assert await settled(pilot) == screen_text


@at_both_sizes
async def test_card_of_the_tiny_model(screen_text: SnapshotAssertion, size: tuple[int, int]) -> None:
    async with opened(StillSession(CPU_RIG), size) as pilot:
        await open_card(pilot, "cpu/tiny-qwen3")
        await pilot.press("a")
        await until_shown(pilot, "nothing is quantized")
        assert await settled(pilot) == screen_text


@at_both_sizes
async def test_card_of_dual_with_int8_off(screen_text: SnapshotAssertion, size: tuple[int, int]) -> None:
    async with opened(StillSession(rig_of(2)), size) as pilot:
        await open_card(pilot, "vllm/dual")
        assert await settled(pilot) == screen_text


@at_both_sizes
async def test_card_of_dual_with_int8_on(screen_text: SnapshotAssertion, size: tuple[int, int]) -> None:
    async with opened(StillSession(rig_of(2)), size) as pilot:
        await open_card(pilot, "vllm/dual")
        await pilot.press("a")
        await until_shown(pilot, "was OFF")
        assert await settled(pilot) == screen_text


@at_both_sizes
@pytest.mark.parametrize("verdict", ["fits", "tight", "too_big", "unknown"])
async def test_card_with_a_forecast(screen_text: SnapshotAssertion, size: tuple[int, int], verdict: str) -> None:
    forecast = {"fits": FITS, "tight": TIGHT, "too_big": TOO_BIG, "unknown": UNKNOWN}[verdict]
    async with opened(StillSession(rig_of(2), forecasts={"vllm/dual": forecast}), size) as pilot:
        await open_card(pilot, "vllm/dual")
        assert await settled(pilot) == screen_text


@at_both_sizes
async def test_card_with_a_number_being_typed(screen_text: SnapshotAssertion, size: tuple[int, int]) -> None:
    async with opened(StillSession(rig_of(2)), size) as pilot:
        await open_card(pilot, "vllm/dual")
        await pilot.press("l", "x", "enter")
        await until_shown(pilot, "Use a whole number")
        assert await settled(pilot) == screen_text


@at_both_sizes
async def test_card_that_is_refused(screen_text: SnapshotAssertion, size: tuple[int, int]) -> None:
    async with opened(StillSession(CPU_RIG, engines=()), size) as pilot:
        await open_card(pilot, "vllm/dual")
        await pilot.press("S")
        await until_shown(pilot, "not started")
        assert await settled(pilot) == screen_text


@at_both_sizes
async def test_instance_booting(screen_text: SnapshotAssertion, size: tuple[int, int]) -> None:
    stages = boot(*LOADED[:2], ("weights", 14.0, None, "shards 3/9"))
    seen = observation(record("vllm/dual", 8010, ready=False, gpus=(0, 1)), "starting", stages)
    pace = Pace(expected_seconds=287.0, remaining_seconds=191.0, fraction=0.338, boots=3, usual=USUAL)
    seen = msgspec.structs.replace(seen, pace=pace)
    await instance_matches(with_log(seen, GRAPHS, "Loading model from"), "◐ starting", screen_text, size)


@at_both_sizes
async def test_instance_that_hangs(screen_text: SnapshotAssertion, size: tuple[int, int]) -> None:
    seen = observation(record("vllm/dual", 8010, ready=False, gpus=(0, 1)), "starting", boot(*LOADED[:2]))
    silence = Silence(
        id="nccl-p2p",
        seconds=94.0,
        alarm=True,
        sentence="all GPUs are busy and NCCL does not come up: it looks like a P2P hang",
        fix="Stop it and start it with NCCL_P2P_DISABLE=1 in the slug's env; NCCL_DEBUG=INFO says where it hangs.",
    )
    seen = msgspec.structs.replace(seen, silence=silence)
    await instance_matches(with_log(seen, GRAPHS, "rank 0 in world"), "silent for 1:34", screen_text, size)


@at_both_sizes
async def test_instance_live_on_two_gpus(screen_text: SnapshotAssertion, size: tuple[int, int]) -> None:
    seen = serving_dual()
    async with opened(StillSession(rig_of(2), [with_log(seen, GRAPHS, COMPLETE)]), size) as pilot:
        await open_instance(pilot, seen)
        await until_shown(pilot, "88.7")
        for tick in range(60):
            wave = (1 + math.sin(tick / 5)) / 2
            frame = gpu_frame(prefill=2498.0 * wave, decode=88.7 * (1 - wave / 3))
            pilot.app.screen.post_message(Seen(msgspec.structs.replace(seen, frame=frame)))
        pilot.app.screen.post_message(Seen(seen))
        await until_shown(pilot, "2,498", "88.7", "▁")
        assert await settled(pilot) == screen_text


@at_both_sizes
async def test_instance_live_on_the_cpu(screen_text: SnapshotAssertion, size: tuple[int, int]) -> None:
    seen = observation(record("cpu/tiny-qwen3", 8000), "ready", boot(*BOOTED), cpu_frame())
    await instance_matches(with_log(seen, "cpu-0.32-tiny-eager-sigint.log", COMPLETE), "● ready", screen_text, size)


@at_both_sizes
async def test_instance_that_died(screen_text: SnapshotAssertion, size: tuple[int, int]) -> None:
    await instance_matches(dead_dual(), "✕ dead", screen_text, size)


@at_both_sizes
async def test_fix_of_a_dead_server(screen_text: SnapshotAssertion, size: tuple[int, int]) -> None:
    seen = dead_dual()
    changes = (
        Change("--max-model-len 262144", "--max-model-len 188416"),
        Change(None, "NCCL_P2P_DISABLE=1"),
    )
    async with opened(StillSession(rig_of(2), [seen]), size) as pilot:
        await open_instance(pilot, seen)
        await until_shown(pilot, "✕ dead", "[f] start again")
        pilot.app.push_screen(FixQuestion("vllm-dual", "Start again with 188,416 tokens.", changes, []))
        await until_shown(pilot, "+ NCCL_P2P_DISABLE=1")
        await until(pilot, lambda: isinstance(pilot.app.focused, Button))
        assert await settled(pilot) == screen_text


@at_both_sizes
async def test_instances(screen_text: SnapshotAssertion, size: tuple[int, int]) -> None:
    booting = observation(record("vllm/minimal", 8011, age=95.0), "starting", boot(*LOADED))
    booting = msgspec.structs.replace(
        booting, record=msgspec.structs.replace(booting.record, ended_at=booting.record.created_at + 95)
    )
    async with opened(StillSession(rig_of(4), [serving_dual(), booting]), size) as pilot:
        await pilot.press("i")
        await until_shown(pilot, "● ready", "◐ starting", "1 serving ◐ 1 starting")
        assert await settled(pilot) == screen_text


@at_both_sizes
async def test_instances_of_others(screen_text: SnapshotAssertion, size: tuple[int, int]) -> None:
    started = time.time() - LONG_AGO
    other = Other(
        name="foreign-77001",
        kind="foreign",
        processes=(ProcessIdentity(pid=77001, start_time=started),),
        what="vllm serve Qwen/Qwen3-8B --port 8000 --max-model-len 32768 --gpu-memory-utilization 0.9",
        url="http://127.0.0.1:8000",
        started_at=started,
    )
    left = Other(
        name="orphans-4711",
        kind="orphans",
        processes=(ProcessIdentity(pid=4712, start_time=started),),
        what="VLLM::EngineCor (pid 4712), VLLM::Worker_TP (pid 4713)",
        started_at=started,
    )
    elsewhere = Other(name="rack", kind="adopted", what="http://rack:8000", url="http://rack:8000")
    async with opened(StillSession(rig_of(4), [serving_dual()], others=[other, elsewhere, left]), size) as pilot:
        await pilot.press("i")
        await until_shown(pilot, "◇ foreign", "⚠ orphans", "1 serving")
        await pilot.press("end")
        await until_shown(pilot, "left by a dead server")
        assert await settled(pilot) == screen_text


@at_both_sizes
async def test_help(screen_text: SnapshotAssertion, size: tuple[int, int]) -> None:
    async with opened(StillSession(rig_of(2)), size) as pilot:
        await open_card(pilot, "vllm/dual")
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(pilot.app.screen, HelpScreen))
        assert await settled(pilot) == screen_text


@at_both_sizes
async def test_quit_dialog(screen_text: SnapshotAssertion, size: tuple[int, int]) -> None:
    async with opened(StillSession(rig_of(2), [serving_dual()]), size) as pilot:
        await mark(pilot, "vllm/dual")
        await until_shown(pilot, "● ready", "1 serving")
        await until(pilot, lambda: app_of(pilot).judged)
        await pilot.press("q")
        await until(pilot, lambda: isinstance(pilot.app.focused, Button))
        assert await settled(pilot) == screen_text


async def open_instance(pilot: Cockpit, seen: Observation) -> None:
    await until(pilot, lambda: app_of(pilot).instances)
    assert isinstance(pilot.app.screen, CatalogScreen)
    app_of(pilot).show_instance(seen.record.name)
    await until(pilot, lambda: isinstance(pilot.app.screen, InstanceScreen))


async def instance_matches(
    seen: Observation, word: str, screen_text: SnapshotAssertion, size: tuple[int, int]
) -> None:
    """The instance screen of one observation."""
    rig = rig_of(2) if seen.record.gpus else CPU_RIG
    async with opened(StillSession(rig, [seen]), size) as pilot:
        await open_instance(pilot, seen)
        await until_shown(pilot, word, "K stop", "catalog")
        assert await settled(pilot) == screen_text
