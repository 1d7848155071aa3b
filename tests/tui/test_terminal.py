"""What terminals and strangers do to a screen: small windows, no colours, hostile text."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from cockpit import paths
from cockpit.session import Session
from cockpit.supervisor import store
from cockpit.tui.screens.instance import InstanceScreen
from cockpit.tui.widgets.menu_table import MenuTable
from cockpit.tui.widgets.rows_view import RowsView

from .conftest import MakeSession
from .helpers import (
    SIZES,
    SMALLEST,
    Cockpit,
    app_of,
    command_shown,
    content_of,
    mark,
    open_card,
    opened,
    serve,
    settled,
    shown,
    until,
    until_shown,
    until_told,
    words_of,
)
from .world import cpu_slug, rig_of, tiny_model, write_slug

MARKUP = "[/home/u] [bold]loud[/bold] [red on blue] [@click=app.quit]x[/] [[[ ]]] \\[b]"
INVISIBLE = "\u202edesrever\u202c \u200bzero \ufeffmark"
"""What YAML lets through: overrides that turn text round, and characters without a width."""


def spans(pilot: Cockpit) -> str:
    """Every character that is on the screen, unstripped."""
    return "".join(strip.text for strip in pilot.app.screen._compositor.render_strips())


def assert_clean(pilot: Cockpit) -> None:
    """Nothing that a terminal would obey is on the screen."""
    bad = {character for character in spans(pilot) if not character.isprintable()}
    assert not bad, bad


async def test_a_window_smaller_than_80x24_says_so_and_comes_back(session: Session) -> None:
    async with opened(session) as pilot:
        await until(pilot, lambda: app_of(pilot).judged)
        before = await settled(pilot)
        for width, height in ((79, 24), (80, 23), (20, 5), (1, 1)):
            await pilot.resize_terminal(width, height)
            if width > 20:
                await until_shown(pilot, f"{width}x{height} is too small.", "Enlarge the window to 80x24.")
                assert "slug" not in shown(pilot)
        await pilot.resize_terminal(120, 35)
        await until(pilot, lambda: shown(pilot) == before)


async def test_every_screen_lives_through_resizes(session: Session) -> None:
    cpu_slug("cpu/elastic")
    async with opened(session) as pilot:

        async def shake() -> None:
            for size in ((80, 24), (40, 10), (200, 60), (120, 35)):
                await pilot.resize_terminal(*size)
            await until(pilot, lambda: "too small" not in shown(pilot) and "cockpit" in shown(pilot))

        await open_card(pilot, "cpu/elastic")
        await shake()
        await pilot.press("S")
        await until(pilot, lambda: isinstance(pilot.app.screen, InstanceScreen))
        await shake()
        await until_shown(pilot, "● ready", "Application startup complete")
        await shake()
        await until_shown(pilot, "Application startup complete", "decode")
        await pilot.press("i")
        await until_shown(pilot, "cpu-elastic")
        await shake()
        await until_shown(pilot, "cpu-elastic")


@pytest.mark.parametrize("size", SIZES)
async def test_a_dialog_over_a_window_that_shrinks_still_works(session: Session, size: tuple[int, int]) -> None:
    cpu_slug("cpu/dialog")
    async with opened(session, size) as pilot:
        await serve(pilot, "cpu/dialog")
        await pilot.press("q")
        await until_shown(pilot, "leave running")
        await pilot.resize_terminal(50, 15)
        await pilot.press("escape")
        await pilot.resize_terminal(*size)
        await until_shown(pilot, "● ready")


def svg_colours(app_svg: str) -> set[str]:
    return {colour.lower() for colour in re.findall(r"#[0-9a-fA-F]{6}\b", app_svg)}


def is_grey(colour: str) -> bool:
    return colour[1:3] == colour[3:5] == colour[5:7]


async def test_no_color_leaves_greys_glyphs_and_words(
    make_session: MakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_slug("bad", "name: mine/bad\n")
    async with opened(make_session()) as pilot:
        coloured = {colour for colour in svg_colours(pilot.app.export_screenshot()) if not is_grey(colour)}
        assert len(coloured) > 3
    monkeypatch.setenv("NO_COLOR", "1")
    async with opened(make_session()) as pilot:
        # The window that the exported picture is put in, and the colour of text that has none.
        frame = {"#ff5f57", "#febc2e", "#28c840", "#c5c8c6"}
        left = {colour for colour in svg_colours(pilot.app.export_screenshot()) if not is_grey(colour)} - frame
        assert left == set()
        assert "✕ broken" in shown(pilot)
        card = await open_card(pilot, "cpu/tiny-qwen3")
        await pilot.press("e")
        await until(pilot, lambda: card.chosen == {"enforce_eager": "off"})
        await until_shown(pilot, "OFF", "was ON")


@pytest.mark.parametrize("size", SIZES)
async def test_hostile_text_in_a_slug_is_text(session: Session, size: tuple[int, int]) -> None:
    shutil.copytree(tiny_model(), paths.user_slugs() / "[bold] [" / "x]")
    text = MARKUP.replace("\\", "\\\\") + " " + INVISIBLE
    write_slug(
        "hostile",
        f"""
        name: cpu/hostile
        model: "{text}"
        description: "{text} {"x" * 5000}"
        platform: cpu
        max_model_len: 2048
        served_model_name: "[/red] {INVISIBLE}"
        weights: {{format: bf16, path: "./[bold] [/x]"}}
        flags: {{load-format: dummy, chat-template: "{text}"}}
        env: {{SOME_TEXT: "[/dim] {INVISIBLE}"}}
        quality: {{kld: 0.1, source: "[/b] {INVISIBLE}"}}
        """,
    )
    async with opened(session, size) as pilot:
        await mark(pilot, "cpu/hostile")
        await until_shown(pilot, "[/home/u] [bold]loud[/bold]")
        assert_clean(pilot)
        pilot.app.screen.query_one("#detail", RowsView).scroll_end(animate=False)
        await pilot.pause()
        assert_clean(pilot)
        await open_card(pilot, "cpu/hostile")
        assert "[/home/u] [bold]loud[/bold]" in shown(pilot)
        assert "[/dim]" in command_shown(pilot) and "[bold] [/x]" in command_shown(pilot)
        assert_clean(pilot)
        await pilot.press("S")
        await until(pilot, lambda: isinstance(pilot.app.screen, InstanceScreen))
        await until_shown(pilot, "● ready", "[/red]")
        assert_clean(pilot)


async def test_a_slug_with_escape_sequences_is_a_broken_row(session: Session) -> None:
    write_slug("escapes", 'name: cpu/escapes\nmodel: "\\e[31mred\\e]0;title\\a"\n')
    write_slug("raw", "name: cpu/raw\nmodel: '\x1b[31mred'\n")
    async with opened(session) as pilot:
        assert shown(pilot).count("✕ broken") == 2
        await pilot.press("end")
        for _ in range(2):
            await until(pilot, lambda: "character" in words_of(content_of(pilot, "#detail")))
            assert_clean(pilot)
            await pilot.press("up")


HOSTILE_LINES = (
    b"[/home/u] [bold]loud[/bold] [@click=app.quit]x[/]",
    b"\x1b[31mred\x1b[0m \x1b]0;owned\x07 \x1b]52;c;aGk=\x07 \x1b[2J\x1b[H cleared",
    b"(EngineCore pid=1) [/red] INFO 11-29 20:00:00 [x.py:1] [bold]",
    b"\xff\xfe\x80 not UTF-8 \x00\x01\x02",
    b"\xe2\x80\xaeright to left\xe2\x80\xac \xef\xbb\xbf",
    b"progress 1%\rprogress 99%",
    b"y" * 100_000,
    "漢字 🙂 e\u0301 \u200b wide".encode(),
    b"",
)


@pytest.mark.parametrize("size", SIZES)
async def test_hostile_log_lines_are_text(session: Session, size: tuple[int, int], tmp_path: Path) -> None:
    log = tmp_path / "hostile.bin"
    log.write_bytes(b"\n".join(HOSTILE_LINES) + b"\n")
    write_slug(
        "noisy",
        f"""
        name: cpu/noisy
        model: noisy
        platform: cpu
        max_model_len: 2048
        weights: {{format: bf16, path: {tiny_model()}}}
        flags: {{load-format: dummy}}
        env: {{FAKE_LOG: "{log}", FAKE_VLLM: "--boot-seconds 1"}}
        """,
    )
    async with opened(session, size) as pilot:
        await open_card(pilot, "cpu/noisy")
        await pilot.press("S")
        await until_shown(pilot, "● ready")
        await pilot.press("L")
        await until_shown(
            pilot,
            "[/home/u] [bold]loud[/bold] [@click=app.quit]x[/]",
            "cleared",
            "progress 99%",
            "right to left",
            "漢字 🙂",
        )
        assert_clean(pilot)
        assert pilot.app.is_running
        await pilot.press("L")
        await until_shown(pilot, "decode")


async def test_a_hostile_exception_of_a_dead_server_is_text(session: Session, tmp_path: Path) -> None:
    log = tmp_path / "hostile.bin"
    log.write_bytes(b"(Worker pid=7) ValueError: [/home/u] \x1b[31m[bold]x[/bold] " + b"z" * 3000 + b"\n")
    write_slug(
        "dies",
        f"""
        name: cpu/dies
        model: dies
        platform: cpu
        max_model_len: 2048
        weights: {{format: bf16, path: {tiny_model()}}}
        flags: {{load-format: dummy}}
        env: {{FAKE_LOG: "{log}", FAKE_VLLM: "--boot-seconds 3600 --die-at 0.1 --die-quietly"}}
        """,
    )
    async with opened(session, SMALLEST) as pilot:
        await open_card(pilot, "cpu/dies")
        await pilot.press("S")
        await until_shown(pilot, "✕ dead", "ValueError: [/home/u] [bold]x[/bold] zzz")
        assert_clean(pilot)
        await pilot.press("y")
        await until_told(pilot, "clipboard")
        assert "[/home/u] [bold]x[/bold]" in pilot.app.clipboard


@pytest.mark.parametrize("size", SIZES)
async def test_hostile_file_names_are_text(session: Session, size: tuple[int, int]) -> None:
    folder = paths.user_slugs()
    (folder / "[").mkdir(parents=True)
    names = ["[/home].yaml", "\x1b[31m evil.yaml", "a\nb.yaml", "w" * 200 + ".yaml", "漢字 🙂.yaml"]
    for name in names:
        (folder / name).write_text("nonsense: true\n")
    (folder / os.fsdecode(b"bytes\xff.yaml")).write_text("nonsense: true\n")
    async with opened(session, size) as pilot:
        table = pilot.app.screen.query_one("#slugs", MenuTable)
        await until(pilot, lambda: len(table.keys) == len(session.catalog.entries) + 6)
        await pilot.press("end")
        for _ in range(6):
            await until(pilot, lambda: "nonsense" in words_of(content_of(pilot, "#detail")))
            assert_clean(pilot)
            await pilot.press("enter")
            await until_told(pilot, "nonsense")
            assert_clean(pilot)
            await pilot.press("up")
        await until_shown(pilot, "[/home]")


async def test_a_hostile_record_is_a_sentence_and_the_others_are_listed(session: Session) -> None:
    cpu_slug("cpu/honest")
    async with opened(session) as pilot:
        await serve(pilot, "cpu/honest")
        (paths.instances_home() / "[red]evil.json").write_text("[/home]{{{")
        (paths.instances_home() / "old.json").write_text('{"format_version": 99}')
        await until_told(pilot, "[red]evil.json is not an instance record")
        await until_told(pilot, "old.json was written by another version")
        await pilot.press("i")
        await until_shown(pilot, "cpu-honest", "● ready")
        assert_clean(pilot)
    assert len(store.load_all()[0]) == 1


async def test_a_theme_that_is_broken_or_unknown_is_told_and_the_default_used(make_session: MakeSession) -> None:
    paths.user_themes().mkdir(parents=True)
    (paths.user_themes() / "[b]ad.yaml").write_text("name: bad\ncolour: [/red]\n")
    async with opened(make_session(theme="[nope]")) as pilot:
        assert app_of(pilot).theme == "cockpit-dark"
        await until_told(pilot, "there is no theme named [nope]")
        await until_told(pilot, "[b]ad.yaml")


async def test_a_rig_of_many_cards_fits_the_smallest_screen(make_session: MakeSession) -> None:
    async with opened(make_session(rig_of(8, "NVIDIA [/x] A100-SXM4-80GB", (8, 0))), SMALLEST) as pilot:
        await open_card(pilot, "vllm/qwen38-27b-multi8-fast")
        await until_shown(pilot, "8x [/x] A100")
        assert_clean(pilot)
