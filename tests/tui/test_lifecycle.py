"""A server's life as its user sees it: start, boot, ready, live, stop, death, leaving and coming back."""

from __future__ import annotations

from pathlib import Path

import psutil
from textual.widgets import Button

from cockpit import paths
from cockpit.session import Session
from cockpit.supervisor import process, store
from cockpit.supervisor.ready import state_of
from cockpit.tui.screens.card import CardScreen
from cockpit.tui.screens.catalog import CatalogScreen
from cockpit.tui.screens.instance import InstanceScreen
from cockpit.tui.screens.instances import InstancesScreen

from .conftest import MakeSession
from .helpers import lives, mark, open_card, opened, serve, shown, until, until_shown, until_told
from .world import cpu_slug


async def test_a_server_boots_shows_its_figures_and_is_gone_after_k(session: Session, tmp_path: Path) -> None:
    cpu_slug("cpu/slow", options=f"--boots-when {tmp_path}/booted --fork-children 2")
    async with opened(session) as pilot:
        await open_card(pilot, "cpu/slow")
        await pilot.press("S")
        await until_shown(pilot, "◐ starting", "environment")
        (tmp_path / "booted").touch()
        await until_shown(pilot, "● ready", "2,097,152", "90.", "running 2", "waiting 1")
        await until_shown(pilot, "Application startup complete")
        record = store.find("cpu/slow")
        members = process.members_of(record)
        assert len(members) == 4
        await pilot.press("K")
        await until_shown(pilot, "Stop cpu-slow?")
        await pilot.press("y")
        await until(pilot, lambda: isinstance(pilot.app.screen, CatalogScreen))
        await until_told(pilot, "cpu-slow stopped after", "nothing is left of it")
    assert store.load_all()[0] == []
    assert not any(process.is_alive(member) for member in members)


async def test_answering_no_or_escape_keeps_the_server(session: Session) -> None:
    cpu_slug("cpu/kept")
    async with opened(session) as pilot:
        record = await serve(pilot, "cpu/kept")
        for key in ("n", "escape"):
            await pilot.press("K")
            await until_shown(pilot, "Stop cpu-kept?")
            await pilot.press(key)
            await until(pilot, lambda: isinstance(pilot.app.screen, InstanceScreen))
        assert lives(record)


async def test_a_death_at_boot_shows_the_exit_code_and_the_first_exception(session: Session) -> None:
    cpu_slug("cpu/dies", options="--boot-seconds 3600 --die-at 0.5 --exit-code 3")
    async with opened(session) as pilot:
        await open_card(pilot, "cpu/dies")
        await pilot.press("S")
        await until_shown(
            pilot,
            "✕ dead",
            "exit code 3",
            "ValueError: No available memory for the cache blocks.",
            "while it started",
        )
        record = store.find("cpu/dies")
        assert not lives(record)
        await pilot.press("S")
        await until(pilot, lambda: isinstance(pilot.app.screen, CardScreen))
        assert len(store.load_all()[0]) == 1, "S on a dead server shows its card, it does not start"


async def test_the_card_of_a_dead_server_has_the_values_it_had(session: Session) -> None:
    cpu_slug("cpu/dies", options="--boot-seconds 3600 --die-at 0.3")
    async with opened(session) as pilot:
        await open_card(pilot, "cpu/dies")
        await pilot.press("e")
        await until_shown(pilot, "was OFF")
        await pilot.press("S")
        await until_shown(pilot, "✕ dead")
        await pilot.press("S")
        await until(pilot, lambda: isinstance(pilot.app.screen, CardScreen))
        await until_shown(pilot, "was OFF")
        assert isinstance(pilot.app.screen, CardScreen)
        assert pilot.app.screen.chosen == {"enforce_eager": "on"}


async def test_t_leads_from_a_running_server_to_its_card_where_k_and_s_start_it_anew(session: Session) -> None:
    cpu_slug("cpu/tuned")
    async with opened(session) as pilot:
        first = await serve(pilot, "cpu/tuned")
        await pilot.press("t")
        await until_shown(pilot, "cpu-tuned is being served", "K stops it, so that S starts it anew")
        assert isinstance(pilot.app.screen, CardScreen)
        await pilot.press("p")
        await until_shown(pilot, "enable-prefix-caching")
        await pilot.press("K")
        await until_shown(pilot, "Stop cpu-tuned?")
        await pilot.press("y")
        await until_told(pilot, "cpu-tuned stopped after")
        await until(pilot, lambda: "is being served" not in shown(pilot))
        await pilot.press("S")
        await until_shown(pilot, "● ready")
        (again,) = store.load_all()[0]
        assert again.process != first.process and again.values["prefix_caching"] != first.values["prefix_caching"]
        await pilot.press("t")
        await until_shown(pilot, "prefix caching", "is being served")
        card = pilot.app.screen
        assert isinstance(card, CardScreen) and card.chosen["prefix_caching"] == again.values["prefix_caching"]


async def test_a_server_that_dies_under_its_users_eyes_says_so(session: Session) -> None:
    cpu_slug("cpu/falls")
    async with opened(session) as pilot:
        record = await serve(pilot, "cpu/falls")
        assert record.process is not None
        psutil.Process(record.process.pid).kill()
        await until_shown(pilot, "✕ dead", "after it was ready", "exit code -9")


async def test_a_death_elsewhere_is_told_on_every_screen(session: Session) -> None:
    cpu_slug("cpu/falls")
    async with opened(session) as pilot:
        record = await serve(pilot, "cpu/falls")
        await pilot.press("escape")
        await until_shown(pilot, "1 serving")
        assert record.process is not None
        psutil.Process(record.process.pid).kill()
        await until_told(pilot, "cpu-falls died")
        await until_shown(pilot, "✕ dead", "0 serving")


async def test_q_leaves_the_server_running_and_a_second_cockpit_finds_it(make_session: MakeSession) -> None:
    cpu_slug("cpu/stays")
    async with opened(make_session()) as pilot:
        record = await serve(pilot, "cpu/stays")
        await pilot.press("q")
        await until_shown(pilot, "1 server is running")
        assert isinstance(pilot.app.focused, Button) and pilot.app.focused.id == "answer-leave"
        await pilot.press("enter")
        await until(pilot, lambda: not pilot.app.is_running)
    assert lives(record) and state_of(store.find("cpu/stays")) == "ready"
    async with opened(make_session()) as pilot:
        await until_shown(pilot, "● ready", "1 serving")
        await mark(pilot, "cpu/stays")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, InstanceScreen))
        await until_shown(pilot, "● ready", "2,097,152", "90.", "Application startup complete")
        await pilot.press("K")
        await until_shown(pilot, "Stop cpu-stays?")
        await pilot.press("y")
        await until(pilot, lambda: isinstance(pilot.app.screen, CatalogScreen))
        await until_shown(pilot, "0 serving")
    assert not lives(record)


async def test_q_can_stop_everything_first(session: Session) -> None:
    cpu_slug("cpu/one")
    cpu_slug("cpu/two", options="--fork-children 1")
    async with opened(session) as pilot:
        one = await serve(pilot, "cpu/one")
        await pilot.press("escape")
        two = await serve(pilot, "cpu/two")
        members = [*process.members_of(one), *process.members_of(two)]
        assert one.port != two.port and len(members) == 4
        await pilot.press("q")
        await until_shown(pilot, "2 servers are running", "cpu-one, cpu-two")
        await pilot.press("s")
        await until(pilot, lambda: not pilot.app.is_running)
    assert not any(process.is_alive(member) for member in members)
    assert store.load_all()[0] == []


async def test_q_can_be_taken_back(session: Session) -> None:
    cpu_slug("cpu/kept")
    async with opened(session) as pilot:
        record = await serve(pilot, "cpu/kept")
        for key in ("n", "escape"):
            await pilot.press("q")
            await until_shown(pilot, "1 server is running")
            await pilot.press(key)
            await until(pilot, lambda: isinstance(pilot.app.screen, InstanceScreen))
        assert pilot.app.is_running and lives(record)


async def test_q_without_servers_just_leaves(session: Session) -> None:
    async with opened(session) as pilot:
        await pilot.press("q")
        await until(pilot, lambda: not pilot.app.is_running)
        assert (pilot.app.return_code or 0) == 0


async def test_a_server_that_another_cockpit_stops_leaves_the_screen(make_session: MakeSession) -> None:
    cpu_slug("cpu/shared")
    async with opened(make_session()) as pilot:
        record = await serve(pilot, "cpu/shared")
        make_session().stop(record.name)
        await until(pilot, lambda: isinstance(pilot.app.screen, CatalogScreen))
        await until_shown(pilot, "0 serving")


async def test_the_list_of_instances_opens_and_stops_them(session: Session) -> None:
    cpu_slug("cpu/listed")
    async with opened(session) as pilot:
        record = await serve(pilot, "cpu/listed")
        await pilot.press("i")
        await until_shown(pilot, "● ready", "cpu-listed", record.url)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, InstanceScreen))
        await pilot.press("i")
        await until(pilot, lambda: isinstance(pilot.app.screen, InstancesScreen))
        await until_shown(pilot, "cpu-listed")
        await pilot.press("K")
        await until_shown(pilot, "Stop cpu-listed?")
        await pilot.press("y")
        await until_shown(pilot, "Nothing is served")
    assert not lives(record)


async def test_a_booting_server_can_be_stopped(session: Session) -> None:
    cpu_slug("cpu/endless", options="--no-listen --boot-seconds 0.1")
    async with opened(session) as pilot:
        await open_card(pilot, "cpu/endless")
        await pilot.press("S")
        await until_shown(pilot, "◐ starting")
        record = store.find("cpu/endless")
        await pilot.press("K")
        await until_shown(pilot, "Stop cpu-endless?")
        await pilot.press("y")
        await until(pilot, lambda: isinstance(pilot.app.screen, CatalogScreen))
    assert not lives(record) and store.load_all()[0] == []


async def test_a_state_folder_that_cannot_be_written_is_one_sentence(session: Session) -> None:
    cpu_slug("cpu/homeless")
    paths.state_home().parent.mkdir(parents=True, exist_ok=True)
    paths.state_home().write_text("a file where a folder should be")
    async with opened(session) as pilot:
        await open_card(pilot, "cpu/homeless")
        await pilot.press("S")
        await until_shown(pilot, "cannot write to")
        assert isinstance(pilot.app.screen, CardScreen)
        assert "Traceback" not in shown(pilot)
