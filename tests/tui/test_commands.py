"""One table of commands: what it promises about keys, and that the app keeps it."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
from textual.command import CommandPalette
from textual.widgets import Input

from cockpit.errors import CockpitError
from cockpit.launch.toggles import TOGGLES
from cockpit.session import Session
from cockpit.tui.app import CockpitApp
from cockpit.tui.commands import COMMANDS, EVERYWHERE, START_STOP_QUIT, commands_for
from cockpit.tui.editor import editor_words
from cockpit.tui.keymap import check_keymap
from cockpit.tui.screens.base import CockpitScreen
from cockpit.tui.screens.card import CardScreen
from cockpit.tui.screens.catalog import CatalogScreen
from cockpit.tui.screens.dialogs import HelpScreen
from cockpit.tui.screens.fleet import FleetScreen
from cockpit.tui.screens.instance import InstanceScreen
from cockpit.tui.screens.instances import InstancesScreen

from .conftest import MakeSession
from .helpers import app_of, open_card, opened, serve, shown, type_text, until, until_shown
from .world import cpu_slug

SCREENS: tuple[type[CockpitScreen], ...] = (CatalogScreen, CardScreen, InstanceScreen, InstancesScreen, FleetScreen)
SNAPSHOTS = Path(__file__).with_name("__snapshots__")
TERMINALS_CONFUSE = {"ctrl+h", "ctrl+i", "ctrl+m", "ctrl+j", "ctrl+left_square_bracket"}


def keys_of(screen: str) -> dict[str, list[str]]:
    """Key → actions that the table gives it on a screen."""
    actions: dict[str, list[str]] = defaultdict(list)
    for command in commands_for(screen):
        for key in command.key.split(","):
            actions[key].append(command.action)
    return actions


def test_every_command_is_of_a_screen_that_exists_and_has_a_method() -> None:
    screens = {screen.COMMANDS_OF: screen for screen in SCREENS}
    for command in COMMANDS:
        home = CockpitApp if command.screen == EVERYWHERE else screens[command.screen]
        assert hasattr(home, f"action_{command.action.partition('(')[0]}"), command.id
        assert command.label and command.help.endswith(".")
    assert len({command.id for command in COMMANDS}) == len(COMMANDS)


@pytest.mark.parametrize("file", sorted(SNAPSHOTS.rglob("*80x24*.txt")), ids=lambda file: file.stem)
def test_no_footer_is_cut_at_80_columns(file: Path) -> None:
    footer = file.read_text().splitlines()[-1]
    labels = {command.label for command in COMMANDS}
    assert any(footer.endswith(f" {label}") for label in labels), footer


@pytest.mark.parametrize("screen", [screen.COMMANDS_OF for screen in SCREENS])
def test_no_key_has_two_meanings_on_one_screen(screen: str) -> None:
    for key, actions in keys_of(screen).items():
        assert len(actions) == 1, (screen, key)
        assert key not in TERMINALS_CONFUSE


@pytest.mark.parametrize("screen", [screen.COMMANDS_OF for screen in SCREENS])
def test_start_stop_and_quit_keep_their_keys_on_every_screen(screen: str) -> None:
    for key, actions in keys_of(screen).items():
        for action in actions:
            if key in START_STOP_QUIT:
                assert action in START_STOP_QUIT[key], f"{key} on {screen} means {action}"
            elif key != "enter":  # the card also starts with Enter
                assert action not in {word for words in START_STOP_QUIT.values() for word in words}, (screen, key)
    assert keys_of(screen)["q"] == ["quit_asking"]


def test_toggle_letters_are_small_unique_and_no_commands_of_the_card() -> None:
    letters = [toggle.key for toggle in TOGGLES]
    assert len(set(letters)) == len(letters)
    assert all(len(letter) == 1 and letter.isascii() and letter.islower() for letter in letters)
    assert not set(letters) & set(keys_of("card"))


def test_a_keymap_of_unknown_commands_is_refused_with_the_known_ones() -> None:
    with pytest.raises(CockpitError, match="which is no command") as caught:
        check_keymap({"quit": "Q", "card.stat": "x"})
    assert "card.start" in caught.value.fix and "toggle.int8" in caught.value.fix
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("keymap", "words"),
    [
        ({"catalog.sort": "n"}, "catalog.new"),
        ({"catalog.sort": "f5", "catalog.filter": "f5"}, "catalog.filter"),
        ({"catalog.sort": "i"}, "instances"),
        ({"catalog.sort": "?"}, "help"),
        ({"toggle.int8": "r"}, "card.reset"),
        ({"toggle.int8": "k"}, "toggle.kv_cache_dtype"),
        ({"card.copy": "x,a"}, "toggle.int8"),
        ({"card.copy": "enter"}, "card.start"),
        ({"quit": "s"}, "toggle.max_num_seqs"),
        ({"catalog.sort": "S"}, "instance.restart"),
        ({"instance.stop": "D", "catalog.sort": "D"}, "instance.stop"),
        ({"quit": "pagedwon"}, "pagedwon"),
        ({"quit": ""}, "which is no key"),
        ({"quit": "ctrl+i"}, "tab"),
        ({"quit": "ctrl+p"}, "palette"),
    ],
)
def test_a_keymap_that_would_mislead_is_refused_by_name(keymap: dict[str, str], words: str) -> None:
    with pytest.raises(CockpitError) as caught:
        check_keymap(keymap)
    sentence = caught.value.sentence()
    assert words in sentence and sorted(keymap)[-1].split(".")[0] in sentence
    assert caught.value.fix and caught.value.exit_code == 2


@pytest.mark.parametrize(
    "keymap",
    [
        {},
        {"catalog.sort": "n", "catalog.new": "s"},
        {"quit": "ctrl+t", "help": "f1", "catalog.filter": "."},
        {"instances": "I,f2", "toggle.int8": "b"},
        {"catalog.sort": "exclamation_mark", "card.copy": "alt+c"},
    ],
)
def test_keymaps_without_a_clash_are_taken(keymap: dict[str, str]) -> None:
    check_keymap(keymap)


async def test_help_and_card_show_remapped_keys(make_session: MakeSession) -> None:
    session = make_session(keys={"help": "f1", "toggle.prefix_caching": "b", "card.copy": "ctrl+y"})
    async with opened(session, (120, 60)) as pilot:
        await open_card(pilot, "cpu/tiny-qwen3")
        await until_shown(pilot, "[b] prefix caching", "^y copy")
        await pilot.press("f1")
        await until_shown(pilot, "   b  prefix caching", "ctrl+y  Copy the command", "  f1  Show the keys")
        assert "   ?  Show the keys" not in shown(pilot)
        await pilot.press("f1")
        await until(pilot, lambda: isinstance(pilot.app.screen, CardScreen))


def test_the_app_does_not_open_with_such_a_keymap(make_session: MakeSession) -> None:
    with pytest.raises(CockpitError, match="which is no command"):
        CockpitApp(make_session(keys={"nonsense": "x"}))


async def test_keys_can_be_remapped_by_the_config(make_session: MakeSession) -> None:
    session = make_session(keys={"instances": "f2", "toggle.prefix_caching": "z", "quit": "f10"})
    async with opened(session) as pilot:
        await pilot.press("i", "q")
        await pilot.pause()
        assert isinstance(pilot.app.screen, CatalogScreen)
        await pilot.press("f2")
        await until(pilot, lambda: isinstance(pilot.app.screen, InstancesScreen))
        await pilot.press("escape")
        card = await open_card(pilot, "cpu/tiny-qwen3")
        await pilot.press("p")
        await pilot.pause()
        assert card.chosen == {}
        await pilot.press("z")
        await until(pilot, lambda: "prefix_caching" in card.chosen)
        await pilot.press("f10")
        await until(pilot, lambda: not pilot.app.is_running)


async def test_help_lists_every_command_of_the_screen_and_closes(session: Session) -> None:
    async with opened(session, (120, 60)) as pilot:
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(pilot.app.screen, HelpScreen))
        await until_shown(pilot, *(command.help for command in commands_for("catalog")))
        await pilot.press("escape")
        await open_card(pilot, "cpu/tiny-qwen3")
        await pilot.press("question_mark")
        await until_shown(pilot, *(command.help for command in commands_for("card")))
        await until_shown(pilot, *(toggle.label for toggle in TOGGLES))
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(pilot.app.screen, CardScreen))


@pytest.mark.parametrize("screen", ["catalog", "card", "instances"])
async def test_the_palette_has_every_command_of_the_screen(session: Session, screen: str) -> None:
    async with opened(session) as pilot:
        if screen == "card":
            await open_card(pilot, "cpu/tiny-qwen3")
        elif screen == "instances":
            await pilot.press("i")
            await until(pilot, lambda: isinstance(pilot.app.screen, InstancesScreen))
        offered = {command.title for command in app_of(pilot).get_system_commands(pilot.app.screen)}
        wanted = {command.label for command in commands_for(screen) if command.palette}
        assert wanted <= offered
        await pilot.press("ctrl+p")
        await until(pilot, lambda: isinstance(pilot.app.screen, CommandPalette))
        await until_shown(pilot, "Show the keys of this screen.")


async def test_a_command_chosen_in_the_palette_runs(session: Session) -> None:
    async with opened(session) as pilot:
        for words, wanted in (("instances", InstancesScreen), ("help", HelpScreen)):
            await pilot.press("ctrl+p")
            await until(pilot, lambda: isinstance(pilot.app.screen, CommandPalette))
            await type_text(pilot, words)
            await until(pilot, lambda: chosen_in_palette(pilot.app.screen))
            await pilot.press("enter")
            await until(pilot, lambda wanted=wanted: isinstance(pilot.app.screen, wanted))


def chosen_in_palette(screen: object) -> bool:
    """Whether the palette's search is over and has marked its best hit."""
    assert isinstance(screen, CommandPalette)
    from textual.command import CommandList

    hits = screen.query_one(CommandList)
    return not screen.query_one(Input).has_class("-loading") and hits.option_count > 0 and hits.visible


async def test_the_footer_of_every_screen_fits_and_names_its_commands(session: Session) -> None:
    cpu_slug("cpu/footed")
    async with opened(session, (80, 24)) as pilot:
        visited = {"catalog": shown(pilot)}
        await open_card(pilot, "cpu/tiny-qwen3")
        visited["card"] = shown(pilot)
        await pilot.press("escape")
        await serve(pilot, "cpu/footed")
        await until_shown(pilot, *footer_labels("instance"))
        visited["instance"] = shown(pilot)
        await pilot.press("i")
        await until_shown(pilot, "cpu-footed", *footer_labels("instances"))
        visited["instances"] = shown(pilot)
    for screen, text in visited.items():
        footer = text.splitlines()[-1]
        for label in footer_labels(screen):
            assert label in footer, (screen, footer)


def footer_labels(screen: str) -> list[str]:
    """What the footer of a server that serves must name; starting again and fixing are for dead ones."""
    shown_here = [command for command in commands_for(screen) if command.footer]
    return [command.label for command in shown_here if command.action not in ("restart", "fix")]


def test_without_an_editor_of_ones_own_it_is_nano_or_else_vi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CockpitError, match="nano"):
        editor_words()
    for name in ("vi", "nano"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
        assert editor_words() == [name]
