"""The table of rows to choose from, alone in an app."""

from __future__ import annotations

from textual import events
from textual.app import App, ComposeResult

from cockpit.tui.content import Segment
from cockpit.tui.widgets.menu_table import MenuTable

from .helpers import until

KEYS = tuple(f"row-{number}" for number in range(1000))
COLUMNS = (("name", 10), ("note", 6))


class TableApp(App[None]):
    """Remembers what was asked for and what was told."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.told: list[str] = []

    def compose(self) -> ComposeResult:
        yield MenuTable("table")

    def on_mount(self) -> None:
        self.query_one(MenuTable).focus()
        self.query_one(MenuTable).show(COLUMNS, KEYS, self.cells)

    def cells(self, key: str) -> list[Segment]:
        self.asked.append(key)
        return [(key, "bold"), ("漢字漢字漢字", "dim")]

    def on_menu_table_marked(self) -> None:
        self.told.append(f"marked {self.query_one(MenuTable).marked_key()}")

    def on_menu_table_chosen(self, message: MenuTable.Chosen) -> None:
        self.told.append(f"chosen {message.key}")


def lines_of(app: TableApp) -> list[str]:
    return [strip.text.rstrip() for strip in app.screen._compositor.render_strips()]


async def test_only_rows_in_sight_are_asked_for_and_each_once() -> None:
    app = TableApp()
    async with app.run_test(size=(40, 12)) as pilot:
        await pilot.pause()
        assert sorted(set(app.asked)) == sorted(KEYS[:11])
        before = len(app.asked)
        await pilot.press("down", "down", "up")
        assert set(app.asked[before:]) <= set(KEYS[:3]), "rows that look the same are not drawn anew"
        await pilot.press("end")
        await pilot.pause()
        assert set(app.asked) <= {*KEYS[:11], *KEYS[-11:]}
        assert lines_of(app)[-1].startswith("row-999")


async def test_cells_are_cut_by_what_they_take_on_the_screen() -> None:
    app = TableApp()
    async with app.run_test(size=(40, 12)) as pilot:
        await pilot.pause()
        assert lines_of(app)[1] == "row-0      漢字 …"


async def test_keys_and_clicks_mark_and_choose() -> None:
    app = TableApp()
    async with app.run_test(size=(40, 12)) as pilot:
        for key, told in (("pagedown", "marked row-11"), ("enter", "chosen row-11"), ("home", "marked row-0")):
            await pilot.press(key)
            await until(pilot, lambda told=told: app.told[-1:] == [told])  # type: ignore[misc]
        assert len(app.told) == 3
        await pilot.click("#table", offset=(3, 3))
        await until(pilot, lambda: app.told[-1] == "marked row-2")
        await pilot.click("#table", offset=(3, 3))
        await until(pilot, lambda: app.told[-1] == "chosen row-2")
        told = len(app.told)
        await pilot.click("#table", offset=(3, 0))
        assert len(app.told) == told, "the titles are no row"


async def test_the_row_that_was_marked_is_chosen_however_soon_another_is() -> None:
    app = TableApp()
    async with app.run_test(size=(40, 12)) as pilot:
        for key in ("down", "enter", "down"):
            app.post_message(events.Key(key, None))
        await until(pilot, lambda: len(app.told) == 3)
        assert [told for told in app.told if "chosen" in told] == ["chosen row-1"]


async def test_the_mark_stays_with_its_row_and_falls_back_to_its_place() -> None:
    app = TableApp()
    async with app.run_test(size=(40, 12)) as pilot:
        table = app.query_one(MenuTable)
        table.mark_key("row-500")
        table.show(COLUMNS, KEYS[490:], app.cells)
        assert table.marked_key() == "row-500"
        table.show(COLUMNS, KEYS[:5], app.cells)
        assert table.marked_key() == "row-4"
        table.show(COLUMNS, (), app.cells)
        assert table.marked_key() is None
        await pilot.press("enter", "down", "end")
        assert not any(told.startswith("chosen") for told in app.told)
        table.show(COLUMNS, KEYS, app.cells)
        await pilot.pause()
        assert table.marked_key() == "row-0" and lines_of(app)[1].startswith("row-0")
