"""Records that another host or container left in a shared state home: taken off the list on the user's word.

Nothing here can tell whether such a host lives. A container that was made anew has another name, and what the old one
had started stays on record for good.
"""

from __future__ import annotations

import shlex
import time
from pathlib import Path

from cockpit.errors import CockpitError
from cockpit.nearest import did_you_mean
from cockpit.supervisor import store
from cockpit.supervisor.adopted import load_adopted
from cockpit.supervisor.origin import is_elsewhere, is_seen_to_live, shown_host
from cockpit.supervisor.record import InstanceRecord
from cockpit.units import duration


def forget(name: str | None, host: str | None) -> tuple[InstanceRecord, ...]:
    """Delete the record of that name, or all of a host that is gone; logs stay. What was deleted.

    Raises CockpitError for none, for a server of this host, without the name of the host or with another one, and for
    a container of which a process can be seen.
    """
    everywhere = store.everywhere()
    far = [record for record in everywhere if is_elsewhere(record.origin)]
    if name is None:
        chosen = [record for record in far if shown_host(record.origin) == host]
        if not chosen:
            raise _unknown_host(host or "", far)
    else:
        chosen = [record for record in far if record.name == name]
        if not chosen:
            raise _unknown_name(name, everywhere, far)
    for record in chosen:
        _refuse(record, host)
    for record in chosen:
        store.remove(record)
    return tuple(chosen)


def _refuse(record: InstanceRecord, host: str | None) -> None:
    where = shown_host(record.origin)
    if record.origin is not None and is_seen_to_live(record.origin):
        raise CockpitError(
            f"{record.name} may live: processes of {where}, where it was started, run on this machine",
            fix=f"Stop it there: `cockpit stop {record.name}` in that container.",
        )
    if host == where:
        return
    call = f"`cockpit forget {record.name} --host {shlex.quote(where)}`"
    if host is not None:
        raise CockpitError(
            f"{record.name} was started on {where}, not on {host:.64}", fix=f"If that is gone: {call}."
        )
    raise CockpitError(
        f"{record.name} was started on {where}, and nothing here tells whether that still runs it",
        _signs(record),
        f"If {where} is gone: {call}. If not, a cockpit there follows and stops it.",
    )


def _signs(record: InstanceRecord) -> str:
    """What the record and the log tell of it."""
    now = time.time()
    signs = [f"it was started {duration(max(0.0, now - record.created_at))} ago"]
    if record.ended_at is not None:
        signs.append(f"its end was noted {duration(max(0.0, now - record.ended_at))} ago")
    try:
        written = Path(record.log).stat().st_mtime
    except (OSError, ValueError):
        return " and ".join(signs)
    return ", ".join(signs) + f" and its log was last written {duration(max(0.0, now - written))} ago"


def _unknown_host(host: str, far: list[InstanceRecord]) -> CockpitError:
    hosts = list(dict.fromkeys(shown_host(record.origin) for record in far))
    listed = f"On record are servers of: {', '.join(hosts)}." if hosts else "All records are of this host."
    return CockpitError(f"no record is of a host {host!r:.80}", fix=did_you_mean(host, hosts, listed))


def _unknown_name(name: str, everywhere: list[InstanceRecord], far: list[InstanceRecord]) -> CockpitError:
    if any(record.name == name for record in everywhere):
        return CockpitError(
            f"{name} was started on this host",
            fix=f"`cockpit stop {name}` ends it, or clears away what is left of it.",
        )
    if any(one.name == name for one in load_adopted()[0]):
        return CockpitError(f"{name} is an adopted server", fix=f"Take it off with `cockpit adopt --forget {name}`.")
    names = [record.name for record in far]
    listed = f"Started elsewhere are: {', '.join(names)}." if names else "All records are of this host."
    return CockpitError(f"no record of another host is called {name!r:.120}", fix=did_you_mean(name, names, listed))
