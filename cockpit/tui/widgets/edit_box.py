"""A line to type in that keeps keys in their order, however fast they come."""

from __future__ import annotations

from textual import events
from textual.binding import Binding
from textual.geometry import Size
from textual.reactive import Reactive
from textual.widgets import Input


class EditBox(Input):
    """Textual runs a binding once its key has come up to the app, behind the letters that follow; this does not."""

    _ACTIONS = {binding.key: binding.action for binding in Binding.make_bindings(Input.BINDINGS)}  # noqa: RUF012

    virtual_size = Reactive(Size(0, 0))
    """Without a layout of the screen at each letter: the box is as wide as its place, and scrolls in it."""

    async def on_key(self, event: events.Key) -> None:
        """Submit, delete and move at once."""
        action = self._ACTIONS.get(event.key)
        if action is not None:
            event.stop()
            event.prevent_default()
            await self.run_action(action)
