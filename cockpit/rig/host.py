"""The host: memory, processors, WSL, and who has which port."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import msgspec

from cockpit.errors import CockpitError
from cockpit.http_get import to_look_up

_PORTS_TRIED = 1000
_LINGERING = {"TIME_WAIT", "FIN_WAIT1", "FIN_WAIT2", "CLOSE_WAIT", "LAST_ACK", "CLOSING"}
"""States of closed connections that keep a port from a plain bind though no server has it."""


class TcpSocket(NamedTuple):
    """One socket by its own address; ``status`` as psutil names it, no pid where the process cannot be seen."""

    ip: str
    port: int
    status: str
    pid: int | None

    @property
    def listens(self) -> bool:
        """Whether it takes connections."""
        return self.status == "LISTEN"


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """Memory in bytes, logical processors that this process may use, and whether this is WSL."""

    memory_total_bytes: int
    memory_available_bytes: int
    cpu_count: int
    wsl: bool


def read_host() -> Host:
    """Read the host as it is now."""
    import psutil

    memory = psutil.virtual_memory()
    return Host(
        memory_total_bytes=memory.total,
        memory_available_bytes=memory.available,
        cpu_count=len(os.sched_getaffinity(0)),
        wsl=is_wsl(),
    )


def is_wsl(release_file: Path = Path("/proc/sys/kernel/osrelease")) -> bool:
    """Whether the kernel is that of the Windows Subsystem for Linux."""
    try:
        return "microsoft" in release_file.read_text(encoding="utf-8", errors="replace").lower()
    except OSError:
        return False


def port_is_free(host: str, port: int) -> bool:
    """Whether a server could listen on ``port`` of ``host`` now.

    A plain bind also notices a vLLM that is still loading: it has bound its port and does not listen yet.
    Connections that linger after a server has gone do not count. Raises CockpitError for a host that is not
    this machine's and for a port that this user may not use.
    """
    family, address = _address(host, port)
    if _binds(family, address, reuse=False):
        return True
    return _binds(family, address, reuse=True) and _has_lingering_connections(port)


def first_free_port(host: str, start: int = 8000, taken: Collection[int] = ()) -> int:
    """The first free port from ``start`` up that is not in ``taken``.

    Raises CockpitError when there is none among the next 1,000, and as `port_is_free` does.
    """
    last = min(start + _PORTS_TRIED, 65536)
    for port in range(start, last):
        if port not in taken and port_is_free(host, port):
            return port
    raise CockpitError(
        f"no free port from {start} to {last - 1} on {host}", fix="Stop a server, or name a port with --set port=N."
    )


def port_owner(port: int) -> str | None:
    """Who listens on ``port``, as ``python3 (pid 123)``; None when nobody does or it cannot be seen.

    Processes of other users are visible to root only.
    """
    owners = (one.pid for one in tcp_sockets() if one.port == port and one.listens)
    return process_name(next(owners, None))


def tcp_sockets() -> list[TcpSocket]:
    """Every TCP socket of this network that has a port; none where the kernel's table cannot be read."""
    import psutil

    try:
        found = psutil.net_connections(kind="tcp")
    except (psutil.Error, OSError, RuntimeError, LookupError):  # the last two: a row that psutil does not understand
        return []
    return [TcpSocket(one.laddr.ip, one.laddr.port, one.status, one.pid) for one in found if one.laddr]


def process_name(pid: int | None) -> str | None:
    """``name (pid N)`` of a process, or what of it can be seen."""
    import psutil

    if pid is None:
        return None
    try:
        name = psutil.Process(pid).name()
    except psutil.Error:
        return f"pid {pid}"
    return f"{''.join(char for char in name if char.isprintable())} (pid {pid})"


def _address(host: str, port: int) -> tuple[int, tuple[str, int]]:
    """Address family and socket address of ``host``, or CockpitError."""
    if not 0 < port < 65536:
        raise CockpitError(f"{port} is no port", fix="Use a number from 1 to 65535.")
    try:
        found = socket.getaddrinfo(to_look_up(host), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, ValueError) as error:
        raise CockpitError(f"{host} is no address of this machine", str(error), "Use 127.0.0.1.") from error
    return found[0][0], (str(found[0][4][0]), port)


def _binds(family: int, address: tuple[str, int], *, reuse: bool) -> bool:
    """Whether a socket can be bound to ``address``; CockpitError when that is not for being in use."""
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        if reuse:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            detail = os.strerror(error.errno) if error.errno else str(error)
            fix = "Use an address of this machine, such as 127.0.0.1, and a port from 1024 up."
            raise CockpitError(f"cannot listen on {address[0]} port {address[1]}", detail, fix) from error
    return True


def _has_lingering_connections(port: int) -> bool:
    """Whether closed connections of ``port`` are still in the kernel's table and no listener is."""
    found = [one for one in tcp_sockets() if one.port == port]
    return not any(one.listens for one in found) and any(one.status in _LINGERING for one in found)
