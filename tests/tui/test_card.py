"""The serve card: every toggle, the command it makes, what is refused, and the one start."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import psutil
import pytest
from textual import events
from textual.screen import Screen
from textual.widgets import Input

from cockpit.launch.plan import context_for, toggle_states
from cockpit.launch.render import shell_command
from cockpit.launch.toggles import TOGGLES, Toggle
from cockpit.launch.values import Choice, Indices, Share, Text, Whole
from cockpit.session import Session
from cockpit.supervisor import store
from cockpit.tui.screens.card import CardScreen
from cockpit.tui.screens.catalog import CatalogScreen
from cockpit.tui.screens.instance import InstanceScreen

from .conftest import MakeSession
from .helpers import (
    SIZES,
    SMALLEST,
    Cockpit,
    command_shown,
    open_card,
    opened,
    settled,
    shown,
    type_text,
    until,
    until_shown,
    until_told,
    words_of,
)
from .still_life import StillSession
from .world import cpu_slug, rig_of

DENSE_W4 = "vllm/dual"
INT8 = "VLLM_MARLIN_INPUT_DTYPE=int8"


def another_value(toggle: Toggle) -> str:
    """What to type for a toggle so that its value changes."""
    match toggle.kind:
        case Whole():
            texts = {"max_model_len": "131072", "port": "18999", "tensor_parallel": "1"}
            return texts.get(toggle.id, "5")
        case Share():
            return "0.8"
        case Indices():
            return "1"
        case Text():
            return "0.0.0.0"
        case Choice():
            raise AssertionError("a choice is not typed")


def editor(pilot: Cockpit) -> Input:
    return pilot.app.screen.query_one("#editor", Input)


async def set_by_key(pilot: Cockpit, toggle: Toggle, text: str | None = None) -> None:
    """Press the toggle's key; a number is typed."""
    await pilot.press(toggle.key)
    if not isinstance(toggle.kind, Choice):
        await until(pilot, lambda: editor(pilot).display and editor(pilot).has_focus)
        await pilot.press("ctrl+u")
        await type_text(pilot, another_value(toggle) if text is None else text)
        await pilot.press("enter")
    await pilot.pause()


async def test_every_toggle_key_changes_the_command_that_is_shown(make_session: MakeSession) -> None:
    async with opened(make_session(rig_of(2))) as pilot:
        card = await open_card(pilot, DENSE_W4)
        before = command_shown(pilot)
        for toggle in TOGGLES:
            await set_by_key(pilot, toggle)
            await until(pilot, lambda: command_shown(pilot) != before)
            assert set(card.chosen) == {toggle.id}
            assert card.plan is not None
            assert command_shown(pilot) == words_of(shell_command(card.plan))
            await until_shown(pilot, "was ")
            await pilot.press("r")
            await until(pilot, lambda: command_shown(pilot) == before)
            assert card.chosen == {}


async def test_every_toggle_key_on_the_cpu_changes_the_command_or_says_why_not(session: Session) -> None:
    entry = session.catalog.get("cpu/tiny-qwen3")
    states = toggle_states(context_for(entry.slug, {}, session.facts(entry)))
    blocked = {name: state.reason or "" for name, state in states.items() if state.state == "blocked"}
    assert {"int8", "gpus", "tensor_parallel"} <= blocked.keys() and all(blocked.values())
    async with opened(session, SMALLEST) as pilot:
        card = await open_card(pilot, "cpu/tiny-qwen3")
        before = command_shown(pilot)
        for toggle in TOGGLES:
            if toggle.id in blocked:
                await pilot.press(toggle.key)
                await until(pilot, lambda reason=blocked[toggle.id]: reason in words_of(shown(pilot)))
                assert command_shown(pilot) == before and card.chosen == {}
            else:
                await set_by_key(pilot, toggle)
                await until(pilot, lambda: command_shown(pilot) != before)
            await pilot.press("r")
            await until(pilot, lambda: command_shown(pilot) == before)


async def test_a_on_other_weights_says_why_int8_is_blocked(make_session: MakeSession) -> None:
    reasons = {
        "vllm/qwen-27b-dual-max": "FP8 weights are 8-bit already",
        "vllm/qwen-27b-dual-nvfp4": "NVFP4 is a 4-bit float format: it cannot widen to int8 without loss",
        "vllm/qwen-35b-a3b-dual": "mixture of experts",
        "cpu/tiny-qwen3": "nothing is quantized, so there is no Marlin layer to switch",
    }
    async with opened(make_session(rig_of(2)), SMALLEST) as pilot:
        for slug, reason in reasons.items():
            await open_card(pilot, slug)
            await pilot.press("a")
            await until(pilot, lambda reason=reason: reason in words_of(shown(pilot)))
            assert INT8 not in command_shown(pilot)
            await pilot.press("escape")
            await until(pilot, lambda: isinstance(pilot.app.screen, CatalogScreen))


async def test_a_turns_int8_on_in_the_command_and_off_again(make_session: MakeSession) -> None:
    async with opened(make_session(rig_of(2)), SMALLEST) as pilot:
        await open_card(pilot, DENSE_W4)
        await until_shown(pilot, "[a] int8 acts", "OFF")
        assert INT8 not in command_shown(pilot)
        await pilot.press("a")
        await until(pilot, lambda: INT8 in command_shown(pilot))
        await until_shown(pilot, "ON", "was OFF")
        await pilot.press("a")
        await until(pilot, lambda: INT8 not in command_shown(pilot))


async def test_off_takes_the_switch_out_of_the_callers_environment(
    make_session: MakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_MARLIN_INPUT_DTYPE", "int8")
    async with opened(make_session(rig_of(2))) as pilot:
        await open_card(pilot, DENSE_W4)
        assert "-u VLLM_MARLIN_INPUT_DTYPE" in command_shown(pilot)
        await pilot.press("a")
        await until(pilot, lambda: "VLLM_MARLIN_INPUT_DTYPE" not in command_shown(pilot))


@pytest.mark.parametrize("presses", [1, 2])
async def test_what_the_server_gets_is_what_was_shown(
    make_session: MakeSession, presses: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_MARLIN_INPUT_DTYPE", "fp8")
    async with opened(make_session(rig_of(2))) as pilot:
        card = await open_card(pilot, DENSE_W4)
        await pilot.press(*["a"] * presses)
        await until(pilot, lambda: card.chosen.get("int8") == ("on" if presses == 1 else "off"))
        assert card.plan is not None
        argv = card.plan.argv
        await pilot.press("S")
        await until(pilot, lambda: isinstance(pilot.app.screen, InstanceScreen))
        record = store.find(DENSE_W4)
        assert record.process is not None and record.argv == argv
        environ = await environ_of_fake(pilot, record.process.pid)
        assert environ.get("VLLM_MARLIN_INPUT_DTYPE") == ("int8" if presses == 1 else None)
        assert environ["CUDA_VISIBLE_DEVICES"] == "0,1"


async def environ_of_fake(pilot: Cockpit, pid: int) -> dict[str, str]:
    """The environment of the server, once it is past its exec."""
    process = psutil.Process(pid)
    await until(pilot, lambda: "serve" in process.cmdline())
    return process.environ()


async def test_a_bad_value_keeps_the_editor_open_with_a_sentence(make_session: MakeSession) -> None:
    cases = (
        ("l", "many", "Use a whole number, 16 to 16,777,216."),
        ("l", "5", "Use a whole number, 16 to 16,777,216."),
        ("l", "", "Use a whole number, 16 to 16,777,216."),
        ("u", "1.5", "Use a number above 0 and up to 1"),
        ("s", "-1", "Use a whole number, 1 to 4,096, or default."),
        ("m", "99", "Use a whole number, 0 to 16."),
        ("g", "0,0", "Name each GPU once."),
        ("g", "a", "Use GPU indices separated by commas"),
        ("h", "[bold]", "Use a host name or address"),
        ("o", "70000", "Use a whole number, 1 to 65535."),
    )
    async with opened(make_session(rig_of(2)), SMALLEST) as pilot:
        card = await open_card(pilot, DENSE_W4)
        before = command_shown(pilot)
        for key, text, sentence in cases:
            await pilot.press(key)
            await until(pilot, lambda: editor(pilot).has_focus)
            editor(pilot).value = text
            await pilot.press("enter")
            await until(pilot, lambda sentence=sentence: sentence in words_of(shown(pilot)))
            assert editor(pilot).display and editor(pilot).has_focus and editor(pilot).value == text
            assert card.chosen == {} and command_shown(pilot) == before
            await pilot.press("escape")
            await until(pilot, lambda: not editor(pilot).display)
            assert pilot.app.screen is card and card.chosen == {}


async def test_letters_typed_into_the_editor_are_not_commands(make_session: MakeSession) -> None:
    async with opened(make_session(rig_of(2))) as pilot:
        card = await open_card(pilot, DENSE_W4)
        await pilot.press("l")
        await until(pilot, lambda: editor(pilot).has_focus)
        await type_text(pilot, "aSKqrci")
        await pilot.pause()
        assert pilot.app.screen is card and card.chosen == {}
        assert editor(pilot).value.endswith("aSKqrci")
        assert store.load_all()[0] == []


@pytest.mark.parametrize(
    ("keys", "chosen"),
    [
        (("l", "ctrl+u", "5", "1", "2", "enter"), {"max_model_len": 512}),
        (("l", "ctrl+u", "4", "0", "9", "6", "enter", "s", "ctrl+u", "3", "enter"), {"max_model_len": 4096}),
        (("l", "ctrl+u", "7", "escape", "e"), {"enforce_eager": "on"}),
        (("e", "r", "l", "right", "backspace", "backspace", "7", "enter"), {"max_model_len": 26_217}),
    ],
)
async def test_keys_that_come_all_at_once_keep_their_order(
    make_session: MakeSession, keys: tuple[str, ...], chosen: dict[str, object]
) -> None:
    async with opened(make_session(rig_of(2))) as pilot:
        card = await open_card(pilot, DENSE_W4)
        for key in keys:
            pilot.app.post_message(events.Key(key, key if len(key) == 1 else None))
        await until(pilot, lambda: card.chosen.items() >= chosen.items())
        await pilot.pause(0.2)
        assert card.chosen.items() >= chosen.items()
        assert isinstance(pilot.app.screen, CardScreen)


async def test_numbers_may_have_separators_and_suffixes(make_session: MakeSession) -> None:
    async with opened(make_session(rig_of(2))) as pilot:
        card = await open_card(pilot, DENSE_W4)
        for text, value in (("65,536", 65_536), ("32K", 32_768), ("100k", 100_000)):
            await set_by_key(pilot, next(one for one in TOGGLES if one.id == "max_model_len"), text)
            await until(pilot, lambda value=value: f"--max-model-len {value}" in command_shown(pilot))
        assert card.chosen == {"max_model_len": 100_000}


async def test_arrows_move_the_mark_and_step_the_value(make_session: MakeSession) -> None:
    async with opened(make_session(rig_of(2))) as pilot:
        card = await open_card(pilot, DENSE_W4)
        await pilot.press("right")
        await until(pilot, lambda: card.chosen.get("int8") == "on")
        await pilot.press("left")
        await until(pilot, lambda: card.chosen.get("int8") == "off")
        await pilot.press("up", "up", "down", "down", "down", "right")
        await until(pilot, lambda: "kv_cache_dtype" in card.chosen)


async def test_a_click_on_a_toggle_presses_its_key(make_session: MakeSession) -> None:
    async with opened(make_session(rig_of(2))) as pilot:
        card = await open_card(pilot, DENSE_W4)
        await pilot.click("#toggles", offset=(10, 0))
        await until(pilot, lambda: card.chosen.get("int8") == "on")


async def test_s_on_a_refused_plan_shows_the_reason_and_starts_nothing(session: Session) -> None:
    async with opened(session, SMALLEST) as pilot:
        card = await open_card(pilot, DENSE_W4)
        for key in ("S", "enter"):
            await pilot.press(key)
            await until_shown(pilot, "not started:", "no NVIDIA driver")
        assert pilot.app.screen is card
        assert store.load_all()[0] == []


@pytest.mark.parametrize("size", SIZES)
async def test_no_toggle_lays_the_screen_out_anew(size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """A layout is what makes a key slow."""
    layouts: list[str] = []
    laid_out, key = Screen._refresh_layout, ""

    def counted(screen: Screen[None], *args: Any, **named: Any) -> None:
        layouts.append(key)
        laid_out(screen, *args, **named)

    async with opened(StillSession(rig_of(2)), size) as pilot:
        for slug in ("vllm/qwen38-27b-int6-mixed", "vllm/minimal", "cpu/tiny-qwen3"):
            await open_card(pilot, slug)
            await until(pilot, lambda: all(one.is_finished for one in pilot.app.workers if one.group == "facts"))
            await settled(pilot)
            monkeypatch.setattr(Screen, "_refresh_layout", counted)
            for key in ("e", "v", "k", "p", "a", "r", "down", "right", "left"):
                await pilot.press(key)
                await pilot.pause(0.1)
            assert layouts == []
            monkeypatch.undo()
            await pilot.press("escape")
            await until(pilot, lambda: isinstance(pilot.app.screen, CatalogScreen))


async def test_no_engine_is_said_with_the_command_that_makes_one(make_session: MakeSession) -> None:
    session = make_session()
    session.__dict__["_found_engines"] = ([], [])
    async with opened(session) as pilot:
        await open_card(pilot, "cpu/tiny-qwen3")
        await pilot.press("S")
        await until_shown(pilot, "cockpit engines install cpu")
        assert store.load_all()[0] == []


@pytest.mark.parametrize("keys", [("S", "S"), ("S", "enter"), ("enter", "enter"), ("S",) * 6])
async def test_a_double_press_starts_one_server_only(session: Session, keys: tuple[str, ...]) -> None:
    cpu_slug("cpu/once")
    async with opened(session) as pilot:
        await open_card(pilot, "cpu/once")
        await pilot.press(*keys)
        await until_shown(pilot, "● ready")
        assert len(store.load_all()[0]) == 1


async def test_a_port_that_is_taken_is_refused_by_name(session: Session) -> None:
    cpu_slug("cpu/blocked")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        async with opened(session) as pilot:
            await open_card(pilot, "cpu/blocked")
            await set_by_key(pilot, next(one for one in TOGGLES if one.id == "port"), str(port))
            await pilot.press("S")
            await until_shown(pilot, "not started: what is marked ✕", f"✕ port {port} is taken")
            assert store.load_all()[0] == []


async def test_an_engine_that_vanished_is_one_sentence_on_the_card(make_session: MakeSession, tmp_path: Path) -> None:
    cpu_slug("cpu/rug")
    async with opened(make_session()) as pilot:
        card = await open_card(pilot, "cpu/rug")
        (tmp_path / "engines" / "cpu" / "bin" / "vllm").unlink()
        await pilot.press("S")
        await until_shown(pilot, "cannot execute")
        assert pilot.app.screen is card and store.load_all()[0] == []


async def test_c_copies_the_whole_command(make_session: MakeSession) -> None:
    async with opened(make_session(rig_of(2))) as pilot:
        card = await open_card(pilot, DENSE_W4)
        await pilot.press("c")
        await until_told(pilot, "clipboard")
        assert card.plan is not None
        assert pilot.app.clipboard == shell_command(card.plan)


async def test_a_server_that_runs_is_opened_instead_of_a_second_card(session: Session) -> None:
    cpu_slug("cpu/twice")
    async with opened(session) as pilot:
        await open_card(pilot, "cpu/twice")
        await pilot.press("S")
        await until_shown(pilot, "● ready")
        await pilot.press("escape")
        await until_shown(pilot, "1 serving")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, InstanceScreen))
