"""The log panel: answered requests are counted, not shown, until they are asked for; its reader may look back."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.app import App, ComposeResult
from textual.geometry import Offset
from textual.selection import Selection

from cockpit.tui.content import row_text
from cockpit.tui.log_lines import LogLines
from cockpit.tui.screens.instance import Seen
from cockpit.tui.widgets.log_view import LogView, wrapped

from .helpers import DESIGN, SMALLEST, opened, settled, shown, until, until_shown
from .still_life import StillSession
from .test_snapshots import open_instance, rig_of, serving_dual

ACCESS = '(APIServer pid=12) INFO:     127.0.0.1:{} - "POST /v1/completions HTTP/1.1" 200 OK'
FAILED = '(APIServer pid=12) INFO:     127.0.0.1:5 - "POST /v1/completions HTTP/1.1" 404 Not Found'
USEFUL = "(EngineCore pid=13) INFO 11-29 20:00:00 [core.py:1] useful number {}"


@pytest.mark.parametrize("size", [SMALLEST, DESIGN])
async def test_access_lines_are_hidden_counted_and_shown_on_a_key(size: tuple[int, int]) -> None:
    lines = [USEFUL.format(1), *map(ACCESS.format, range(5000)), FAILED, USEFUL.format(2)]
    seen = msgspec.structs.replace(serving_dual(), lines=tuple(lines))
    async with opened(StillSession(rig_of(2), [seen]), size) as pilot:
        await open_instance(pilot, seen)
        await until_shown(pilot, "useful number 2", "404 Not", "5,000 access lines hidden, a shows them")
        await pilot.press("L")
        await until_shown(pilot, "useful number 1")
        assert "200 OK" not in shown(pilot)
        await pilot.press("a")
        await until_shown(pilot, "127.0.0.1:4999", "5,000 access lines shown, a hides them", "useful number 2")
        pilot.app.screen.post_message(Seen(msgspec.structs.replace(seen, lines=(ACCESS.format(77),))))
        await until_shown(pilot, "127.0.0.1:77 ", "5,001 access lines shown")
        await pilot.press("a")
        await until(pilot, lambda: "200 OK" not in shown(pilot))
        assert "useful number 1" in await settled(pilot)


@given(st.lists(st.lists(st.booleans(), max_size=30), max_size=8), st.integers(1, 12))
def test_what_is_shown_is_the_end_of_what_came(batches, most):
    log = LogLines(most)
    useful, every, number = [], [], 0
    shown_so_far: list[str] = []
    for batch in batches:
        lines = []
        for is_useful in batch:
            number += 1
            lines.append(f"line {number}" if is_useful else ACCESS.format(number).removeprefix("(APIServer pid=12) "))
        useful += [line for line in lines if line.startswith("line")]
        every += lines
        shown_so_far += log.add(lines)
    assert shown_so_far[-most:] == useful[-most:]
    assert log.access_count == len(every) - len(useful)
    assert log.toggle() == every[-most:]
    assert log.toggle() == useful[-most:]


@pytest.mark.parametrize("width", [10, 40, 80, 200])
def test_the_title_fills_the_width(width):
    log = LogLines(10)
    log.add([ACCESS.format(1)])
    assert len(row_text(log.title("a", width))) == width
    if width >= 80:
        assert "1 access line hidden, a shows them" in row_text(log.title("a", width))


class _Log(App[None]):
    def compose(self) -> ComposeResult:
        yield LogView(id="log", max_lines=100)


async def test_the_end_is_followed_until_its_reader_looks_up_and_again_at_the_end():
    async with _Log().run_test(size=(40, 10)) as pilot:
        log = pilot.app.query_one(LogView)
        log.focus()
        await until(pilot, lambda: log.has_focus and log.size.height)
        await pilot.pause()
        log.add_lines([f"line {number}" for number in range(60)])
        await until(pilot, lambda: "line 59" in shown(pilot))
        await pilot.press("pageup")
        await until(pilot, lambda: "line 59" not in shown(pilot))
        before = await settled(pilot)
        log.add_lines([f"line {number}" for number in range(60, 120)])
        assert (await settled(pilot)).split("\n")[0].split()[:2] == before.split("\n")[0].split()[:2]
        await pilot.press("end")
        await until(pilot, lambda: log.following and "line 119" in shown(pilot))
        log.add_lines(["line 120"])
        await until(pilot, lambda: "line 120" in shown(pilot))
        log.show_lines(["only this"])
        await until(pilot, lambda: "only this" in shown(pilot) and "line" not in shown(pilot))


async def test_a_long_line_is_reached_sideways_and_what_is_marked_is_copied():
    async with _Log().run_test(size=(40, 10)) as pilot:
        log = pilot.app.query_one(LogView)
        log.focus()
        await until(pilot, lambda: log.has_focus and log.size.height)
        await pilot.pause()
        log.add_lines(["漢" * 30 + "end of it", "second"])
        await until(pilot, lambda: "second" in shown(pilot))
        assert "end of it" not in shown(pilot)
        log.scroll_to(x=40, animate=False)
        await until(pilot, lambda: "end of it" in shown(pilot))
        assert log.get_selection(Selection(Offset(30, 0), Offset(3, 1))) == ("end of it\nsec", "\n")


@pytest.mark.parametrize("width", [20, 80])
def test_a_server_that_no_cockpit_started_has_no_log_and_that_is_said(width: int) -> None:
    title = row_text(LogLines(9).title("a", width, has_log=False))
    assert title.startswith("── no log")
    assert len(title) == width


LONG = [f"line {number} " + "漢字 word " * number for number in range(60)]


async def test_a_line_that_goes_on_is_marked_and_w_wraps_it_where_it_stands() -> None:
    async with _Log().run_test(size=(40, 10)) as pilot:
        log = pilot.app.query_one(LogView)
        log.focus()
        await until(pilot, lambda: log.has_focus and log.size.height)
        await pilot.pause()
        log.add_lines(["x" * 39, "y" * 40, "z" * 41])
        await until(pilot, lambda: "x" * 39 in shown(pilot))
        rows = [row[:39] for row in shown(pilot).split("\n")[:3]]
        assert rows == ["x" * 39, "y" * 38 + "…", "z" * 38 + "…"]
        log.show_lines(LONG)
        await until(pilot, lambda: "line 59 " in shown(pilot))
        await pilot.press("pageup", "pageup")
        await until(pilot, lambda: "line 30 " in shown(pilot))
        first = (await settled(pilot)).split()[:2]
        log.toggle_wrap()
        await pilot.pause()
        wrapped_screen = await settled(pilot)
        assert wrapped_screen.split()[:2] == first and "…" not in wrapped_screen
        log.add_lines([f"new {number}" for number in range(70)])
        assert (await settled(pilot)).split()[:2] == first, "the reader's place stays while lines go"
        log.toggle_wrap()
        assert (await settled(pilot)).split()[:2] == first
        await pilot.press("end")
        await until(pilot, lambda: "new 69" in shown(pilot))


@given(st.lists(st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "Zs"]), max_size=90), max_size=5))
def test_pieces_of_a_line_fit_and_lose_no_character(lines: list[str]) -> None:
    for line in lines:
        pieces = wrapped(line, 20)
        assert all(cell_len(piece) <= 20 for piece in pieces)
        assert "".join("".join(pieces).split()) == "".join(line.split())


async def test_wrapped_lines_are_wrapped_anew_in_another_width_and_go_with_the_oldest() -> None:
    async with _Log().run_test(size=(40, 10)) as pilot:
        log = pilot.app.query_one(LogView)
        await until(pilot, lambda: log.size.height)
        log.toggle_wrap()
        for number in range(30):
            log.add_lines([f"{number} {'word ' * 20}end{number}" for number in range(number * 10, number * 10 + 10)])
        await until(pilot, lambda: "end299" in shown(pilot))
        for width in (25, 60):
            await pilot.resize_terminal(width, 10)
            await until(pilot, lambda width=width: all(len(row) <= width - 1 for row in log._drawn))  # type: ignore[misc]
            await until(pilot, lambda: "end299" in shown(pilot))
            text = "\n".join(log._drawn)
            assert [word for word in text.split() if "end" in word] == [f"end{number}" for number in range(200, 300)]


async def test_the_title_names_the_key_that_wraps() -> None:
    line = "(EngineCore pid=13) INFO 11-29 20:00:00 [core.py:1] " + "word " * 30 + "the end"
    seen = msgspec.structs.replace(serving_dual(), lines=(line,))
    async with opened(StillSession(rig_of(2), [seen]), SMALLEST) as pilot:
        await open_instance(pilot, seen)
        await until_shown(pilot, "w wraps long lines", "…")
        assert "the end" not in shown(pilot)
        await pilot.press("w")
        await until_shown(pilot, "w cuts long lines", "the end")
