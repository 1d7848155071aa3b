"""What serves here besides the instances on record: foreign servers, adopted URLs, orphans of dead servers."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from typing import Literal
from urllib.parse import urlsplit

import msgspec
import psutil

from cockpit.errors import CockpitError
from cockpit.rig.gpus import gpu_holders
from cockpit.rig.leftovers import Leftover, find_settled_leftovers
from cockpit.rules.plan_rules import is_loopback
from cockpit.supervisor import process
from cockpit.supervisor.adopted import Adopted, load_adopted
from cockpit.supervisor.foreign import Foreign, find_foreign
from cockpit.supervisor.record import InstanceRecord, ProcessIdentity

Kind = Literal["foreign", "adopted", "orphans"]
_ANY = ("0.0.0.0", "::")
_LOCAL = ("127.0.0.1", "localhost", "::1", "0.0.0.0")


class Other(msgspec.Struct, frozen=True, kw_only=True):
    """One server, or the processes that one left behind."""

    name: str
    kind: Kind
    processes: tuple[ProcessIdentity, ...] = ()
    """The server itself first; every one for orphans; none for a server elsewhere."""
    what: str
    """Its command line, or the titles of orphans."""
    model: str | None = None
    url: str | None = None
    listens: bool | None = None
    """Whether it listens at its URL; None where that is not known."""
    started_at: float | None = None
    gpus: tuple[int, ...] = ()
    """Those that it holds memory on, as far as NVML says."""

    @property
    def is_starting(self) -> bool:
        """Whether its process is there and does not listen yet: it loads, or hangs."""
        return self.kind != "orphans" and bool(self.processes) and self.listens is False

    @property
    def pid(self) -> int | None:
        """Of the server, or of the first orphan."""
        return self.processes[0].pid if self.processes else None


def find_others(records: Iterable[InstanceRecord]) -> tuple[list[Other], list[str]]:
    """All of them, and one sentence for each thing that cannot be read. Takes 3 s when it finds orphans."""
    known = list(records)
    own = {who.pid for record in known if (who := _server_of(record)) is not None}
    listed, problem = load_adopted()
    adopted = [one for one in listed if instance_at(one.url, known) is None]
    foreign = find_foreign(own)
    orphans = _orphans(known)
    held = gpu_holders() if foreign or orphans else {}
    found = [*_servers(foreign, adopted), *orphans]
    return [_with_gpus(one, held) for one in found], [] if problem is None else [problem]


def find_other(name: str, records: Iterable[InstanceRecord]) -> Other | None:
    """The one of that name, or the foreign server with that pid as its name."""
    others, _ = find_others(records)
    return next((one for one in others if name == one.name or (one.pid is not None and name == str(one.pid))), None)


def instance_at(url: str, records: Iterable[InstanceRecord]) -> InstanceRecord | None:
    """The living instance that listens at this address, under whichever of this host's names."""
    parts = urlsplit(url)
    near = [one for one in records if one.port == parts.port and _server_of(one) is not None]
    reached = (one for one in near if _reaches(parts.hostname or "", one.host))
    # One that is starting may be kept from its port by a stranger, and that one may well be adopted.
    return next((one for one in reached if process.owns_port(one, one.port) is not False), None)


def _reaches(host: str, bound: str) -> bool:
    """Whether a client that connects to ``host`` meets a listener on ``bound``; asks no name server."""
    loopback = is_loopback(host) or host in _ANY
    if bound not in _ANY:
        return host == bound or (loopback and is_loopback(bound))
    own = {address.address.partition("%")[0] for each in psutil.net_if_addrs().values() for address in each}
    return loopback or host in own or host == socket.gethostname().lower()


def still_there(other: Other) -> bool:
    """Whether it is still to be shown: any process of it lives, or its URL is still on the list."""
    if other.kind == "adopted":
        return any(one.name == other.name for one in load_adopted()[0])
    return any(process.is_alive(who) for who in other.processes)


def refuse_to_stop(other: Other, confirmed_pid: int | None) -> None:
    """Raise CockpitError unless the user named the process of a server that is not the cockpit's to stop."""
    if other.kind == "orphans":
        return
    if other.pid is None:
        raise CockpitError(
            f"{other.name} is served at {other.url}, and no process of it is seen here",
            fix=f"Stop it where it runs; `cockpit adopt --forget {other.name}` takes it off the list.",
        )
    if confirmed_pid != other.pid:
        raise CockpitError(
            f"{other.name} was not started by the cockpit",
            f"it is process {other.pid}, {other.what:.200}",
            f"If it is yours to stop: `cockpit stop {other.name} --foreign {other.pid}`.",
        )


def as_record(other: Other) -> InstanceRecord:
    """A foreign server in the shape of an instance, for watching and stopping; it is never written."""
    port = urlsplit(other.url or "").port
    return InstanceRecord(
        name=other.name,
        slug=other.model or other.name,
        model=other.model or "",
        served_model_name=other.model or "",
        process=other.processes[0] if other.processes else None,
        argv=(other.what,),
        env={},
        cwd="/",
        host="",
        port=port or 80,
        url=other.url or "",
        gpus=other.gpus,
        log="",
        created_at=other.started_at or 0.0,
        ready_at=other.started_at or 0.0,
    )


def _server_of(record: InstanceRecord) -> ProcessIdentity | None:
    """The living server process of a record, also of one whose cockpit died before it noted the pid."""
    root = record.process
    if root is not None:
        return root if process.is_alive(root) else None
    return process.leader_writing_to(record.log)


def _servers(foreign: Sequence[Foreign], adopted: Sequence[Adopted]) -> list[Other]:
    """Foreign processes and adopted URLs; one that is both is shown once, under the name that the user gave."""
    found: list[Other] = []
    left = list(foreign)
    for one in adopted:
        at = _address(one.url)
        here = next((near for near in left if near.url is not None and _address(near.url) == at), None)
        left = [near for near in left if near is not here]
        found.append(
            Other(
                name=one.name,
                kind="adopted",
                processes=(here.process,) if here else (),
                what=here.command if here else one.url,
                model=one.model,
                url=one.url,
                listens=here.listens if here else None,
                started_at=here.process.start_time if here else None,
            )
        )
    return [*found, *(_other(one) for one in sorted(left, key=lambda one: one.process.pid))]


def _other(foreign: Foreign) -> Other:
    return Other(
        name=f"foreign-{foreign.process.pid}",
        kind="foreign",
        processes=(foreign.process,),
        what=foreign.command,
        model=foreign.model,
        url=foreign.url,
        listens=foreign.listens,
        started_at=foreign.process.start_time,
    )


def _address(url: str | None) -> tuple[str, int | None]:
    parts = urlsplit(url or "")
    host = parts.hostname or ""
    return "127.0.0.1" if host in _LOCAL else host, parts.port


def _orphans(records: Sequence[InstanceRecord]) -> list[Other]:
    """Engines and workers without a server that are on no record, by process group."""
    leftovers = find_settled_leftovers()
    if not leftovers:
        return []
    recorded = {who.pid for record in records for who in process.members_of(record)}
    groups: dict[int, list[Leftover]] = {}
    for left in leftovers:
        if left.pid not in recorded:
            groups.setdefault(left.group, []).append(left)
    return [one for group, lefts in sorted(groups.items()) if (one := _orphan_group(group, lefts)) is not None]


def _orphan_group(group: int, lefts: Sequence[Leftover]) -> Other | None:
    """The processes by identity: one that took the pid since is none of them."""
    seen = [(left, who) for left in lefts if (who := process.identity(left.pid)) is not None]
    same = [(left, who) for left, who in seen if abs(left.started_at - who.start_time) < 1.0]
    if not same:
        return None
    return Other(
        name=f"orphans-{group}",
        kind="orphans",
        processes=tuple(who for _, who in same),
        what=", ".join(f"{left.title} (pid {left.pid})" for left, _ in same),
        started_at=min(left.started_at for left, _ in same),
    )


def _with_gpus(other: Other, held: dict[int, dict[int, int | None]]) -> Other:
    if not held:
        return other
    pids = {below.pid for who in other.processes for below in (who, *process.children_of(who))}
    gpus = tuple(sorted(index for index, by_pid in held.items() if pids & by_pid.keys()))
    return msgspec.structs.replace(other, gpus=gpus) if gpus else other
