"""The application: what it knows, which screens there are, and how it ends."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import SystemCommand
from textual.binding import BindingType
from textual.reactive import reactive
from textual.screen import Screen
from textual.worker import get_current_worker

from cockpit.errors import CockpitError
from cockpit.tui.commands import EVERYWHERE, bindings, commands_for
from cockpit.tui.fix_app import FixApp
from cockpit.tui.heap import share_one_heap
from cockpit.tui.keymap import check_keymap
from cockpit.tui.screens.base import CockpitScreen
from cockpit.tui.screens.catalog import CatalogScreen
from cockpit.tui.signals import catch_signals
from cockpit.tui.themes import DEFAULT_THEME, load_themes
from cockpit.tui.workers import make_room, run_in_thread, tell

if TYPE_CHECKING:
    from cockpit.bench.load import Load
    from cockpit.catalog.load import Entry
    from cockpit.launch.best import Candidate
    from cockpit.launch.plan import Facts
    from cockpit.rig.types import Engine, Rig
    from cockpit.session import Session
    from cockpit.supervisor.record import InstanceRecord
    from cockpit.tape import Replay
    from cockpit.this_host import ThisHost
    from cockpit.tui.flag_asker import FlagAsker

_SETTLED_SECONDS = 2.0
"""After the first frame, when the modules of the threads are loaded too."""
_SHEETS = ("base", "catalog", "card", "instance", "instances", "fleet", "dialogs")


class CockpitApp(FixApp):
    """One screen at a time; long work belongs to the app, so that it outlives the screen that asked for it."""

    TITLE = "cockpit"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(EVERYWHERE)]
    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012 - Textual declares it as an instance variable
        (0, "-narrow"),
        (110, "-wide"),
    ]
    CSS_PATH: ClassVar[list[str]] = [f"screens/{name}.tcss" for name in _SHEETS]  # type: ignore[assignment]

    rig: reactive[Rig | None] = reactive(None)
    engines: reactive[tuple[Engine, ...] | None] = reactive(None)
    judged: reactive[dict[str, Candidate]] = reactive({})
    """By slug: whether it fits this rig; computed after the first frame, again when the facts are read again."""

    def __init__(
        self,
        session: Session | None = None,
        demo_slug: str | None = None,
        show_clock: bool = True,
        replay: Replay | None = None,
        fleet_urls: Sequence[str] = (),
        window_seconds: float | None = None,
    ) -> None:
        super().__init__(session)
        self.show_clock = show_clock
        self._demo_slug = demo_slug
        self._replay = replay
        self._fleet_urls = tuple(fleet_urls)
        self._window_seconds = window_seconds
        """Of the fleet's figures, where another one than usual was asked for."""
        self._load: Load | None = None
        self._load_name = ""
        self._restore_signals: Callable[[], None] = lambda: None
        check_keymap(self.shelf.config.keys)
        self._theme_problems = self._choose_theme(self.shelf.config.theme)

    # Start

    def get_default_screen(self) -> Screen[None]:
        """Home."""
        return CatalogScreen()

    def _choose_theme(self, wanted: str) -> list[str]:
        """Before the style sheets are parsed, so that this happens once; what is wrong with the themes."""
        themes, problems = load_themes()
        for theme in themes:
            self.register_theme(theme)
        self.theme = wanted if wanted in self.available_themes else DEFAULT_THEME
        self._colours = self.get_css_variables()
        self.stylesheet.set_variables(self._colours)
        if wanted not in self.available_themes:
            problems.append(f"there is no theme named {wanted}; {DEFAULT_THEME} is used")
        return problems

    def refresh_css(self, animate: bool = True) -> None:
        """Textual asks for this at every start: only other colours need it."""
        colours = self.get_css_variables()
        if colours != self._colours:
            self._colours = colours
            super().refresh_css(animate)

    def on_mount(self) -> None:
        """Keys, signals, and, after the first frame, the background looks."""
        make_room()
        self.set_keymap(self.shelf.config.keys)
        for problem in self._theme_problems:
            self.warn(problem)
        self._restore_signals = catch_signals(self.exit)
        if self._replay is not None:
            self._show_replay(self._replay)
        if self._fleet_urls:
            self._show_fleet(self._fleet_urls)
        self.call_after_refresh(self._after_first_frame)

    def _after_first_frame(self) -> None:
        """Threads and their imports would only have delayed it."""
        share_one_heap()
        self.set_timer(_SETTLED_SECONDS, self._keep_what_is_there)
        self.gather_facts()
        self.look_at_servers()
        if self._demo_slug is not None:
            run_in_thread(self, self._start_demo, "demo", self.warn)

    def _keep_what_is_there(self) -> None:
        """What is loaded by now stays for good: a collection need not look at it; what is garbage goes before."""
        gc.collect()
        gc.freeze()
        gc.enable()

    def _show_replay(self, replay: Replay) -> None:
        from cockpit.tui.screens.instance import InstanceScreen

        self.push_screen(InstanceScreen(replay.name, replay))

    @cached_property
    def flags(self) -> FlagAsker:
        """Asks engines which flags they take."""
        from cockpit.tui.flag_asker import FlagAsker

        return FlagAsker()

    def gather_facts(self, again: bool = False) -> None:
        """Read the rig and the engines in the background."""
        run_in_thread(self, lambda: self._gather(again), "facts", self.warn, exclusive=True)

    def _gather(self, again: bool) -> None:
        if again:
            self.session.refresh()
        rig, engines = self.session.rig, self.session.engines
        for entry in self.session.catalog.entries:
            self.session.checkpoint_of(entry)
        tell(self, self._have_facts, rig, engines)
        self._judge()

    def _judge(self) -> None:
        """In the same thread: a forecast of every slug; a slug without one stays at its dots."""
        judged: dict[str, Candidate] = {}
        host = self.session.this_host()
        for entry in self.session.catalog.entries:
            if get_current_worker().is_cancelled:
                return
            judged[entry.slug.name] = self.session.judge(entry, host)
        tell(self, self._have_judged, judged)
        self._ask_for_doubtful_flags(host)

    def _ask_for_doubtful_flags(self, host: ThisHost) -> None:
        """What a slug's flags are worth to a vLLM that was not asked yet is known some ten seconds later."""
        from cockpit.launch.flag_facts import doubted

        for engine in doubted(self.session.engines, self.session.catalog.entries, host.flags):
            self.flags.ask(engine, lambda: tell(self, self.memory_changed))

    def memory_changed(self) -> None:
        """A server came, got ready or went: what is free is read again, and what fits with it."""
        if self.engines is not None:
            run_in_thread(self, self._look_again, "facts", self.warn, exclusive=True)

    def _look_again(self) -> None:
        self.session.look_at_rig_again()
        tell(self, self._have_facts, self.session.rig, self.session.engines)
        self._judge()

    def _have_judged(self, judged: dict[str, Candidate]) -> None:
        self.judged = judged

    def _have_facts(self, rig: Rig, engines: tuple[Engine, ...]) -> None:
        self.rig, self.engines = rig, engines
        if isinstance(self.screen, CatalogScreen):
            self.screen.rebuild()

    def display_facts(self, entry: Entry) -> Facts:
        """What is known without waiting, for drawing; never for launching."""
        from cockpit.launch.plan import Facts
        from cockpit.rig.types import Rig

        suitable = [engine for engine in self.engines or () if engine.platform == entry.slug.platform]
        answer = self.session.known_checkpoint(entry)
        return Facts(
            rig=self.rig or Rig(),
            checkpoint=answer.checkpoint,
            checkpoint_problem=answer.problem,
            engine=suitable[0] if suitable else None,
            environ={},
            free_port=8000,
            cwd="/",
        )

    # Navigation

    def open_slug(self, entry: Entry) -> None:
        """The card, or the instance when the slug is on record."""
        for view in reversed(self.instances):
            if view.record.slug == entry.slug.name:
                self.show_instance(view.record.name)
                return
        from cockpit.tui.screens.card import CardScreen

        self.push_screen(CardScreen(entry))

    def open_card_again(self, record: InstanceRecord) -> None:
        """The card with the values that a dead server had."""
        try:
            entry = self.session.catalog.get(record.slug)
        except CockpitError as error:
            self.warn(error.title, error.fix)
            return
        from cockpit.supervisor.again import chosen_of
        from cockpit.tui.screens.card import CardScreen

        self.switch_screen(CardScreen(entry, chosen_of(record, entry.slug)))

    def action_show_instances(self) -> None:
        """The list of servers; it and an instance's screen take turns, so that going round does not pile them up."""
        from cockpit.tui.screens.instance import InstanceScreen
        from cockpit.tui.screens.instances import InstancesScreen

        if isinstance(self.screen, InstanceScreen):
            self.switch_screen(InstancesScreen())
        elif not isinstance(self.screen, InstancesScreen):
            self.push_screen(InstancesScreen())

    def action_show_fleet(self) -> None:
        """All servers with their figures; where that screen lies below this one, back to it."""
        from cockpit.tui.screens.fleet import FleetScreen
        from cockpit.tui.screens.instances import InstancesScreen

        if any(isinstance(screen, FleetScreen) for screen in self.screen_stack):
            while not isinstance(self.screen, FleetScreen):
                self.pop_screen()
        else:
            self._show_fleet(replace=isinstance(self.screen, InstancesScreen))

    def _show_fleet(self, urls: Sequence[str] = (), replace: bool = False) -> None:
        from cockpit.api_key import find_api_key
        from cockpit.fleet_watch import FleetWatch
        from cockpit.telemetry.sampler import WINDOW_SECONDS
        from cockpit.tui.screens.fleet import FleetScreen

        try:
            key = find_api_key(self.session.environ)
        except CockpitError as error:
            self.warn(error.title, error.fix)
            return
        watch = FleetWatch(key, self._window_seconds or WINDOW_SECONDS, self.shelf.config.refresh_seconds)
        (self.switch_screen if replace else self.push_screen)(FleetScreen(watch, urls))

    def action_show_help(self) -> None:
        """The keys of this screen."""
        if isinstance(self.screen, CockpitScreen):
            from cockpit.tui.screens.dialogs import HelpScreen

            self.push_screen(HelpScreen(self.screen.COMMANDS_OF, self.shelf.config.keys))

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """The palette: this screen's commands, from the same table as the keys."""
        if isinstance(screen, CockpitScreen):
            for command in commands_for(screen.COMMANDS_OF):
                if command.palette:
                    yield SystemCommand(command.label, command.help, self._runner(screen, command.action))
        yield SystemCommand("theme", "Choose the colours.", self.action_change_theme)

    def _runner(self, screen: Screen[Any], action: str) -> Callable[[], None]:
        def run() -> None:
            namespace: Any = screen if hasattr(screen, f"action_{action}") else self
            self.call_later(self.run_action, action, namespace)

        return run

    def watch_instances(self) -> None:
        """The demo's requests end with its server."""
        if self._load is not None and self._load_name not in self.live_names():
            self._load.stop(timeout_seconds=0.0)
            self._load = None

    def on_unmount(self) -> None:
        """End the demo's requests; servers go on."""
        self._restore_signals()
        if self._load is not None:
            self._load.stop(timeout_seconds=0.0)

    # The demo

    def _start_demo(self) -> None:
        """In a thread: serve the demo's slug unless it is served already, show it, send it requests once ready."""
        from cockpit.api_key import find_api_key
        from cockpit.bench.load import Load
        from cockpit.supervisor.boot_watch import wait_ready

        slug = self._demo_slug or ""
        view = next((view for view in self.session.instances()[0] if view.record.slug == slug), None)
        if view is not None and view.state in ("ready", "starting"):
            running = self.session.running(view.record.name)
        else:
            running = self.session.start(self.session.plan(slug, {}))
        tell(self, self.show_instance, running.record.name)
        ready = False
        for progress in wait_ready(running):
            ready = progress.life == "ready"
            if get_current_worker().is_cancelled:
                return
        if ready:
            self._load_name = running.record.name
            key = find_api_key(self.session.environ)
            self._load = Load(running.record.url, running.record.served_model_name, api_key=key)
            self._load.start()

    # The end

    def _fatal_error(self) -> None:
        """A bug: Textual would print a traceback with local variables; ``run_app`` raises it to the one guard."""
        self._close_messages_no_wait()

    @property
    def bug(self) -> Exception | None:
        """The exception that ended the app."""
        return self._exception


def run_app(
    session: Session | None = None,
    demo_slug: str | None = None,
    replay: Replay | None = None,
    fleet_urls: Sequence[str] = (),
    window_seconds: float | None = None,
) -> int:
    """Open the screen and return the exit code; raises the bug that ended it, if one did."""
    app = CockpitApp(session, demo_slug, replay=replay, fleet_urls=fleet_urls, window_seconds=window_seconds)
    app.run()
    if app.bug is not None:
        raise app.bug
    names = app.live_names()
    if names:
        with contextlib.suppress(OSError):  # the terminal may be gone
            print(
                f"Still running: {', '.join(names)}. `cockpit` shows them, `cockpit stop NAME` ends one.", flush=True
            )
    return app.return_code or 0
