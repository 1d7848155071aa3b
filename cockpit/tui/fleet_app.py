"""The part of the application that knows the servers: it looks at them, stops them, and asks before it leaves."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING

from textual.app import App
from textual.reactive import reactive
from textual.worker import get_current_worker

from cockpit.errors import CockpitError
from cockpit.shelf import Shelf
from cockpit.tui.content import printable
from cockpit.tui.screens.base import CockpitScreen
from cockpit.tui.workers import cancelled, run_in_thread, sleep, tell

if TYPE_CHECKING:
    from cockpit.fleet import InstanceView
    from cockpit.session import Session
    from cockpit.supervisor.others import Other
    from cockpit.telemetry.frame import State

_INSTANCES_EVERY_SECONDS = 1.0
_OTHERS_EVERY_SECONDS = 5.0


class FleetApp(App[None]):
    """Long work belongs to the app, so that it outlives the screen that asked for it."""

    instances: reactive[tuple[InstanceView, ...]] = reactive(())
    others: reactive[tuple[Other, ...]] = reactive(())
    """Servers of this host that no record holds, and orphans."""

    def __init__(self, session: Session | None = None) -> None:
        super().__init__()
        self._session = session
        self._states_seen: set[tuple[str, State]] | None = None
        """Of every instance, by name; None before the first look."""
        self._shelf = Shelf() if session is None else session
        self._session_lock = threading.Lock()

    @property
    def session(self) -> Session:
        """The seam to everything below; the modules behind it load at the first use, after the first frame."""
        with self._session_lock:
            if self._session is None:
                from cockpit.session import Session

                session = Session(self._shelf.config)
                session.take_over(self._shelf)
                self._session = session
            return self._session

    @property
    def shelf(self) -> Shelf:
        """The session, or the part of it that is there before."""
        return self._shelf if self._session is None else self._session

    def look_at_servers(self) -> None:
        """Begin to look, as long as the app lives."""
        run_in_thread(self, self._poll_instances, "instances", self.warn)
        run_in_thread(self, self._poll_others, "others", self.warn)

    # Instances

    def _poll_instances(self) -> None:
        """In a thread: the records and their states, once a second, as long as the app lives."""
        worker = get_current_worker()
        told: set[str] = set()
        while not cancelled(worker):
            try:
                views, problems = self.session.instances()
                tell(self, self._have_instances, tuple(views), [text for text in problems if text not in told])
            except CockpitError as error:
                # A full disk, say: told once, and looked at again as long as the app lives.
                problems = [error.sentence()]
                if problems[0] not in told:
                    tell(self, self.warn, problems[0])
            told.update(problems)
            sleep(_INSTANCES_EVERY_SECONDS)

    def _have_instances(self, views: tuple[InstanceView, ...], problems: list[str]) -> None:
        died = {view.record.name for view in views if view.state == "dead"}
        before = {view.record.name for view in self.instances if view.state != "dead"}
        self.instances = views
        states = {(view.record.name, view.state) for view in views}
        if self._states_seen is not None and states != self._states_seen:
            self.memory_changed()
        self._states_seen = states
        for problem in problems:
            self.warn(problem)
        for name in sorted(died & before):
            if getattr(self.screen, "instance_name", None) != name:
                self.warn(f"{name} died", "Its screen (i) says how.")

    def memory_changed(self) -> None:
        """Servers use other memory than at the last look: for subclasses to act on."""

    def _poll_others(self) -> None:
        """In a thread: what else serves on this host, every few seconds, as long as the app lives."""
        worker = get_current_worker()
        told: set[str] = set()
        while not cancelled(worker):
            try:
                others, problems = self.session.others()
                tell(self, self._have_others, tuple(others), [text for text in problems if text not in told])
            except CockpitError as error:
                problems = [error.sentence()]
                if problems[0] not in told:
                    tell(self, self.warn, problems[0])
            told.update(problems)
            sleep(_OTHERS_EVERY_SECONDS)

    def _have_others(self, others: tuple[Other, ...], problems: list[str]) -> None:
        self.others = others
        for problem in problems:
            self.warn(problem)

    def state_of(self, slug: str) -> State | None:
        """What the newest instance of a slug is doing; None when there is none."""
        states = [view.state for view in self.instances if view.record.slug == slug]
        return states[-1] if states else None

    def live_names(self) -> list[str]:
        """Instances with a running server."""
        return [view.record.name for view in self.instances if view.state != "dead"]

    # Stopping and leaving

    def ask_stop_slug(self, slug: str) -> None:
        """Stop the newest instance of a slug; asks first."""
        for view in reversed(self.instances):
            if view.record.slug == slug:
                self.ask_stop(view.record.name)
                return
        self.inform(f"{slug} is not being served")

    def ask_stop(self, name: str) -> None:
        """Stop one instance; asks first unless it is dead."""
        view = next((view for view in self.instances if view.record.name == name), None)
        if view is not None and view.state == "dead":
            self.stop_instance(name)
            return
        other = next((other for other in self.others if other.name == name), None)
        if view is None and other is not None:
            self._ask_stop_other(other)
            return
        from cockpit.tui.screens.dialogs import stop_question

        url = view.record.url if view is not None else ""
        self.push_screen(
            stop_question(name, f"Requests in flight at {url} are cut off."),
            lambda answer: self.stop_instance(name) if answer == "stop" else None,
        )

    def _ask_stop_other(self, other: Other) -> None:
        """What no cockpit started is stopped only after a question that names it."""
        if other.pid is None:
            self.warn(f"{other.name} runs elsewhere, at {other.url}", "Stop it there.")
            return
        from cockpit.tui.screens.dialogs import other_stop_question

        self.push_screen(
            other_stop_question(other),
            lambda answer: self.stop_instance(other.name, other.pid) if answer == "stop" else None,
        )

    def stop_instance(self, name: str, foreign_pid: int | None = None) -> None:
        """Stop in the background, saying each step."""
        run_in_thread(self, lambda: self._stop_one(name, foreign_pid), f"stop-{name}", self.warn)

    def _stop_one(self, name: str, foreign_pid: int | None) -> None:
        self._stop(name, foreign_pid)

    def _stop(self, name: str, foreign_pid: int | None = None) -> bool:
        """In a thread: whether nothing is left. What it tells never waits for the screen, which may be closing."""
        views = self.instances
        dead = next((view for view in views if view.record.name == name and view.state == "dead"), None)
        result = self.session.stop(name, partial(self._tell_step, name), foreign_pid)
        if result.stopped and dead is not None:
            tell(self, self.inform, f"{name} is cleared away; its log stays: {dead.record.log}")
        elif result.stopped:
            tell(self, self.inform, f"{name} stopped after {result.seconds:.1f} s, nothing is left of it")
        else:
            left = ", ".join(str(pid) for pid in result.orphans)
            tell(self, self.warn, f"{name} left processes that cannot be ended: {left}")
        return result.stopped

    def _tell_step(self, name: str, step: str) -> None:
        tell(self, self._stop_step, name, step)

    def _stop_step(self, name: str, step: str) -> None:
        if self.screen_stack and isinstance(self.screen, CockpitScreen):
            self.screen.show_step(name, step)

    def action_quit_asking(self) -> None:
        """Leave; asks what becomes of running servers, also of one that started since the last look."""
        run_in_thread(self, self._look_and_quit, "quit", self.warn, exclusive=True)

    def _look_and_quit(self) -> None:
        try:
            views = tuple(self.session.instances()[0])
        except CockpitError:
            # A state folder that broke meanwhile must not keep anyone in: what was last seen serves.
            views = self.instances
        tell(self, self._quit_knowing, views)

    def _quit_knowing(self, views: tuple[InstanceView, ...]) -> None:
        from cockpit.tui.screens.dialogs import Question, quit_question

        if isinstance(self.screen, Question):
            return
        self._have_instances(views, [])
        names = self.live_names()
        if not names:
            self.exit()
            return
        self.push_screen(quit_question(names), lambda answer: self._quit_answer(answer, names))

    def _quit_answer(self, answer: str | None, names: list[str]) -> None:
        if answer == "leave":
            self.exit()
        elif answer == "stop":
            self.inform(f"stopping {', '.join(names)}…")
            run_in_thread(self, lambda: self._stop_all(names), "stop-all", self.warn)

    def _stop_all(self, names: list[str]) -> None:
        """Each on its own; the app ends when nothing is left, and stays to say what is."""
        clean = True
        for name in names:
            try:
                clean = self._stop(name) and clean
            except CockpitError as error:
                # Gone already is what was asked for; anything else is told.
                clean = clean and not self.session.is_on_record(name)
                tell(self, self.warn, error.title, error.fix)
        if clean:
            self.call_later(self.exit)

    # Telling

    def inform(self, text: str) -> None:
        """A toast."""
        self.notify(printable(text), markup=False, timeout=4)

    def warn(self, title: str, fix: str = "") -> None:
        """A toast that stays longer."""
        self.notify(printable(f"{title}. {fix}".strip()), severity="warning", markup=False, timeout=10)
