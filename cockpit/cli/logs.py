"""`cockpit logs NAME`: the log of an instance, cleaned of control characters."""

from __future__ import annotations

import argparse
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

from cockpit.cli.options import verb
from cockpit.cli.output import emit, say
from cockpit.supervisor.log_bounds import bound
from cockpit.supervisor.logfile import Tail, last_lines, refuse_no_log

if TYPE_CHECKING:
    from cockpit.supervisor.spawn import Running

_MOST_LINES = 1_000_000


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = verb(verbs, "logs", "print the log of an instance", run)
    parser.add_argument("name", metavar="NAME", help="the instance, or its slug")
    parser.add_argument("-f", "--follow", action="store_true", help="go on as lines come, until the server ends")
    parser.add_argument("-n", "--lines", type=int, default=50, metavar="N", help="how many lines, 50 unless given")


def run(arguments: argparse.Namespace) -> int:
    """Print the last lines; with -f also those to come."""
    from cockpit.errors import CockpitError
    from cockpit.session import Session

    if not 0 <= arguments.lines <= _MOST_LINES:
        raise CockpitError("-n takes a number of lines", fix=f"Use 0 to {_MOST_LINES:,}.")
    if arguments.follow and arguments.json:
        raise CockpitError("--json prints one value, -f never ends", fix="Use one of them.")
    running = Session().running(arguments.name)
    path = running.record.log
    refuse_no_log(path)
    if arguments.follow:
        return _follow(running, arguments.lines)
    lines = last_lines(path, arguments.lines)
    if arguments.json:
        emit({"instance": running.record.name, "log": path, "lines": lines})
        return 0
    for line in lines:
        say(line)
    return 0


def _follow(running: Running, count: int) -> int:
    """The last ``count`` lines, then every new one; one reader does both, so that no line falls between."""
    tail = Tail(running.record.log)
    last: deque[str] = deque(tail.read(), maxlen=count)
    while tail.unread_bytes:
        last.extend(tail.read())
    for line in last:
        say(line)
    while True:
        ended = running.poll() is not None
        bound(Path(running.record.log))
        for line in tail.read():
            say(line)
        if ended and not tail.unread_bytes:
            return 0
        time.sleep(0.2)
