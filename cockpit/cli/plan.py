"""`cockpit plan SLUG`: the exact command and environment, started by nobody, and whether it will fit."""

from __future__ import annotations

import argparse

from cockpit.cli.options import plan_options, rig_option, session_of, verb
from cockpit.cli.output import emit, say, tell
from cockpit.cli.planned import planned


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = verb(verbs, "plan", "show the exact command and environment of a slug", run)
    plan_options(parser)
    rig_option(parser)
    parser.add_argument("--force", action="store_true", help="pass what only this rig stands against")


def run(arguments: argparse.Namespace) -> int:
    """Print the plan; exit 2 with the reasons when it would be refused."""
    import msgspec

    from cockpit.cli.forecast_text import forecast_lines
    from cockpit.cli.shapes import plan_json
    from cockpit.launch.render import shell_command
    from cockpit.rules.plan_rules import blocks_first, refusals
    from cockpit.session import describe

    plan, silent = planned(session_of(arguments), arguments)
    plan = msgspec.structs.replace(plan, findings=blocks_first((*plan.findings, *silent)))
    refused = bool(refusals(plan.findings, arguments.force))
    if arguments.json:
        emit(plan_json(plan))
    else:
        say(shell_command(plan))
        for finding in plan.findings:
            tell(describe(finding))
        # Standard output stays the command alone, for those who pipe it.
        for line in forecast_lines(plan.forecast, plan.values["max_model_len"]) if plan.forecast else ():
            tell(line)
    return 2 if refused else 0
