"""`cockpit check SLUG`: every toggle's state and reason, and what stands against the plan."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from cockpit.cli.options import plan_options, rig_option, session_of, verb
from cockpit.cli.output import emit, prose_table, say

if TYPE_CHECKING:
    from cockpit.rules.finding import ToggleState


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = verb(verbs, "check", "say what a slug may do here, and why not the rest", run)
    plan_options(parser)
    rig_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print states and findings; exit 2 when a finding blocks the plan."""
    from cockpit.cli.shapes import finding_json, toggles_json
    from cockpit.launch.plan import parse_settings
    from cockpit.launch.toggles import BY_ID
    from cockpit.session import describe

    check = session_of(arguments).check(arguments.slug, parse_settings(arguments.settings), arguments.engine)
    blocked = any(finding.severity == "block" for finding in check.findings)
    if arguments.json:
        emit(
            {
                "slug": check.slug,
                "toggles": toggles_json(check.toggles, check.values),
                "findings": [finding_json(finding) for finding in check.findings],
            }
        )
        return 2 if blocked else 0
    say(check.slug)
    rows = [
        [
            BY_ID[name].label,
            BY_ID[name].kind.show(check.values[name]),
            _state_text(state),
        ]
        for name, state in check.toggles.items()
    ]
    prose_table(["TOGGLE", "VALUE", "STATE"], rows)
    for finding in check.findings:
        say(describe(finding))
    return 2 if blocked else 0


def _state_text(state: ToggleState) -> str:
    """Whether a toggle is offered; if not, why, and what would change that."""
    if state.state == "offered":
        return "offered"
    return f"blocked: {state.reason}" + (f". {state.fix}" if state.fix else "")
