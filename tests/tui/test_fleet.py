"""All servers at once, on truth servers that answer, hang, break off and are gone."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from cockpit.errors import CockpitError
from cockpit.fleet_watch import FleetWatch, Look, Target, place_of, unique_targets
from cockpit.supervisor.others import Other
from cockpit.telemetry.aging import aged
from cockpit.telemetry.frame import Frame, Kv, Requests, Throughput
from cockpit.tui.app import CockpitApp
from cockpit.tui.fleet_rows import COLUMNS, cells, visible_columns
from cockpit.tui.screens.catalog import CatalogScreen
from cockpit.tui.screens.fleet import FleetScreen
from cockpit.tui.screens.instance import InstanceScreen
from cockpit.tui.screens.instances import InstancesScreen
from cockpit.watch import Observation

from .helpers import (
    DESIGN,
    SIZES,
    SMALLEST,
    Cockpit,
    noting_toasts,
    settled,
    shown,
    until,
    until_shown,
    until_told,
    words_of,
)
from .still_life import BOOTED, LOADED, StillSession, boot, gpu_frame, observation, record
from .world import rig_of

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "fakes"))

from truth_server import TruthServer

at_both_sizes = pytest.mark.parametrize("size", SIZES, ids=[f"{width}x{height}" for width, height in SIZES])


@pytest.fixture
def servers() -> Iterator[dict[str, TruthServer]]:
    """By mode; the idle one is gone."""
    modes = ("steady", "dp2", "slow", "broken", "error", "idle")
    made = {mode: TruthServer(mode, hold_seconds=3.0) for mode in modes}
    made["idle"].close()
    yield made
    for mode in modes[:-1]:
        made[mode].close()


def test_figures_are_never_cut_to_others() -> None:
    """A thousand requests in three cells read as one."""
    speed = Throughput(prefill_tokens_per_second=1_234_567.0, decode_tokens_per_second=98_765_432.0)
    frame = Frame(
        at=0.0,
        state="foreign",
        throughput=speed,
        requests=Requests(running=1024, waiting=12_345),
        kv=Kv(capacity_tokens=12_345_678_901),
    )
    row = cells(Look(target=Target(name="x", url="http://x", state="foreign"), frame=frame))
    assert [row[key][0] for key in ("prefill", "decode", "running", "waiting", "capacity")] == [
        "1,234,567",
        " 98.765M",
        "1024",
        "12345",
        "   12.346G",
    ]
    for marked in (
        msgspec.structs.replace(speed, prefill_is_estimate=True),
        msgspec.structs.replace(speed, prefill_basis="including_cached"),
    ):
        look = Look(
            target=Target(name="x", url="http://x", state="foreign"),
            frame=msgspec.structs.replace(frame, throughput=marked),
        )
        assert cells(look)["prefill"][0] in {" ≈ 1.235M", " ≤ 1.235M"}


def quick(seen: Sequence[Observation] = (), others: Sequence[Other] = ()) -> StillSession:
    session = StillSession(rig_of(2), seen, others=others)
    session.config = msgspec.structs.replace(session.config, refresh_seconds=0.2)
    return session


@asynccontextmanager
async def fleet(
    urls: Sequence[str] = (), session: StillSession | None = None, size: tuple[int, int] = DESIGN
) -> AsyncIterator[Cockpit]:
    """The app on its fleet screen, opened by URLs or by its key."""
    app = noting_toasts(CockpitApp(session or quick(), show_clock=False, fleet_urls=urls))
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: app.engines is not None)
        if not urls:
            await pilot.press("F")
        await until(pilot, lambda: isinstance(app.screen, FleetScreen))
        yield pilot


def row_of(pilot: Cockpit, server: TruthServer) -> str:
    """The table's row of a server; empty when it has none."""
    return next((line for line in shown(pilot).splitlines()[3:] if place_of(server.url) in line[:32]), "")


@at_both_sizes
async def test_a_slow_a_broken_and_a_dead_server_delay_no_other(
    servers: dict[str, TruthServer], size: tuple[int, int]
) -> None:
    began = time.monotonic()  # before the screen is there: the first look may well be over when it is
    async with fleet([server.url for server in reversed(servers.values())], size=size) as pilot:
        await until(pilot, lambda: "37 %" in row_of(pilot, servers["steady"]))
        assert "… asking" in row_of(pilot, servers["slow"]) or time.monotonic() - began > 1.0
        for mode in ("slow", "error", "idle"):
            await until(pilot, lambda mode=mode: "✕ silent" in row_of(pilot, servers[mode]))  # type: ignore[misc]
        for mode, decode in (("steady", 90), ("dp2", 120), ("broken", 90)):
            await until(pilot, lambda mode=mode, decode=decode: near(row_of(pilot, servers[mode]), decode))  # type: ignore[misc]
        order = [line.split()[2] for line in shown(pilot).splitlines()[3:9]]
        assert order == [place_of(server.url) for server in reversed(servers.values())]


def near(row: str, decode: float) -> bool:
    """Whether the row's decode speed is that, within 5 %."""
    words = row.replace("≈ ", "").split()
    figures = [word for word in words if word.replace(",", "").replace(".", "").isdigit()]
    return len(figures) > 1 and abs(float(figures[1].replace(",", "")) - decode) < 0.05 * decode


async def test_the_marked_server_is_told_of_below_and_a_failure_in_one_whole_sentence(
    servers: dict[str, TruthServer],
) -> None:
    async with fleet([servers["dp2"].url, servers["idle"].url], size=SMALLEST) as pilot:
        await until_shown(pilot, "80,000 / 400,000 tokens", "hits 31 %", "2 engines:")
        await pilot.press("down")
        await until(pilot, lambda: "the connection was refused, as nothing listens there." in words_of(shown(pilot)))


async def test_a_server_by_url_opens_its_live_screen_and_back_is_the_fleet(servers: dict[str, TruthServer]) -> None:
    async with fleet([servers["steady"].url + "/v1"]) as pilot:
        await until_shown(pilot, "37 %")
        await pilot.press("K")
        await until_told(pilot, "stop it where it runs")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, InstanceScreen))
        await until_shown(pilot, "running 2", "327,139 / 884,160 tokens")
        assert " stop" not in shown(pilot).splitlines()[-1]
        await pilot.pause(1.0)  # a server on no record is not taken for one that is gone
        assert isinstance(pilot.app.screen, InstanceScreen)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, FleetScreen))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, CatalogScreen))


async def test_a_server_that_dies_is_greyed_with_its_age_and_then_unknown(servers: dict[str, TruthServer]) -> None:
    server = TruthServer("steady")
    async with fleet([server.url, servers["dp2"].url]) as pilot:
        await until(pilot, lambda: "37 %" in row_of(pilot, server))
        server.close()
        await until(pilot, lambda: re.search(r"37 %.* [4-9] s$", row_of(pilot, server)))
        await until(pilot, lambda: "✕ silent" in row_of(pilot, server) and "37 %" not in row_of(pilot, server))
        await until(pilot, lambda: near(row_of(pilot, servers["dp2"]), 120))


@at_both_sizes
async def test_fleet_of_this_host(
    screen_text: SnapshotAssertion, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = [
        observation(record("vllm/dual", 8010, gpus=(0, 1)), "ready", boot(*BOOTED)),
        observation(record("vllm/minimal", 8011, ready=False), "starting", boot(*LOADED)),
        observation(record("cpu/tiny-qwen3", 8000, exit_code=1), "dead", boot(*BOOTED)),
    ]
    others = [
        Other(name="foreign-77001", kind="foreign", what="vllm serve m", url="http://127.0.0.1:8020"),
        Other(name="far", kind="adopted", what="", url="https://gpu.example/team", model="m"),
        Other(name="orphans-9", kind="orphans", what="VLLM::EngineCore"),
        Other(name="nowhere", kind="foreign", what="vllm serve --uds /run/vllm"),
    ]
    monkeypatch.setattr("cockpit.fleet_watch.FleetWatch._begin", lambda *_: None)
    monkeypatch.setattr("cockpit.fleet_watch.FleetWatch.looks", still_looks)
    async with fleet(session=quick(seen, others), size=size) as pilot:
        await until_shown(pilot, "vllm-dual", "nowhere", "far")
        assert await settled(pilot) == screen_text


def still_looks(watch: FleetWatch) -> tuple[Look, ...]:
    """Fixed figures for the servers that are followed: fresh, half-dead, dead, and not asked at all."""
    fresh = msgspec.structs.replace(gpu_frame(), model="qwen3.6-27b-autoround", age_seconds=0.2)
    old = msgspec.structs.replace(fresh, age_seconds=7.0, stale=True, notes=("/metrics does not answer.",))
    frames = {"vllm-dual": fresh, "far": old, "foreign-77001": aged(old, 30.0)}
    return tuple(Look(target=target, frame=frames.get(target.name)) for target in watch._targets)


async def test_from_the_list_of_servers_to_the_fleet_and_back_piles_up_no_screens() -> None:
    seen = [observation(record("vllm/dual", 8010), "ready", boot(*BOOTED), gpu_frame())]
    async with fleet(session=quick(seen)) as pilot:
        for _ in range(3):
            await pilot.press("i")
            await until(pilot, lambda: isinstance(pilot.app.screen, InstancesScreen))
            await pilot.press("enter")
            await until(pilot, lambda: isinstance(pilot.app.screen, InstanceScreen))
            await pilot.press("F")
            await until(pilot, lambda: isinstance(pilot.app.screen, FleetScreen))
        assert len(pilot.app.screen_stack) == 2


def test_every_width_is_filled_and_no_cell_is_cut() -> None:
    frame = msgspec.structs.replace(gpu_frame(prefill=123_456.0, decode=98_765.0), age_seconds=9.0)
    found = cells(Look(target=Target(name="s", url=None, state="ready"), frame=frame))
    for key, _, width, _ in COLUMNS:
        if key not in ("server", "model"):
            assert len(found[key][0]) <= width, key
    for width in range(80, 200):
        assert sum(cells_wide + 1 for _, _, cells_wide in visible_columns(width)) == width


def test_a_hidden_password_a_model_list_and_a_bad_url() -> None:
    same = unique_targets(["http://me:secret@h:1/a/v1", "http://h:1/a/metrics", "https://h"])
    assert [target.name for target in same] == ["h:1/a", "h"]
    assert not any("secret" in target.name for target in same)
    with pytest.raises(CockpitError):
        unique_targets(["h:1"])


def test_figures_age_while_nothing_newer_comes() -> None:
    frame = gpu_frame()
    assert not aged(frame, 2.0).stale
    assert aged(frame, 5.0).stale and aged(frame, 5.0).kv == frame.kv
    gone = aged(frame, 11.0)
    assert gone.stale and gone.engines is None and gone.kv.used_fraction is None and gone.age_seconds == 11.0
    assert aged(Frame(at=0.0, state="foreign"), 60.0) == Frame(at=0.0, state="foreign")


def test_a_bug_in_a_thread_is_raised_to_the_one_who_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Frame:
        raise ZeroDivisionError

    monkeypatch.setattr("cockpit.fleet_watch.Sampler.tick", broken)
    watch = FleetWatch(every_seconds=0.05)
    watch.follow([Target(name="a", url="http://127.0.0.1:9", state="foreign")])
    limit = time.monotonic() + 60.0
    with pytest.raises(ZeroDivisionError):
        while time.monotonic() < limit:
            watch.looks()
            time.sleep(0.01)
    watch.close()
