"""The part of the application that shows one server, and starts a dead one again with a fix of its diagnosis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cockpit.errors import CockpitError
from cockpit.tui.fleet_app import FleetApp
from cockpit.tui.workers import run_in_thread, tell

if TYPE_CHECKING:
    from cockpit.launch.types import LaunchPlan
    from cockpit.supervisor.diagnose.types import Fix
    from cockpit.supervisor.record import InstanceRecord


class FixApp(FleetApp):
    """A fix starts nothing before its changed command was on the screen."""

    def show_instance(self, name: str, replace: bool = False) -> None:
        """The instance's screen, on top of this one or instead of it."""
        from cockpit.tui.screens.instance import InstanceScreen

        try:
            screen = InstanceScreen(name, self.session.watch(name))
        except CockpitError as error:
            self.warn(error.title, error.fix)
            return
        if replace:
            self.switch_screen(screen)
        else:
            self.push_screen(screen)

    def show_url(self, url: str) -> None:
        """The live figures of a server that is known by its URL alone, on top of this screen."""
        from cockpit.api_key import find_api_key
        from cockpit.fleet_watch import place_of
        from cockpit.tui.screens.instance import InstanceScreen
        from cockpit.watch import watch_url

        try:
            watch = watch_url(url, find_api_key(self.session.environ))
        except CockpitError as error:
            self.warn(error.title, error.fix)
            return
        self.push_screen(InstanceScreen(place_of(url), watch, on_record=False))

    def words_of_fix(self, record: InstanceRecord, fix: Fix) -> str | None:
        """What a fix sets, for the line that offers it; None when the slug is gone."""
        from cockpit.supervisor.again import fix_words

        try:
            return fix_words(fix, self.session.catalog.get(record.slug).slug)
        except CockpitError:
            return None

    def ask_fix(self, record: InstanceRecord, fix: Fix) -> None:
        """Plan in the background, then show the old and the new of the command."""
        run_in_thread(self, lambda: self._plan_fix(record, fix), "fix", self.warn, exclusive=True)

    def _plan_fix(self, record: InstanceRecord, fix: Fix) -> None:
        plan = self.session.plan_again(record, fix)
        tell(self, self._show_fix, record, fix, plan)

    def _show_fix(self, record: InstanceRecord, fix: Fix, plan: LaunchPlan) -> None:
        if getattr(self.screen, "instance_name", None) != record.name:
            return
        from cockpit.session import describe
        from cockpit.supervisor.again import command_changes
        from cockpit.tui.screens.dialogs import FixQuestion

        against = [describe(finding) for finding in plan.findings if finding.severity == "block"]
        question = FixQuestion(record.name, fix.text, command_changes(record, plan), against)
        self.push_screen(question, lambda answer: self._answered(answer, plan))

    def _answered(self, answer: str | None, plan: LaunchPlan) -> None:
        if answer == "start":
            run_in_thread(self, lambda: self._start_fixed(plan), "fix", self.warn, exclusive=True)

    def _start_fixed(self, plan: LaunchPlan) -> None:
        name = self.session.start(plan).record.name
        tell(self, self._fixed_is_starting, name)

    def _fixed_is_starting(self, name: str) -> None:
        """Its boot takes the dead one's place on the screen."""
        self.show_instance(name, replace=hasattr(self.screen, "instance_name"))
