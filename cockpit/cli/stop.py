"""`cockpit stop NAME`: stop one server and see that nothing of it is left."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from cockpit.cli.options import verb
from cockpit.cli.output import emit, say, tell
from cockpit.errors import CockpitError

if TYPE_CHECKING:
    from cockpit.supervisor.stop import StopResult


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = verb(verbs, "stop", "stop a server and wait until nothing of it is left", run)
    parser.add_argument("name", nargs="?", metavar="NAME", help="the instance, or its slug; see `cockpit ps`")
    parser.add_argument(
        "--orphans",
        action="store_true",
        help="end every engine and worker whose server is gone, and unlink the shared memory of dead servers",
    )
    parser.add_argument(
        "--foreign",
        type=int,
        metavar="PID",
        help="stop NAME although no cockpit started it, when PID is its process",
    )


def run(arguments: argparse.Namespace) -> int:
    """Stop; exit 0 when nothing is left, 1 when something withstood."""
    from cockpit.session import Session
    from cockpit.supervisor.process import members_of
    from cockpit.supervisor.shared_memory import leftovers

    session = Session()
    if (arguments.name is None) != arguments.orphans:
        raise CockpitError("stop needs one thing to stop", fix="Give a NAME (`cockpit ps`), or --orphans alone.")
    if not arguments.orphans:
        result = session.stop(arguments.name, tell, arguments.foreign)
        if arguments.json:
            emit(_json(result))
        return _report(result, arguments.json)
    names = [one.name for one in session.others()[0] if one.kind == "orphans"]
    dead = [view.record for view in session.instances()[0] if view.state == "dead"]
    names += [record.name for record in dead if members_of(record) or leftovers(record.segments)]
    results = [session.stop(name, tell) for name in names]
    if arguments.json:
        emit([_json(result) for result in results])
    elif not results:
        say("No server has left anything behind.")
    return max((_report(result, arguments.json) for result in results), default=0)


def _report(result: StopResult, quiet: bool) -> int:
    if not result.stopped:
        tell(f"cockpit: {result.instance} left processes that cannot be ended: {list(result.orphans)}.")
        return 1
    if not quiet:
        say(_sentence(result))
    return 0


def _sentence(result: StopResult) -> str:
    """What was done: a dead server is not stopped, what it left is cleared away."""
    if not result.was_dead:
        return f"{result.instance} stopped after {result.seconds:.1f} s"
    cleared = ["its record"]
    if result.left_processes:
        cleared.append("1 process" if result.left_processes == 1 else f"{result.left_processes} processes")
    if result.segments_removed:
        plural = "" if result.segments_removed == 1 else "s"
        cleared.append(f"{result.segments_removed} segment{plural} of shared memory")
    text = f"{result.instance} was dead already; cleared away: {', '.join(cleared)}."
    return f"{text} Its log stays: {result.log}" if result.log else text


def _json(result: StopResult) -> dict[str, Any]:
    return {
        "instance": result.instance,
        "stopped": result.stopped,
        "was_dead": result.was_dead,
        "seconds": round(result.seconds, 3),
        "orphans": result.orphans,
        "segments_removed": result.segments_removed,
        "gpu_bytes_freed": result.gpu_bytes_freed,
    }
