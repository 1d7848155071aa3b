"""`cockpit ps`: every server on record."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

from cockpit.cli.options import verb
from cockpit.cli.output import emit, say, table, tell
from cockpit.cli.serve import expected_boot_seconds
from cockpit.units import UNKNOWN, duration

if TYPE_CHECKING:
    from cockpit.session import InstanceView


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    verb(verbs, "ps", "list the servers on record", run)


def instance_json(view: InstanceView) -> dict[str, Any]:
    """One row of `cockpit ps`."""
    record = view.record
    return {
        "instance": record.name,
        "slug": record.slug,
        "model": record.served_model_name,
        "pid": record.process.pid if record.process else None,
        "state": view.state,
        "url": record.url,
        "started_at": record.created_at,
        "ready_at": record.ready_at,
        "expected_boot_seconds": expected_boot_seconds(record),
        "exit_code": record.exit_code,
        "gpus": record.gpus,
        "log": record.log,
    }


def run(arguments: argparse.Namespace) -> int:
    """Print the instances, dead ones included until they are stopped or started again."""
    from cockpit.session import Session

    views, problems = Session().instances()
    for problem in problems:
        tell(f"⚠ {problem}")
    if arguments.json:
        emit([instance_json(view) for view in views])
        return 0
    if not views:
        say("Nothing is served. `cockpit slugs` lists what could be.")
        return 0
    now = time.time()
    rows = [
        [
            view.record.name,
            view.record.slug,
            view.state,
            str(view.record.process.pid) if view.record.process else UNKNOWN,
            view.record.url,
            duration((view.record.ended_at or now) - view.record.created_at),
        ]
        for view in views
    ]
    table(["INSTANCE", "SLUG", "STATE", "PID", "URL", "UP"], rows, right=(3,))
    return 0
