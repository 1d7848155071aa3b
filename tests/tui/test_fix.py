"""A dead server says why, and f starts it again with what helps, once its changed command was seen."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from typing import Any

import msgspec
import pytest
from textual.widgets import Button

from cockpit import paths
from cockpit.cli.main import main
from cockpit.session import Session
from cockpit.supervisor import store
from cockpit.tui.content import row_text
from cockpit.tui.present_boot import Death, by_hand, death_rows
from cockpit.tui.screens.instance import InstanceScreen
from cockpit.watch import InstanceWatch, Observation

from .helpers import Cockpit, lives, open_card, opened, shown, until, until_shown, until_told
from .world import cpu_slug

FITS = 1024
WHY = "To serve at least one request"


def too_long(name: str) -> None:
    """A slug of 2,048 tokens for a server that boots with 1,024."""
    file = cpu_slug(name)
    file.write_text(file.read_text().replace("env: {", f"env: {{FAKE_FITS: '{FITS}', "))


async def until_dead(pilot: Cockpit, name: str) -> None:
    await open_card(pilot, name)
    await pilot.press("S")
    await until_shown(pilot, "✕ dead", WHY)


async def test_f_shows_the_change_and_enter_starts_it(session: Session) -> None:
    too_long("cpu/long")
    async with opened(session) as pilot:
        await until_dead(pilot, "cpu/long")
        await until_shown(pilot, f"[f] start again with --max-model-len {FITS}", "f fix")
        dead = store.find("cpu/long")
        await pilot.press("f")
        await until_shown(pilot, "Start cpu-long again?", "- --max-model-len 2048", f"+ --max-model-len {FITS}")
        assert isinstance(pilot.app.focused, Button)
        assert store.find("cpu/long") == dead, "nothing starts before it was seen"
        await pilot.press("enter")
        await until_shown(pilot, "● ready", "2,097,152")
        assert isinstance(pilot.app.screen, InstanceScreen)
        again = store.find("cpu/long")
        assert lives(again) and again.values["max_model_len"] == FITS
        assert again.port == dead.port and len(store.load_all()[0]) == 1


async def test_escape_and_no_leave_it_dead(session: Session) -> None:
    too_long("cpu/long")
    async with opened(session) as pilot:
        await until_dead(pilot, "cpu/long")
        dead = store.find("cpu/long")
        for key in ("escape", "n"):
            await until_shown(pilot, "f fix")  # the reason may come a look after the death
            await pilot.press("f")
            await until_shown(pilot, "Start cpu-long again?")
            await pilot.press(key)
            await until(pilot, lambda: isinstance(pilot.app.screen, InstanceScreen))
        assert store.find("cpu/long") == dead


async def test_f_is_offered_when_the_reason_is_seen_a_look_after_the_death(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    too_long("cpu/long")
    look, late = InstanceWatch.tick, []

    def tick(watch: InstanceWatch) -> Observation:
        seen = look(watch)
        if seen.state == "dead" and not late:
            late.append(seen)
            return msgspec.structs.replace(seen, diagnosis=None)
        return seen

    monkeypatch.setattr(InstanceWatch, "tick", tick)
    async with opened(session) as pilot:
        await until_dead(pilot, "cpu/long")
        await until_shown(pilot, "f fix")
    assert late


async def test_there_are_threads_for_all_that_goes_on_at_once(session: Session) -> None:
    async with opened(session):
        together = threading.Barrier(40)
        assert len(await asyncio.gather(*(asyncio.to_thread(together.wait, 60) for _ in range(40)))) == 40


async def test_f_says_what_to_do_by_hand_where_no_new_start_helps(session: Session) -> None:
    cpu_slug("cpu/dies", options="--boot-seconds 3600 --die-at 0.3 --exit-code 3")
    async with opened(session) as pilot:
        await open_card(pilot, "cpu/dies")
        await pilot.press("S")
        await until_shown(pilot, "✕ dead", "exit code 3")
        assert "[f] start again" not in shown(pilot) and "f fix" not in shown(pilot)
        await pilot.press("f")
        await until_told(pilot, "There is no value to set", "By hand: ", "S opens its card to start it again.")
        assert isinstance(pilot.app.screen, InstanceScreen)


DEATHS = [
    (Death(exit_code=-9, was_ready=True, first_exception=None), "the host probably ran out of memory"),
    (Death(exit_code=1, was_ready=False, first_exception="ValueError: x"), "Why it died is not known"),
    (Death(exit_code=-9, was_ready=False, first_exception="ValueError: x"), "Why it died is not known"),
    (
        Death(exit_code=1, was_ready=False, first_exception="OSError: x", advice=("Free the disk.",)),
        "By hand: Free the disk; then X opens its card",
    ),
]


def test_a_cause_that_the_diagnosis_explains_is_not_said_twice() -> None:
    bare = Death(exit_code=-9, was_ready=True, first_exception=None)
    assert sum("ran out of memory" in row_text(row) for row in death_rows(bare, 120)) == 1
    small = [row_text(row) for row in death_rows(bare, 80)]
    assert all(len(row) <= 80 for row in small) and "(SIGKILL)" in " ".join(small)
    explained = msgspec.structs.replace(bare, explanation="The host ran out of RAM.")
    assert not any("ran out of memory" in row_text(row) for row in death_rows(explained, 120))


@pytest.mark.parametrize(("death", "says"), DEATHS)
def test_why_there_is_nothing_to_set_and_what_else(death: Death, says: str) -> None:
    text = by_hand(death, "X", "Y")
    assert says in text and "X opens its card to start it again." in text


async def test_a_death_is_on_the_screen_by_itself(session: Session) -> None:
    cpu_slug("cpu/dies", options="--boot-seconds 3600 --die-at 1.0")
    async with opened(session) as pilot:
        await open_card(pilot, "cpu/dies")
        await pilot.press("S")
        await until_shown(pilot, "✕ dead")
        seen = time.time()
        record = store.find("cpu/dies")
        assert record.ended_at is not None
        found, drawn = record.ended_at - record.created_at, seen - record.ended_at
        print(f"found dead {found:.2f} s after its start, on the screen {drawn:.2f} s later")
        assert found < 600 and drawn < 600, "by itself, long before its boot would have ended"


def test_the_shell_does_the_same(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    too_long("cpu/long")
    paths.config_home().mkdir(parents=True, exist_ok=True)
    engines = "\n".join(f"  - {engine}" for engine in session.config.engines)
    (paths.config_home() / "config.yaml").write_text(f"engines:\n{engines}\n")

    def cockpit(*words: str) -> tuple[int, dict[str, Any], str]:
        code = main(list(words))
        out, err = capsys.readouterr()
        return code, json.loads(out) if out else {}, err

    code, said, err = cockpit("serve", "cpu/long", "--wait", "--json")
    assert (code, said["state"], said["diagnosis"]["symptom"]) == (1, "dead", "kv-max-len")
    assert "`cockpit serve cpu-long --fix` does that" in err
    code, said, err = cockpit("serve", "cpu-long", "--fix", "--wait", "--json")
    assert (code, said["state"]) == (0, "ready")
    assert "- --max-model-len 2048" in err and f"+ --max-model-len {FITS}" in err
    assert store.find("cpu/long").values["max_model_len"] == FITS
    code, _, err = cockpit("serve", "cpu/long", "--fix")
    assert code == 2 and "is not dead" in err
    code, _, err = cockpit("serve", "cpu/long", "--fix", "--set", "port=9")
    assert code == 2 and "keeps the values" in err
