"""Where a process number means something: the running kernel and the PID namespace that gave it.

A state home may be shared by hosts (a home on a network file system) and by containers (a volume): what another of
them wrote names processes that cannot be looked up here.
"""

from __future__ import annotations

import hashlib
import socket
from functools import cache
from pathlib import Path

from cockpit.supervisor.record import Origin

_PROC = Path("/proc")
_MAX_HOSTNAME = 64


@cache
def boot_id() -> str:
    """Of the running kernel, new at every start of the host; empty where it does not say."""
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


@cache
def pid_namespace() -> str:
    """Of this process, as ``pid:[4026531836]``; empty where it cannot be seen."""
    try:
        return str((_PROC / "self/ns/pid").readlink())
    except OSError:
        return ""


def here() -> Origin:
    """Of what is started now."""
    return Origin(hostname=socket.gethostname(), boot_id=boot_id(), pid_namespace=pid_namespace())


def is_elsewhere(origin: Origin | None) -> bool:
    """Whether it is another host or container, so that nothing can be said of the processes that were started there.

    A host that was restarted, or a container, has its name still; one that was renamed runs on.
    """
    if origin is None or not origin.hostname or origin.hostname == socket.gethostname():
        return False
    return not (origin.boot_id and origin.boot_id == boot_id() and origin.pid_namespace == pid_namespace())


def shown_host(origin: Origin | None) -> str:
    """The name of the host or container, fit for a terminal."""
    return "" if origin is None else "".join(c for c in origin.hostname if c.isprintable())[:_MAX_HOSTNAME]


def is_seen_to_live(origin: Origin) -> bool:
    """Whether a process of a container on this kernel can be seen; False says nothing of another host."""
    if not origin.boot_id or origin.boot_id != boot_id() or not origin.pid_namespace:
        return False
    return any(_namespace_of(folder) == origin.pid_namespace for folder in _PROC.glob("[1-9]*"))


def _namespace_of(process: Path) -> str | None:
    try:
        return str((process / "ns/pid").readlink())
    except OSError:  # it ended, or is another user's
        return None


def pid_mark() -> str:
    """What is written beside a pid in a file's name; empty where it is not known whose pids these are."""
    if not boot_id() or not pid_namespace():
        return ""
    return "h" + hashlib.sha256(f"{boot_id()} {pid_namespace()}".encode()).hexdigest()[:11]


def marked_pid(pid: int) -> str:
    """A pid with that mark, for a file's name: ``4711.h0123456789a``."""
    return ".".join(filter(None, (str(pid), pid_mark())))
