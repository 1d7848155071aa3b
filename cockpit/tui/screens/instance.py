"""One instance: its boot by stages, then its live figures, with the log below."""

from __future__ import annotations

import time
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.message import Message
from textual.worker import get_current_worker

from cockpit import units
from cockpit.errors import CockpitError
from cockpit.supervisor.again import usable_fix
from cockpit.supervisor.against import against
from cockpit.supervisor.diagnose.types import Fix
from cockpit.supervisor.record import InstanceRecord
from cockpit.telemetry.history import History
from cockpit.telemetry.timeline import Timeline
from cockpit.tui.catalog_rows import STATE_CELLS
from cockpit.tui.commands import bindings
from cockpit.tui.content import Row, fit, row_text
from cockpit.tui.keymap import keys_of, shown_key
from cockpit.tui.log_lines import LogLines
from cockpit.tui.present import is_stale, live_rows, source_rows, wrapped_notes
from cockpit.tui.present_boot import Death, boot_rows, by_hand, death_rows, pace_row, silence_rows
from cockpit.tui.present_charts import SPANS, chart_rows
from cockpit.tui.present_forecast import against_rows
from cockpit.tui.screens.base import CockpitScreen
from cockpit.tui.widgets.log_view import LogView
from cockpit.tui.widgets.panel import Panel
from cockpit.tui.widgets.status_bar import StatusBar
from cockpit.tui.workers import cancelled, is_leaving, run_in_thread, sleep, tell
from cockpit.watch import Observation, Watch

_MAX_LOG_LINES = 2000
_BOOT_TICK_SECONDS = 0.5
_SERVING = ("ready", "foreign")
_ROWS_FOR_FIGURES_TOO = 33
"""A screen of fewer rows shows charts instead of figures."""


class Seen(Message):
    """A new observation of the instance."""

    def __init__(self, observation: Observation) -> None:
        super().__init__()
        self.observation = observation


class Gone(Message):
    """The instance is no longer on record: it was stopped, here or by another cockpit."""


class InstanceScreen(CockpitScreen):
    """Follows one instance in a thread; the screen itself only draws what it is told."""

    COMMANDS_OF = "instance"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("instance")]

    def __init__(self, name: str, watch: Watch, on_record: bool = True) -> None:
        super().__init__()
        self.instance_name = name
        self._watch = watch
        self._on_record = on_record and watch.is_live
        """Whether it is listed here, and no longer shown once it is not: neither a tape nor a mere URL is."""
        self._history = History()
        self._timeline = Timeline()
        self._span: float | None = None
        """Seconds that the charts show; None while there are none."""
        self._last: Observation | None = None
        self._told = ""
        self._was_ready = False
        """At the last look; belongs to the thread, as `_last` belongs to the screen."""
        self._gone = False
        self._log = LogLines(_MAX_LOG_LINES)
        self._log_alone = False
        """The log has the screen for itself."""
        self.step = ""
        """What a stop in progress does now."""

    def compose_body(self) -> ComposeResult:
        """Title, figures, log."""
        yield Panel("instance-title")
        yield Panel("panel")
        yield Panel("charts")
        yield Panel("log-title")
        yield LogView(id="log", max_lines=_MAX_LOG_LINES)

    def on_mount(self) -> None:
        """Begin to follow."""
        self._draw_title()
        self._arrange()
        self._draw_log_title()
        run_in_thread(self, self._follow, "follow", self.cockpit.warn, exclusive=True)

    def _follow(self) -> None:
        """In a thread: look, tell, sleep; ends with the screen or with the record."""
        worker = get_current_worker()
        refresh = self.cockpit.session.config.refresh_seconds
        try:
            while not cancelled(worker):
                began = time.monotonic()
                if not self._look():
                    self.post_message(Gone())
                    return
                pause = refresh if self._was_ready else min(refresh, _BOOT_TICK_SECONDS)
                sleep(began + pause - time.monotonic())
        finally:
            self._watch.close()

    def _look(self) -> bool:
        """One look; whether the instance is still on record. A look that fails is told once, and tried again."""
        try:
            seen = self._watch.tick()
            self._was_ready = seen.state == "ready"
            self.post_message(Seen(seen))
            return not self._on_record or self.cockpit.session.is_on_record(self.instance_name)
        except CockpitError as error:
            if error.title != self._told:
                self._told = error.title
                tell(self.app, self.cockpit.warn, error.title, error.fix)
            return True

    def on_seen(self, message: Seen) -> None:
        """Draw one observation."""
        if is_leaving(self):
            return
        seen = message.observation
        # A death may be seen a look before its reason is.
        changed = self._last is None or (self._last.state, _fix_of(self._last)) != (seen.state, _fix_of(seen))
        self._last = seen
        self.query_one(StatusBar).tell_time()
        if changed:
            self.refresh_bindings()
            self._draw_log_title()
        if seen.state in _SERVING:
            self._history.push(seen.frame)
            self._timeline.push(seen.frame)
        if seen.problem:
            self.cockpit.warn(seen.problem, "")
        if seen.lines:
            if new := self._log.add(seen.lines):
                self.query_one("#log", LogView).add_lines(new)
            self._draw_log_title()
        self.redraw()

    def on_gone(self) -> None:
        """Leave, now or when what lies over this screen goes; the app says what became of the server."""
        self._gone = True
        # Not is_current: Textual counts the screen below the top one as current too.
        if self.app.screen is self:
            self.app.pop_screen()

    def on_screen_resume(self) -> None:
        """The server may have gone while another screen lay over this one."""
        if self._gone:
            self.call_later(self.app.pop_screen)

    def on_resize(self, event: events.Resize) -> None:
        """Other widths draw other gauges."""
        self._draw_log_title()
        self.redraw()

    def redraw(self) -> None:
        """Everything that depends on the last observation."""
        self._draw_title()
        if self._last is not None:
            rows = [fit(row, max(10, self.size.width)) for row in self.panel_rows(self._last)]
            self._arrange()
            panel = self.query_one("#panel", Panel)
            panel.show(rows)
            self.query_one("#charts", Panel).show(self._chart_rows())
            panel.set_class(self._last.state in _SERVING and is_stale(self._last.frame), "-stale")

    def panel_rows(self, seen: Observation) -> list[Row]:
        """Boot stages, death, or live figures."""
        if seen.state == "dead":
            return [
                *boot_rows(seen.boot, seen.boot_seconds, dead=True),
                *death_rows(self._death(seen), self.size.width),
            ]
        if seen.state == "starting" or not seen.was_ready:
            rows = boot_rows(seen.boot, seen.boot_seconds, pace=seen.pace)
            if seen.pace is not None:
                rows.append(pace_row(seen.pace, seen.boot_seconds, self.size.width))
            return rows if seen.silence is None else [*rows, *silence_rows(seen.silence, self.size.width)]
        rows = live_rows(seen.frame, self._history, self.size.width)
        return [*rows, *against_rows(against(seen.record, seen.boot.facts, seen.frame.kv.capacity_tokens))]

    def _draw_title(self) -> None:
        seen = self._last
        if seen is None:
            self.query_one("#instance-title", Panel).show([[(f" {self.instance_name} …", "title")]])
            return
        record = seen.record
        word, style = STATE_CELLS[seen.state]
        since = record.ready_at or record.created_at
        row: Row = [
            (f" {word} ", style),
            (f" {record.slug} ", "title"),
            (f" {record.url} ", ""),
            (f" {_other_name(record)} ", "dim"),
        ]
        if seen.state == "ready":
            usual = "" if seen.pace is None else f" (expected {units.duration(seen.pace.expected_seconds)})"
            now = time.time() if self._watch.is_live else seen.frame.at
            up, boot = units.duration(now - since), units.duration(seen.boot_seconds)
            row.append((f" up {up} · boot {boot}{usual}", "dim"))
        if self._watch.position:
            row.insert(0, (f" {self._watch.position} ", "reverse"))
        if self.step:
            row.append((f"  {self.step}", "warn"))
        self.query_one("#instance-title", Panel).show([fit(row, max(10, self.size.width))])

    def _death(self, seen: Observation) -> Death:
        diagnosis, fix = seen.diagnosis, _fix_of(seen)
        return Death(
            exit_code=seen.exit_code,
            was_ready=seen.was_ready,
            first_exception=seen.boot.first_exception,
            survivors=seen.survivors,
            explanation=diagnosis.explanation if diagnosis else None,
            fix=self.cockpit.words_of_fix(seen.record, fix) if fix else None,
            advice=tuple(one.text for one in diagnosis.fixes) if diagnosis else (),
        )

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """``S`` is offered for a dead server only, ``f`` where a new start can help, ``c`` for one that serves, ``t``
        for one of a slug.

        A tape has no server to stop or start, and one known by its URL alone is not ours to.
        """
        if action in ("restart", "stop", "fix") and not self._on_record:
            return False
        if action == "fix":
            return self._last is not None and _fix_of(self._last) is not None
        if action == "charts":
            return self._last is not None and self._last.state in _SERVING
        if action == "restart":
            return self._last is not None and self._last.state == "dead"
        if action == "card":
            return self._on_record and self._last is not None and self._last.state in ("starting", "ready")
        return super().check_action(action, parameters)

    def show_step(self, name: str, step: str) -> None:
        """In the title."""
        if name == self.instance_name:
            self.step = step
            self.redraw()

    def action_stop(self) -> None:
        """Stop it; asks first."""
        self.cockpit.ask_stop(self.instance_name)

    @property
    def _shows_charts(self) -> bool:
        return self._span is not None and self._last is not None and self._last.state in _SERVING

    @property
    def _charts_alone(self) -> bool:
        """A small screen gives them all its room."""
        return self._shows_charts and self.size.height < _ROWS_FOR_FIGURES_TOO

    def _arrange(self) -> None:
        """What has a place on the screen; a class of the screen would have every widget's styles looked up anew."""
        charts, log = self._shows_charts and not self._log_alone, self._log_alone or not self._shows_charts
        panel = self.query_one("#panel")
        panel.display = not self._log_alone and not self._charts_alone
        panel.set_class(self._shows_charts, "-whole")
        for name, shown in (("charts", charts), ("log", log), ("log-title", log)):
            self.query_one(f"#{name}").display = shown

    def _draw_log_title(self) -> None:
        has_log = self._last is None or bool(self._last.record.log)
        key, wrap_key = self._key("access", "a"), self._key("wrap", "w")
        wrapping = (wrap_key, "cuts" if self.query_one("#log", LogView).wraps else "wraps")
        title = self._log.title(key, max(10, self.size.width), has_log, wrapping if has_log else None)
        self.query_one("#log-title", Panel).show([title])

    def _key(self, command: str, default: str) -> str:
        """The key in force of one of this screen's commands."""
        return shown_key(f"instance.{command}", default, self.cockpit.shelf.config.keys)

    def _chart_rows(self) -> list[Row]:
        """The charts, or nothing."""
        if self._span is None or self._last is None or not self._shows_charts:
            return []
        width = max(10, self.size.width)
        name = f"── {SPANS[self._span]} "
        title: Row = [(name, "title"), ("─" * (width - len(name)), "dim")]
        notes = wrapped_notes(self._last.frame, width) if self._charts_alone else []
        return [fit(row, width) for row in (title, *chart_rows(self._timeline, self._span, width), *notes)]

    def action_charts(self) -> None:
        """No charts, two minutes, one hour, none."""
        spans = [None, *SPANS]
        self._span = spans[(spans.index(self._span) + 1) % len(spans)]
        self.redraw()

    def action_toggle_log(self) -> None:
        """The log alone, or with the figures."""
        self._log_alone = not self._log_alone
        self._arrange()

    def action_access(self) -> None:
        """Lines of answered requests too, or no more."""
        self.query_one("#log", LogView).show_lines(self._log.toggle())
        self._draw_log_title()

    def action_wrap(self) -> None:
        """Long lines of the log over several, or cut."""
        self.query_one("#log", LogView).toggle_wrap()
        self._draw_log_title()

    def action_copy(self) -> None:
        """What is shown as text, with the sources of the figures."""
        if self._last is None:
            return
        rows = [*self.panel_rows(self._last), *self._chart_rows()]
        if self._last.state in _SERVING:
            rows += source_rows(self._last.frame)
        lines = [row_text(row).rstrip() for row in rows]
        title = f"{self._last.record.slug} {self._last.state} {self._last.record.url}"
        self.app.copy_to_clipboard("\n".join([title, *lines]))
        self.cockpit.inform("what is shown was sent to the terminal's clipboard")

    def action_restart(self) -> None:
        """The card of its slug, with the values it had."""
        if self._last is not None:
            self.cockpit.open_card_again(self._last.record)

    def action_card(self) -> None:
        """The card of the slug with the values that its server has."""
        self.action_restart()

    def on_key(self, event: events.Key) -> None:
        """The key of a fix says why there is none."""
        keys = keys_of("instance.fix", "f", self.cockpit.shelf.config.keys)
        seen = self._last
        if event.key in keys and seen is not None and seen.state == "dead" and _fix_of(seen) is None:
            event.stop()
            text = by_hand(self._death(seen), self._key("restart", "S"), self._key("log", "L"))
            self.cockpit.warn(text.rstrip("."))

    def action_fix(self) -> None:
        """Show what the diagnosis would change of the command; Enter starts it."""
        fix = _fix_of(self._last) if self._last is not None else None
        if self._last is not None and fix is not None:
            self.cockpit.ask_fix(self._last.record, fix)

    def action_back(self) -> None:
        """To the catalog; the server goes on."""
        self.app.pop_screen()


def _fix_of(seen: Observation) -> Fix | None:
    return usable_fix(seen.diagnosis, seen.record.platform)


def _other_name(record: InstanceRecord) -> str:
    """The instance's name where the slug does not give it away, else what the server calls the model."""
    return record.name if record.name != record.slug.replace("/", "-") else record.served_model_name
