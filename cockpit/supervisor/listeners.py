"""Who else listens where an instance is to answer.

Two servers may both get one port: vLLM binds it at the start of its boot and listens minutes later. Linux lets
sockets with SO_REUSEADDR, which vLLM sets, bind one address as long as none of them listens; the first to listen has
it. The other says that it is ready, never listens and never ends, as uvloop drops the error (seen on 0.32). vLLM 0.20
sets SO_REUSEPORT too, from 0.26 on only with more than one API server (create_server_socket): then both listen, and
each gets a part of the requests.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

from cockpit.rig.host import process_name, tcp_sockets
from cockpit.supervisor import process, store
from cockpit.supervisor.record import InstanceRecord

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LISTEN = "0A"
_INODE = 9
"""Column of the socket's inode."""
_SOCKET = "socket:["
_Address = IPv4Address | IPv6Address


def anybody_listens(port: int) -> bool:
    """Whether any socket of this network listens on the port, whatever its address (see proc_pid_net(5))."""
    ending = f":{port:04X}"
    return any(row[1].endswith(ending) for row in _listening_rows())


def _listening_rows() -> Iterator[list[str]]:
    """The columns of each listening socket of this network."""
    for table in _TABLES:
        with contextlib.suppress(OSError), table.open(encoding="ascii", errors="replace") as lines:
            # A busy host has many thousands of others.
            rows = (line.split() for line in lines if f" {_LISTEN} " in line)
            yield from (row for row in rows if len(row) > _INODE and row[3] == _LISTEN)


def listening_sockets() -> dict[str, tuple[str, int]]:
    """Address and port of every listening socket of this network, by its inode."""
    return {row[_INODE]: address for row in _listening_rows() if (address := _address_of(row[1])) is not None}


def _address_of(column: str) -> tuple[str, int] | None:
    """``0100007F:1F90`` → 127.0.0.1 and 8000: words of 32 bits in the order of this machine's bytes."""
    words, _, port = column.partition(":")
    try:
        raw = bytes.fromhex(words)
        packed = b"".join(raw[at : at + 4][:: -1 if sys.byteorder == "little" else 1] for at in range(0, len(raw), 4))
        return socket.inet_ntop(socket.AF_INET6 if len(packed) > 4 else socket.AF_INET, packed), int(port, 16)
    except ValueError:
        return None


def addresses_of(pid: int, listening: Mapping[str, tuple[str, int]]) -> list[tuple[str, int]] | None:
    """Where a process listens, by the sockets of `listening_sockets`; None where its descriptors cannot be seen."""
    folder = f"/proc/{pid}/fd"
    found: dict[str, tuple[str, int]] = {}
    try:
        numbers = os.listdir(folder)  # noqa: PTH208 - a server has hundreds
    except OSError:
        return None
    for number in numbers:
        try:
            target = os.readlink(f"{folder}/{number}")  # noqa: PTH115
        except OSError:
            continue
        inode = target[len(_SOCKET) : -1] if target.startswith(_SOCKET) else ""
        if inode in listening:
            found[inode] = listening[inode]
    return list(found.values())


def others_at(record: InstanceRecord) -> tuple[str, ...]:
    """Who listens at the instance's address and is no process of it: ``python3 (pid 7)``; mostly nobody.

    Nobody is named where that cannot be seen.
    """
    if not anybody_listens(record.port):
        return ()
    found = _listening_besides(record)
    if None in found:
        # One that began to listen during the look has no process yet in psutil's list; another user's never has.
        found = _listening_besides(record)
    if None in found and process.owns_port(record, record.port) is not False:
        found.discard(None)  # the instance's own, as a port is shared only within a user
    return tuple(_name(pid) for pid in sorted(found, key=lambda pid: pid or 0))


def _listening_besides(record: InstanceRecord) -> set[int | None]:
    """Pids that are none of the instance's and live; None among them is a process that cannot be seen."""
    sockets = tcp_sockets()
    own = {who.pid for who in process.members_of(record)}
    there = {one.pid for one in sockets if one.listens and one.port == record.port and meets(record.host, one.ip)}
    return {pid for pid in there - own if pid is None or process.identity(pid) is not None}


def meets(host: str, listening: str) -> bool:
    """Whether a server on ``host`` and a listener on the address ``listening`` get in each other's way on one port.

    A name of a host may stand for any address.
    """
    try:
        own = ip_address("127.0.0.1" if host == "localhost" else host or "0.0.0.0")
        other = ip_address(listening.partition("%")[0])
    except ValueError:
        return True
    if isinstance(other, IPv6Address) and other.ipv4_mapped is not None:
        other = other.ipv4_mapped
    return own == other or _covers(own, other) or _covers(other, own)


def _covers(wide: _Address, one: _Address) -> bool:
    return wide.is_unspecified and (wide.version == 6 or one.version == 4)


def _name(pid: int | None) -> str:
    """The instance that it belongs to, or the program."""
    for record in store.load_all()[0]:
        known = (who for who in (record.process, *record.descendants) if who is not None and who.pid == pid)
        if any(process.is_alive(who) for who in known):
            return f"{record.name} (pid {pid})"
    return process_name(pid) or "a program of another user"
