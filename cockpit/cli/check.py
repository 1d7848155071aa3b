"""`cockpit check SLUG`: every toggle's state and reason, and what stands against the plan."""

from __future__ import annotations

import argparse

from cockpit.cli.options import plan_options, rig_option, session_of, verb
from cockpit.cli.output import emit, say, table


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
            "offered" if state.state == "offered" else f"blocked: {state.reason}",
        ]
        for name, state in check.toggles.items()
    ]
    table(["TOGGLE", "VALUE", "STATE"], rows)
    for finding in check.findings:
        say(describe(finding))
    return 2 if blocked else 0
