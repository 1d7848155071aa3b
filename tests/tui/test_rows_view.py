"""Wrapping with a hanging indent, and a view whose text changes without a layout."""

from __future__ import annotations

from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.app import App, ComposeResult
from textual.screen import Screen

from cockpit.tui.content import STYLES, Row, row_text
from cockpit.tui.widgets.rows_view import RowsView
from cockpit.tui.wrap import cut, hanging, one_line, wrap

WORDS = st.text(st.sampled_from("ab/-世é "), max_size=30)
ROWS = st.lists(st.tuples(WORDS, st.sampled_from(sorted(STYLES))), max_size=5)


@given(ROWS, st.integers(2, 60))
def test_wrapped_lines_fit_and_keep_every_word(row: Row, width: int) -> None:
    lines = wrap(row, width)
    assert all(cell_len(row_text(line)) <= width for line in lines)
    letters = "".join(row_text(row).split())
    assert "".join("".join(row_text(line).split()) for line in lines) == letters
    assert {style for line in lines for text, style in line if text.strip()} <= {style for _, style in row}


@given(ROWS, st.integers(1, 60))
def test_a_cut_line_is_the_beginning_and_a_mark(row: Row, width: int) -> None:
    text = row_text(row)
    found = row_text(cut(row, width))
    assert cell_len(found) <= width
    assert found == text or (found.endswith("…") and cell_len(text) > width)


CASES: dict[str, tuple[Row, int, list[str]]] = {
    "beside a glyph": ([(" ✕ ", "bad"), ("no engine was found here", "")], 16, [" ✕ no engine was", "   found here"]),
    "below a paragraph": ([(" no engine was found", "")], 13, [" no engine", " was found"]),
    "no room for an indent": ([("0123456789 ", ""), ("ab cd ef gh", "")], 14, ["0123456789 ab", "cd ef gh"]),
    "a long word is broken": ([(" /a/very/long/path", "")], 10, [" /a/very/l", " ong/path"]),
    "a wide first segment is text": ([("x" * 21 + " ", ""), ("y", "")], 22, ["x" * 21, "y"]),
}


@pytest.mark.parametrize("name", CASES)
def test_where_wrapped_lines_begin(name: str) -> None:
    row, width, lines = CASES[name]
    assert [row_text(line) for line in wrap(row, width)] == lines


def test_a_short_first_segment_hangs_and_a_blank_one_does_not() -> None:
    assert hanging([(" engine  ", "dim"), ("vLLM", "")]) == 9
    assert hanging([(" ", ""), ("vllm", "bold"), (" serve", "")]) == 1
    assert hanging([("   deep", "")]) == 3
    assert hanging([]) == 0


def test_outside_text_is_one_line_that_no_terminal_obeys() -> None:
    assert row_text(one_line([("a\nb\x1b[2J", "")])) == "a b�[2J"


class OneView(App[None]):
    CSS: ClassVar[str] = "RowsView { height: 4; width: 20; overflow-y: scroll; scrollbar-size-vertical: 1; }"

    def compose(self) -> ComposeResult:
        yield RowsView("view", wraps=True)


def lines(count: int, text: str = "line") -> list[Row]:
    return [[(f"{text} {number}", "")] for number in range(count)]


def strips(app: App[None]) -> list[str]:
    return [strip.text[:19].rstrip() for strip in app.screen._compositor.render_strips()][:4]


async def test_any_text_is_shown_without_a_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    async with OneView().run_test(size=(30, 8)) as pilot:
        app, view = pilot.app, pilot.app.query_one(RowsView)
        await pilot.pause()
        layouts = []
        monkeypatch.setattr(Screen, "_refresh_layout", lambda *_args, **_named: layouts.append(1))
        for count in (2, 9, 3, 0, 6):
            view.show(lines(count))
            await pilot.pause()
            assert strips(app) == [f"line {number}" for number in range(min(count, 4))] + [""] * (4 - min(count, 4))
        view.show([[("a sentence of more than twenty cells", "")]])
        await pilot.pause()
        assert strips(app) == ["a sentence of more", "than twenty cells", "", ""]
        assert layouts == []


async def test_it_scrolls_and_comes_back_when_the_text_gets_shorter() -> None:
    async with OneView().run_test(size=(30, 8)) as pilot:
        app, view = pilot.app, pilot.app.query_one(RowsView)
        view.show(lines(9))
        view.reveal(8)
        await pilot.pause()
        assert strips(app) == ["line 5", "line 6", "line 7", "line 8"]
        view.show(lines(6, "other"))
        await pilot.pause()
        assert strips(app) == ["other 2", "other 3", "other 4", "other 5"]
        view.show(lines(1))
        await pilot.pause()
        assert strips(app) == ["line 0", "", "", ""]


async def test_a_mouse_selects_what_it_is_drawn_over() -> None:
    async with OneView().run_test(size=(30, 8)) as pilot:
        view = pilot.app.query_one(RowsView)
        view.show([[("first ", ""), ("line", "bold")], [("second line", "")]])
        await pilot.pause()
        await pilot.mouse_down(view, offset=(6, 0))
        await pilot.hover(view, offset=(6, 1))
        await pilot.mouse_up(view, offset=(6, 1))
        await pilot.pause()
        assert pilot.app.screen.get_selected_text() == "line\nsecond "
