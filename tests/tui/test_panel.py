"""A panel is as high as the lines that it paints."""

from __future__ import annotations

from textual.app import App, ComposeResult

from cockpit.tui.widgets.panel import Panel


class _App(App[None]):
    CSS = "Panel { text-wrap: nowrap; }"

    def compose(self) -> ComposeResult:
        yield Panel("panel")


async def test_a_line_end_in_outside_text_makes_no_line_of_its_own() -> None:
    app = _App()
    async with app.run_test(size=(30, 10)) as pilot:
        panel = app.query_one(Panel)
        panel.show([[(" engine a\nb\nc was lost", "")], [("the next", "")]])
        await pilot.pause()
        lines = [panel.render_line(y).text.rstrip() for y in range(panel.size.height)]
    assert lines == [" engine a b c was lost", "the next"]
