"""`cockpit forget NAME --host HOST`: drop the record of a server whose host or container is gone."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from cockpit.cli.options import verb
from cockpit.cli.output import emit, say
from cockpit.errors import CockpitError

if TYPE_CHECKING:
    from cockpit.supervisor.record import InstanceRecord


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = verb(verbs, "forget", "drop the record of a server whose host or container is gone", run)
    parser.add_argument("name", nargs="?", metavar="NAME", help="the instance; without one, all of the host")
    parser.add_argument("--host", metavar="HOST", help="the host or container that is gone, as `cockpit ps` names it")


def run(arguments: argparse.Namespace) -> int:
    """Forget; the servers of this host and of one that is seen to live are refused."""
    from cockpit.supervisor.forget import forget

    if arguments.name is None and arguments.host is None:
        raise CockpitError("forget needs a record", fix="Give its NAME, or --host HOST for all of a host.")
    gone = forget(arguments.name, arguments.host)
    if arguments.json:
        rows = [_json(record, arguments.host) for record in gone]
        emit(rows if arguments.name is None else rows[0])
    else:
        for record in gone:
            say(f"{record.name} of {arguments.host} is forgotten. Its log stays: {record.log}")
    return 0


def _json(record: InstanceRecord, host: str) -> dict[str, Any]:
    return {"instance": record.name, "host": host, "slug": record.slug, "url": record.url, "log": record.log}
