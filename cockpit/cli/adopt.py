"""`cockpit adopt URL`: remember a server that no cockpit started, so that it is listed and can be watched."""

from __future__ import annotations

import argparse

from cockpit.cli.options import verb
from cockpit.cli.output import emit, say
from cockpit.errors import CockpitError


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = verb(verbs, "adopt", "remember the URL of a server, to list and watch it", run)
    parser.add_argument("url", nargs="?", metavar="URL", help="its address, e.g. http://127.0.0.1:8000")
    parser.add_argument("--name", help="what to call it; the name of its model unless given")
    parser.add_argument("--forget", metavar="NAME", help="take a name or URL off the list; the server is left alone")


def run(arguments: argparse.Namespace) -> int:
    """Remember or forget; exit 1 when nothing answers at the URL."""
    from cockpit.session import Session
    from cockpit.supervisor.adopted import forget

    if (arguments.url is None) == (arguments.forget is None):
        raise CockpitError("adopt takes one server", fix="Give its URL, or --forget NAME.")
    if arguments.forget is not None:
        gone = forget(arguments.forget)
        if arguments.json:
            emit({"instance": gone.name, "url": gone.url, "model": gone.model, "state": None})
        else:
            say(f"{gone.name} is forgotten; the server at {gone.url} goes on.")
        return 0
    adopted = Session().adopt(arguments.url, arguments.name)
    if arguments.json:
        emit({"instance": adopted.name, "url": adopted.url, "model": adopted.model, "state": "foreign"})
    else:
        say(f"{adopted.name}  {adopted.url}  `cockpit top {adopted.name}` follows it.")
    return 0
