"""Where a process number means something: the running kernel and the PID namespace that gave it.

A state home may be shared by hosts (a home on a network file system) and by containers (a volume): what another of
them wrote names processes that cannot be looked up here.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

_PROC = Path("/proc")


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


def pid_mark() -> str:
    """What is written beside a pid in a file's name; empty where it is not known whose pids these are."""
    if not boot_id() or not pid_namespace():
        return ""
    return "h" + hashlib.sha256(f"{boot_id()} {pid_namespace()}".encode()).hexdigest()[:11]


def marked_pid(pid: int) -> str:
    """A pid with that mark, for a file's name: ``4711.h0123456789a``."""
    return ".".join(filter(None, (str(pid), pid_mark())))
