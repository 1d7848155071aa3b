"""The serve card: toggles on keys, the exact command, and what stands against it, before anything starts."""

from __future__ import annotations

import gc
from typing import Any, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.widgets import Input

from cockpit.catalog.load import Entry
from cockpit.errors import CockpitError
from cockpit.launch.flag_facts import wants_flags
from cockpit.launch.plan import Facts, context_for, effective_values, toggle_states
from cockpit.launch.render import shell_command
from cockpit.launch.toggles import BY_ID
from cockpit.launch.types import LaunchPlan
from cockpit.launch.values import Choice, parse_value
from cockpit.rules.finding import ToggleState
from cockpit.rules.plan_rules import refusals
from cockpit.telemetry.frame import State
from cockpit.tui.card_layout import CardLayout
from cockpit.tui.card_rows import (
    blocked,
    blocked_row,
    effect_row,
    lower_rows,
    offered,
    rig_rows,
    served_row,
    toggle_row,
    unfit_rows,
)
from cockpit.tui.commands import bindings, toggle_bindings
from cockpit.tui.content import Row
from cockpit.tui.forecast_rows import MOST_CHANGES, forecast_rows, suggestion, value_of
from cockpit.tui.keymap import toggle_key
from cockpit.tui.screens.base import CockpitScreen
from cockpit.tui.widgets.edit_box import EditBox
from cockpit.tui.widgets.panel import Panel
from cockpit.tui.widgets.rows_view import RowsView
from cockpit.tui.widgets.toggle_table import ToggleTable
from cockpit.tui.workers import run_in_thread, tell

_KEYS_OF_THE_BOX = frozenset({"press", "start", "stop", "copy", "reset", "move", "step", "apply"})


class CardScreen(CockpitScreen):
    """One slug's card. Small letters are toggles; S or Enter starts."""

    COMMANDS_OF = "card"
    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("card"), *toggle_bindings()]

    def __init__(self, entry: Entry, chosen: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.entry = entry
        self.chosen: dict[str, Any] = dict(chosen or {})
        self._facts: Facts | None = None
        self._plan: LaunchPlan | None = None
        self._states: dict[str, ToggleState] = {}
        self._marked = 0
        self._edited: str | None = None
        self._said: Row = []
        self._upper = 0
        self._served: set[tuple[str, State]] | None = None
        self._starting = False

    def compose_body(self) -> ComposeResult:
        """Title, toggles beside the forecast and the rig, then what is said, findings and command."""
        yield Panel("card-title")
        with Horizontal(id="card-top"):
            yield ToggleTable("toggles")
            yield RowsView("side", wraps=True)
        yield Panel("effect")
        yield EditBox(id="editor", compact=True)
        yield RowsView("lower", wraps=True)

    def on_mount(self) -> None:
        """Draw what is known; ask the rig and the engines in the background."""
        slug = self.entry.slug
        title = f"── {slug.name} · {slug.model} · {slug.weights.label} "
        self.query_one("#card-title", Panel).show([[(title, "title"), ("─" * 200, "dim")]])
        self.query_one("#lower", RowsView).show([[(" ◐ looking at the rig and the engines…", "dim")]])
        self.query_one("#editor").display = False
        self._ask()
        self.watch(self.app, "instances", self._instances_changed)

    def _ask(self) -> None:
        run_in_thread(self, self._gather, "facts", self.cockpit.warn, exclusive=True)

    def _instances_changed(self) -> None:
        """Another server took or gave back a port or memory: what is shown may no longer be so."""
        served = {(view.record.name, view.state) for view in self.cockpit.instances}
        if self._served is not None and served != self._served and self._facts is not None:
            self.cockpit.session.look_at_rig_again()
            self._ask()
        self._served = served

    def _gather(self) -> None:
        facts = self.cockpit.session.facts(self.entry)
        # While one waits anyway: the full collection that screens before have left would come between two keys.
        gc.collect()
        tell(self, self._have_facts, facts)

    def _have_facts(self, facts: Facts) -> None:
        self._facts = facts
        if facts.engine is not None and wants_flags(self.entry.slug, facts):
            self.cockpit.flags.ask(facts.engine, lambda: tell(self.app, self._flags_known))
        self.redraw()

    def _flags_known(self) -> None:
        if self.is_attached:
            self._ask()

    @property
    def plan(self) -> LaunchPlan | None:
        """What is shown; None until the rig and the engines are known."""
        return self._plan

    def redraw(self) -> None:
        """Plan anew and draw everything that depends on it."""
        facts = self._facts
        if facts is None:
            return
        plan = self.cockpit.session.plan_entry(self.entry, self.chosen, facts)
        ctx = context_for(self.entry.slug, self.chosen, facts)
        self._plan, self._states = plan, toggle_states(ctx)
        if plan.forecast is not None and plan.forecast.per_gpu:
            # It stays, as a column that comes and goes is another layout each time.
            self.add_class("-forecast")
        toggles, side = self.query_one("#toggles", ToggleTable), self.query_one("#side", RowsView)
        toggles.show(self._toggle_rows(plan, facts))
        toggles.reveal(self._marked)
        side.show(self._side_rows(plan, facts))
        self._draw_effect(plan, facts)
        self._make_room(toggles, side)
        self._draw_lower()

    def _make_room(self, toggles: RowsView, side: RowsView) -> None:
        layout = self._layout
        needed = len(toggles.lines_of(toggles.rows, layout.toggles_width))
        if layout.has_side:
            needed = max(needed, len(side.lines_of(side.rows, layout.side_width)))
        height = layout.upper(needed, self._upper)
        if height != self._upper:
            self._upper = height
            self.query_one("#card-top").styles.height = height

    @property
    def _layout(self) -> CardLayout:
        wide, forecast = self.has_class("-wide"), self.has_class("-forecast")
        return CardLayout(width=self.size.width, height=self.size.height, wide=wide, forecast=forecast)

    def _toggle_rows(self, plan: LaunchPlan, facts: Facts) -> list[Row]:
        defaults = effective_values(self.entry.slug, {}, facts)
        keymap, width = self.cockpit.session.config.keys, self._layout.toggles_width
        rows = [
            toggle_row(
                toggle,
                toggle_key(toggle, keymap),
                plan.values[toggle.id],
                defaults[toggle.id],
                position == self._marked,
                width,
            )
            for position, toggle in enumerate(offered(self._states))
        ]
        if not_here := blocked(self._states):
            rows.append(blocked_row(not_here, keymap))
        return rows

    def _side_rows(self, plan: LaunchPlan, facts: Facts) -> list[Row]:
        keymap = self.cockpit.session.config.keys
        rows = [] if plan.forecast is None else forecast_rows(plan.forecast, self._layout.side_width, keymap)
        return [*rows, *rig_rows(self.entry, facts)] if self.has_class("-wide") else rows

    def _draw_effect(self, plan: LaunchPlan, facts: Facts) -> None:
        """The marked toggle in whole, where its row has no room for it."""
        toggles = offered(self._states)
        if toggles:
            toggle = toggles[min(self._marked, len(toggles) - 1)]
            default = effective_values(self.entry.slug, {}, facts)[toggle.id]
            self.query_one("#effect", Panel).show([effect_row(toggle, plan.values[toggle.id], default)])

    def _draw_lower(self) -> None:
        """What is said, the verdict where it has no column, findings, command."""
        plan, view = self._plan, self.query_one("#lower", RowsView)
        if plan is None:
            return
        width = view.text_width or self.size.width - 1
        said: list[Row] = [self._said] if self._said else []
        if served := served_row(self.cockpit.instances, self.entry.slug.name, self.cockpit.session.config.keys):
            said.append(served)
        layout = self._layout
        unfit = [] if layout.has_side else unfit_rows(plan, width)
        view.show(lower_rows([*said, *unfit], plan, width, layout.lower(self._upper), beside=layout.has_side))

    def on_resize(self, event: events.Resize) -> None:
        """Other widths draw other bars."""
        self._upper = 0
        self.call_after_refresh(self.redraw)

    def _say(self, text: str, style: str = "warn") -> None:
        """Above the findings, until something else is said; nothing takes it away."""
        said: Row = [(f" {text}", style)] if text else []
        if said != self._said:
            self._said = said
            self._draw_lower()
            self.query_one("#lower", RowsView).scroll_to(y=0, animate=False, immediate=True)

    def action_press(self, toggle_id: str) -> None:
        """The toggle's key: the next word of a choice, a line to type in for a number, the reason when blocked."""
        if self._facts is None or self._plan is None:
            return
        toggle, state = BY_ID[toggle_id], self._states[toggle_id]
        if state.state == "blocked":
            self._say(f"{toggle.label}: {state.reason}. {state.fix or ''}")
            return
        self._marked = [one.id for one in offered(self._states)].index(toggle_id)
        if not isinstance(toggle.kind, Choice):
            self._edit(toggle_id)
            return
        better = suggestion(self._plan.forecast, toggle_id)
        value = toggle.kind.step(self._plan.values[toggle_id], 1) if better is None else better
        self._set(toggle_id, value)

    def _set(self, toggle_id: str, value: Any) -> None:
        self.chosen[toggle_id] = value
        self._said = []
        self.redraw()

    def _edit(self, toggle_id: str) -> None:
        toggle = BY_ID[toggle_id]
        better = suggestion(self._plan.forecast, toggle_id) if self._plan else None
        value = self._plan.values[toggle_id] if self._plan and better is None else better
        self._edited = toggle_id
        self.redraw()
        box = self.query_one("#editor", Input)
        box.value = "" if value is None else toggle.kind.show(value).replace(",", "" if toggle_id != "gpus" else ",")
        box.placeholder = f"{toggle.label}: type a value, ↵ sets it, esc leaves it"
        box.display = True
        # At once: `focus()` would wait, and the first letters typed meanwhile would be lost.
        self.set_focus(box)
        box.cursor_position = len(box.value)
        advice = "type a value" if better is None else f"{toggle.kind.show(better)} would fit"
        self._say(f"{toggle.label}: {advice} · ↵ sets it · esc leaves it as it is", "dim")

    @on(Input.Submitted, "#editor")
    def _edited_value(self, event: Input.Submitted) -> None:
        if self._edited is None:
            return
        try:
            value = parse_value(self._edited, BY_ID[self._edited].kind, event.value)
        except CockpitError as error:
            self._say(error.sentence())
            return
        toggle_id = self._edited
        self._close_editor()
        self._set(toggle_id, value)

    def _close_editor(self) -> None:
        self._edited = None
        self.query_one("#editor").display = False
        self.set_focus(None)
        self._say("")

    def action_move(self, by: int) -> None:
        """Mark the next or previous toggle."""
        count = len(offered(self._states))
        if count:
            self._marked = (self._marked + by) % count
            self.redraw()

    def action_step(self, by: int) -> None:
        """The marked toggle's next or previous value."""
        toggles = offered(self._states)
        if self._plan is None or not toggles:
            return
        toggle = toggles[min(self._marked, len(toggles) - 1)]
        self._set(toggle.id, toggle.kind.step(self._plan.values[toggle.id], by))

    @on(ToggleTable.Pressed)
    def _row_clicked(self, event: ToggleTable.Pressed) -> None:
        toggles = offered(self._states)
        if 0 <= event.row < len(toggles):
            self.action_press(toggles[event.row].id)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While a value is typed, its keys belong to the box."""
        if self._edited is not None and action in _KEYS_OF_THE_BOX:
            return False
        return super().check_action(action, parameters)

    def action_page(self, by: int) -> None:
        """Scroll the forecast, the findings and the command."""
        for part in self.query("#side, #lower").results(RowsView):
            if by > 0:
                part.scroll_page_down(animate=False)
            else:
                part.scroll_page_up(animate=False)

    def action_reset(self) -> None:
        """Back to the slug's own values."""
        self.chosen.clear()
        self._say("back to the slug's own values", "dim")
        self.redraw()

    def action_apply(self, number: int) -> None:
        """A change that makes it fit, by its digit."""
        forecast = self._plan.forecast if self._plan is not None else None
        changes = forecast.changes[:MOST_CHANGES] if forecast is not None else ()
        if number > len(changes):
            return
        change = changes[number - 1]
        self.chosen.update({name: value_of(change, name) for name in change.set})
        self._said = []
        self.redraw()

    def action_stop(self) -> None:
        """Stop the slug's server; asks first."""
        self.cockpit.ask_stop_slug(self.entry.slug.name)

    def action_copy(self) -> None:
        """The command to the clipboard."""
        if self._plan is not None:
            self.app.copy_to_clipboard(shell_command(self._plan))
            self.cockpit.inform("the command was sent to the terminal's clipboard")

    def action_back(self) -> None:
        """To the catalog; nothing was started."""
        if self._edited is not None:
            self._close_editor()
            return
        self.app.pop_screen()

    def action_start(self) -> None:
        """Start what is shown; a plan that something stands against says so instead."""
        if self._plan is None or self._edited is not None or self._starting:
            return
        if refusals(self._plan.findings):
            self._say("not started: what is marked ✕ here stands against it", "bad")
            return
        self._starting = True
        self._say("starting…", "dim")
        run_in_thread(self, self._start, "start", self.cockpit.warn, exclusive=True)

    def _start(self) -> None:
        try:
            record = self.cockpit.session.start_entry(self.entry, self.chosen)
        except CockpitError as error:
            tell(self.app, self._not_started, error.sentence())
            return
        tell(self.app, self._has_started, record.name)

    def _has_started(self, name: str) -> None:
        """Its screen takes this one's place; when the user has gone elsewhere meanwhile, a word is enough."""
        self._starting = False
        if self.app.screen is self:
            self.cockpit.show_instance(name, replace=True)
        else:
            self.cockpit.inform(f"{name} is starting; i lists it")

    def _not_started(self, sentence: str) -> None:
        self._starting = False
        if self.is_attached:
            self._say(sentence, "bad")
        if self.app.screen is not self:
            self.cockpit.warn(sentence)
