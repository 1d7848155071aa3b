"""The home screen: filter, sort, states, broken files."""

from __future__ import annotations

import contextlib
import stat
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace
from textual import events
from textual.widgets import Input

from cockpit.catalog.load import Entry
from cockpit.catalog.slug import Slug, Speculative, Weights
from cockpit.session import Session
from cockpit.tui.app import CockpitApp
from cockpit.tui.catalog_rows import BY_FITS, COLUMNS, cells, sort_entries, visible_columns
from cockpit.tui.content import row_text
from cockpit.tui.screens.card import CardScreen
from cockpit.tui.screens.catalog import CatalogScreen
from cockpit.tui.widgets.menu_table import MenuTable
from cockpit.tui.widgets.rows_view import RowsView
from cockpit.units import GIB

from .conftest import MakeSession
from .helpers import (
    SIZES,
    SMALLEST,
    Cockpit,
    app_of,
    cell_of,
    content_of,
    mark,
    marked_title,
    opened,
    shown,
    type_text,
    until,
    until_shown,
    until_told,
    words_of,
)
from .world import cpu_slug, rig_of, write_slug


def slugs_shown(pilot: Cockpit) -> list[str]:
    """The slug column, in the order of the rows."""
    return [cell_of(pilot, name, "slug") for name in pilot.app.screen.query_one(MenuTable).keys]


async def test_the_filter_narrows_as_one_types_and_escape_restores(session: Session) -> None:
    async with opened(session) as pilot:
        everything = slugs_shown(pilot)
        assert len(everything) == len(session.catalog.entries) > 10
        await pilot.press("slash")
        await type_text(pilot, "qwen nvfp4")
        await until(pilot, lambda: 0 < len(slugs_shown(pilot)) < len(everything))
        assert all("nvfp4" in name for name in slugs_shown(pilot))
        await type_text(pilot, "zzz")
        await until_shown(pilot, "No slug matches")
        assert slugs_shown(pilot) == []
        await pilot.press("escape")
        await until(pilot, lambda: slugs_shown(pilot) == everything)
        await pilot.press("s")
        assert content_of_filter(pilot) == "", "after Escape keys are commands again"


async def test_a_filter_that_hides_the_marked_row_marks_the_first_match(session: Session) -> None:
    async with opened(session) as pilot:
        await mark(pilot, "vllm/thinkingcap-dual")
        await pilot.press("slash")
        await type_text(pilot, "nvfp4")
        await until(pilot, lambda: len(slugs_shown(pilot)) == 2 and slugs_shown(pilot)[0] in marked_title(pilot))
        await mark(pilot, slugs_shown(pilot)[1])
        marked = marked_title(pilot)
        await pilot.press("slash")
        await type_text(pilot, "27b")
        await until(pilot, lambda: len(slugs_shown(pilot)) > 2)
        assert marked_title(pilot) == marked, "a row that still matches stays marked"


async def test_a_filter_that_comes_all_at_once_is_typed_and_no_command(session: Session) -> None:
    async with opened(session) as pilot:
        for key, letter in (("slash", "/"), *((letter, letter) for letter in "qs/n"), ("backspace", None)):
            pilot.app.post_message(events.Key(key, letter))
        await until(pilot, lambda: content_of_filter(pilot) == "qs/")
        assert isinstance(pilot.app.screen, CatalogScreen)


def placeholder(pilot: Cockpit) -> str:
    return app_of(pilot).screen.query_one("#filter", Input).placeholder


async def test_fits_come_after_the_first_frame_and_sort_model_by_model(make_session: MakeSession) -> None:
    session = make_session(replace(rig_of(2), described="two cards"))
    session.__dict__["_found_engines"] = ([], [])
    async with opened(session) as pilot:
        await until(pilot, lambda: app_of(pilot).judged)
        await until_shown(pilot, "needs 4 GPUs", "needs 8 GPUs")
        cells = {name: fit_of(pilot, name) for name in slugs_shown(pilot)}
        assert cells["vllm/qwen38-27b-int6-mixed"].startswith(("tight +", "1.0"))
        assert "x +" in cells["vllm/dual"]
        await pilot.press("s")
        await until(pilot, lambda: slugs_shown(pilot) != sorted(slugs_shown(pilot)))
        order = [name for name in slugs_shown(pilot) if "qwen38-27b" in name]
        assert order[0] == "vllm/qwen38-27b-int6-mixed"
        assert order[-2:] == ["vllm/qwen38-27b-multi4-fast", "vllm/qwen38-27b-multi8-fast"]
        await mark(pilot, "vllm/qwen38-27b-dual-max")
        await until(pilot, lambda: "only with its fp8_e4m3 KV cache" in words_of(content_of(pilot, "#detail")))


async def test_what_the_installed_vllm_cannot_run_is_ranked_last_with_its_reason(make_session: MakeSession) -> None:
    async with opened(make_session(rig_of(2))) as pilot:
        await until(pilot, lambda: app_of(pilot).judged)
        judged = app_of(pilot).judged["vllm/qwen38-27b-int6-mixed"]
        assert judged.state == "out" and "Humming" in judged.why
        await mark(pilot, "vllm/qwen38-27b-int6-mixed")
        await until(pilot, lambda: words_of(judged.why) in words_of(content_of(pilot, "#detail")))


async def test_what_fits_is_computed_again_when_a_server_came_or_went(
    make_session: MakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpu_slug("cpu/other")
    session = make_session(rig_of(2))
    async with opened(session) as pilot:
        await until(pilot, lambda: app_of(pilot).judged)
        before = app_of(pilot).judged["vllm/dual"].declared
        assert before.fits != "no"
        full = [replace(gpu, used_bytes=20 * GIB) for gpu in session.rig.gpus]
        monkeypatch.setattr("cockpit.session.read_rig", lambda: replace(rig_of(2), gpus=tuple(full)))
        running = session.start(session.plan("cpu/other", {}))
        await until(pilot, lambda: app_of(pilot).judged["vllm/dual"].declared.fits == "no")
        monkeypatch.setattr("cockpit.session.read_rig", lambda: rig_of(2))
        session.stop(running.record.name)
        await until(pilot, lambda: app_of(pilot).judged["vllm/dual"].declared == before)


def fit_of(pilot: Cockpit, name: str) -> str:
    return cell_of(pilot, name, "fits")


async def test_the_first_frame_does_not_wait_for_forecasts(
    make_session: MakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = make_session(rig_of(2))
    go_on = threading.Event()
    real = session.judge
    monkeypatch.setattr(session, "judge", lambda entry, host: go_on.wait(60) and real(entry, host))
    async with opened(session) as pilot:
        await until_shown(pilot, "vllm/dual", "…")
        assert not app_of(pilot).judged
        go_on.set()
        await until_shown(pilot, "needs 4 GPUs")


def content_of_filter(pilot: Cockpit) -> str:
    return app_of(pilot).screen.query_one("#filter").value  # type: ignore[attr-defined, no-any-return]


async def test_every_word_of_the_filter_must_occur_somewhere(session: Session) -> None:
    async with opened(session) as pilot:
        await pilot.press("slash")
        await type_text(pilot, "AUTORound DUAL")
        wanted = [entry.slug.name for entry in session.catalog.matching("autoround dual")]
        assert wanted
        await until(pilot, lambda: slugs_shown(pilot) == wanted)


async def test_s_goes_round_the_orders_and_keeps_the_marked_row(session: Session) -> None:
    async with opened(session) as pilot:
        by_name = slugs_shown(pilot)
        assert by_name == sorted(by_name)
        await pilot.press("down", "down")
        await until(pilot, lambda: by_name[2] in marked_title(pilot))
        await pilot.press("s")
        await until(pilot, lambda: "by fits, quality" in placeholder(pilot))
        await pilot.press("s")
        sizes = {entry.slug.name: entry.slug.weights.size_gib or float("inf") for entry in session.catalog.entries}
        await until(pilot, lambda: slugs_shown(pilot) == sorted(by_name, key=lambda name: (sizes[name], name)))
        assert by_name[2] in marked_title(pilot)
        await pilot.press("s")
        lengths = {entry.slug.name: -entry.slug.max_model_len for entry in session.catalog.entries}
        await until(pilot, lambda: slugs_shown(pilot) == sorted(by_name, key=lambda name: (lengths[name], name)))
        await pilot.press("s")
        await until(pilot, lambda: slugs_shown(pilot) == by_name)


def test_models_of_which_something_fits_come_first(session: Session) -> None:
    entries = session.catalog.entries
    last = max(entry.slug.model for entry in entries)
    judged: Any = {
        entry.slug.name: SimpleNamespace(
            state="fits" if entry.slug.model == last else "out",
            slug=entry.slug,
            declared=SimpleNamespace(blocked=None),
        )
        for entry in entries
    }
    models = list(dict.fromkeys(entry.slug.model for entry in sort_entries(entries, BY_FITS, judged)))
    assert models == [last, *sorted({entry.slug.model for entry in entries} - {last})]


async def test_enter_opens_the_card_of_the_marked_slug_and_escape_returns_to_it(session: Session) -> None:
    async with opened(session) as pilot:
        await pilot.press("down", "down", "down", "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, CardScreen))
        assert isinstance(pilot.app.screen, CardScreen)
        name = pilot.app.screen.entry.slug.name
        assert name == session.catalog.entries[3].slug.name
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(pilot.app.screen, CardScreen))
        assert name in marked_title(pilot)


async def test_the_detail_says_why_a_toggle_is_blocked(make_session: MakeSession) -> None:
    async with opened(make_session(rig_of(2))) as pilot:
        for name, reason in (
            ("vllm/qwen-27b-dual-max", "FP8 weights are 8-bit already"),
            ("vllm/qwen-27b-dual-nvfp4", "is a 4-bit float format"),
            ("cpu/tiny-qwen3", "nothing is quantized"),
        ):
            await mark(pilot, name)
            await until(pilot, lambda reason=reason: reason in words_of(content_of(pilot, "#detail")))


@pytest.mark.parametrize("size", [SMALLEST, (120, 35)])
async def test_a_broken_file_is_a_row_with_its_error_and_hides_nothing(
    session: Session, size: tuple[int, int]
) -> None:
    file = write_slug("bad", "name: mine/bad\nmodel: x\ntemprature: 3\n")
    async with opened(session, size) as pilot:
        assert len(slugs_shown(pilot)) == len(session.catalog.entries) + 1
        await pilot.press("slash")
        await type_text(pilot, "mine/bad")
        await pilot.press("enter")
        await until_shown(pilot, "✕ broken", "mine/bad", "temprature")
        detail = words_of(content_of(pilot, "#detail"))
        assert f"{file}, line 3" in detail and "Traceback" not in shown(pilot)
        assert "e edits the file" in detail and "run the command" not in detail
        await pilot.press("enter")
        await until_told(pilot, "temprature", "line 3")
        assert not isinstance(pilot.app.screen, CardScreen)


@pytest.mark.parametrize("width", range(80, 160))
def test_every_width_has_room_for_its_columns_and_a_scrollbar(width: int) -> None:
    columns = visible_columns(width)
    assert sum(cells for _, _, cells in columns) + len(columns) - 1 < width
    assert all(len(title) <= cells for _, title, cells in columns)
    assert {"state", "slug", "weights", "fits"} <= {key for key, _, _ in columns}
    assert (len(columns) == len(COLUMNS)) == (width >= 120)


@pytest.mark.parametrize(
    ("method", "tokens", "shown_as"),
    [("mtp", 3, "mtp 3"), ("mtp", 16, "mtp 16"), ("eagle", 5, "eagle5"), ("eagle3", 5, "eagle3"), (None, 1, "–")],
)
def test_a_draft_is_shown_in_the_room_it_has(method: Any, tokens: int, shown_as: str) -> None:
    draft = None if method is None else Speculative(method=method, tokens=tokens)
    slug = Slug(
        name="a/b", model="A", weights=Weights(format="bf16", path="/m"), max_model_len=1_048_576, speculative=draft
    )
    of = cells(Entry(slug=slug, file=Path("/s"), shipped=False), None, None, None)
    assert of["draft"][0] == shown_as
    widths = {key: width for key, _, width, _ in COLUMNS}
    assert all(len(text) <= widths[key] for key, (text, _) in of.items())


async def test_a_file_of_no_slug_at_all_is_a_row_too(session: Session) -> None:
    write_slug("noise", "{{{: [\x00\n")
    (write_slug("bytes", "").parent / "latin.yaml").write_bytes(b"name: \xff\xfe\n")
    async with opened(session) as pilot:
        assert shown(pilot).count("✕ broken") == 3


async def test_r_reads_the_files_again(session: Session) -> None:
    async with opened(session) as pilot:
        before = len(slugs_shown(pilot))
        cpu_slug("cpu/new-one")
        await pilot.press("r")
        await until(pilot, lambda: len(slugs_shown(pilot)) == before + 1)
        assert "cpu/new-one" in slugs_shown(pilot)


async def test_e_without_an_editor_says_so(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITOR", "no-such-editor")
    async with opened(session) as pilot:
        await pilot.press("e")
        await until_told(pilot, "no-such-editor", "$EDITOR")


async def test_e_where_the_screen_cannot_be_set_aside_names_the_file(
    session: Session, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\n")
    editor.chmod(editor.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("EDITOR", str(editor))
    async with opened(session) as pilot:
        await mark(pilot, "cpu/tiny-qwen3")
        await pilot.press("e")
        await until_told(pilot, "tiny-qwen3.yaml")


async def test_a_card_opened_right_after_an_edit_shows_the_edit(
    session: Session, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cpu_slug("cpu/mine", model="before the edit")
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/before the edit/after it/' \"$1\"\n")
    editor.chmod(editor.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("EDITOR", str(editor))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(CockpitApp, "suspend", lambda _: contextlib.nullcontext())
    async with opened(session) as pilot:
        await mark(pilot, "cpu/mine")
        await pilot.press("e", "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, CardScreen))
        assert "after it" in content_of(pilot, "#card-title")
        await pilot.press("escape")
        await until(pilot, lambda: "after it" in content_of(pilot, "#detail"))


async def test_a_catalog_that_was_read_anew_under_another_screen_is_drawn_on_return(session: Session) -> None:
    async with opened(session) as pilot:
        await mark(pilot, "cpu/tiny-qwen3")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, CardScreen))
        cpu_slug("cpu/new-one")
        session.refresh()
        await pilot.press("escape")
        await until(pilot, lambda: "cpu/new-one" in slugs_shown(pilot))


async def test_k_on_a_slug_that_is_not_served_says_so(session: Session) -> None:
    async with opened(session) as pilot:
        await mark(pilot, "cpu/tiny-qwen3")
        await pilot.press("K")
        await until_told(pilot, "cpu/tiny-qwen3 is not being served")


@pytest.mark.parametrize("size", SIZES)
async def test_no_slug_has_more_to_say_than_its_detail_shows(
    make_session: MakeSession, size: tuple[int, int]
) -> None:
    async with opened(make_session(rig_of(2)), size) as pilot:
        app = app_of(pilot)
        await until(pilot, lambda: app.judged)
        detail = app.screen.query_one("#detail", RowsView)
        for name in app.judged:
            await mark(pilot, name)
            lines = detail.lines_of(detail.rows, detail.text_width)
            await until(pilot, lambda lines=lines: len(lines) <= detail.size.height)
            assert row_text(lines[-1]) in shown(pilot)
