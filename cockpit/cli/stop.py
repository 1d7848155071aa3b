"""`cockpit stop NAME`: stop one server and see that nothing of it is left."""

from __future__ import annotations

import argparse

from cockpit.cli.options import verb
from cockpit.cli.output import emit, say, tell


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = verb(verbs, "stop", "stop a server and wait until nothing of it is left", run)
    parser.add_argument("name", metavar="NAME", help="the instance, or its slug")


def run(arguments: argparse.Namespace) -> int:
    """Stop; exit 0 when nothing is left, 1 when something withstood."""
    from cockpit.session import Session

    result = Session().stop(arguments.name, tell)
    if arguments.json:
        emit(
            {
                "instance": result.instance,
                "stopped": result.stopped,
                "seconds": round(result.seconds, 3),
                "orphans": result.orphans,
                "gpu_bytes_freed": result.gpu_bytes_freed,
            }
        )
    elif result.stopped:
        say(f"{result.instance} stopped after {result.seconds:.1f} s")
    else:
        tell(f"cockpit: {result.instance} left processes that cannot be ended: {list(result.orphans)}.")
    return 0 if result.stopped else 1
