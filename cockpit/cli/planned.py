"""The plan that `cockpit plan` shows and `cockpit serve` starts."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from cockpit.cli.output import tell

if TYPE_CHECKING:
    from cockpit.launch.types import LaunchPlan
    from cockpit.rules.finding import Finding
    from cockpit.session import Session


def planned(session: Session, arguments: argparse.Namespace) -> tuple[LaunchPlan, tuple[Finding, ...]]:
    """The plan, and a finding when the engine does not say which flags it takes.

    It is asked only where a flag of the slug is in doubt.
    """
    from cockpit.launch.flag_facts import asked_for_flags, wants_flags
    from cockpit.launch.plan import parse_settings

    settings = parse_settings(arguments.settings)
    entry = session.catalog.get(arguments.slug)
    facts = session.facts(entry, arguments.engine)
    silent: tuple[Finding, ...] = ()
    if facts.engine is not None and wants_flags(entry.slug, facts):
        tell(f"Asking vLLM {facts.engine.version} once which flags it takes, some 15 s…")
        facts, silent = asked_for_flags(facts)
    return session.plan_entry(entry, settings, facts), silent
