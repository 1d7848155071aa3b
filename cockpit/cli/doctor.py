"""`cockpit doctor`: one line for each thing of this host that a server needs, with what to do."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from cockpit.cli.options import verb
from cockpit.cli.output import emit, say

if TYPE_CHECKING:
    from cockpit.rig.check_types import Check, Examined
    from cockpit.session import Session

_GLYPHS = {"ok": "✓", "warn": "⚠", "fail": "✕"}


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    verb(verbs, "doctor", "check driver, GPUs, engines and this host, and say what to do", run)


def run(arguments: argparse.Namespace) -> int:
    """Print the checks; exit 1 when one fails."""
    from cockpit.rig.checks import run_checks
    from cockpit.session import Session

    checks = run_checks(_examine(Session()))
    if arguments.json:
        emit(checks)
    else:
        for check in checks:
            say(_line(check))
    return 1 if any(check.status == "fail" for check in checks) else 0


def _line(check: Check) -> str:
    """One check as one line."""
    fix = f" {check.fix}" if check.fix else ""
    return f"{_GLYPHS[check.status]} {check.check}: {check.message.rstrip('.')}.{fix}".replace("\n", " ")


def _examine(session: Session) -> Examined:
    """Gather what the checks read."""
    from cockpit.rig.check_types import Examined
    from cockpit.rig.facts import read_facts
    from cockpit.rig.leftovers import find_settled_leftovers

    instances = _instance_pids()
    return Examined(
        rig=session.rig,
        facts=read_facts(session.environ),
        environ=session.environ,
        engines=session.engines,
        engine_problems=session.engine_problems,
        leftovers=find_settled_leftovers(),
        instances=instances,
    )


def _instance_pids() -> dict[int, str]:
    """The processes of the instances on record that still run, by pid; one given out again does not count."""
    from cockpit.supervisor import store
    from cockpit.supervisor.process import is_alive

    found: dict[int, str] = {}
    for record in store.load_all()[0]:
        for one in (record.process, *record.descendants):
            if one is not None and is_alive(one):
                found[one.pid] = record.name
    return found
