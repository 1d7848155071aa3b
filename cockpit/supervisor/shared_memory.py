"""Shared memory that a killed server leaves behind: message queues, NCCL's buffers, offloaded KV caches in /dev/shm.

Whoever ends the queues normally is the resource tracker, a child of the server that a kill of the group takes along.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable
from pathlib import Path

from cockpit.supervisor.record import ProcessIdentity, Segment

_NAMES = r"psm_\w+|nccl-\w+|torch_[\w-]+|vllm_(?:offload|ec)_[\w.-]+\.mmap"
"""Made by Python's shared memory, NCCL, PyTorch and vLLM; a model file that lies in /dev/shm is none of these."""
_SEGMENT = re.compile(rf"/dev/shm/(?:{_NAMES})")
_MAPPED = re.compile(rf"^\S+ \S+ \S+ \S+ (?P<inode>\d+)\s+(?P<path>/dev/shm/(?:{_NAMES}))$", re.MULTILINE)


def segments_of(members: Iterable[ProcessIdentity]) -> frozenset[Segment]:
    """Segments that these processes have mapped now (see proc_pid_maps(5))."""
    found: set[Segment] = set()
    for who in members:
        try:
            maps = Path(f"/proc/{who.pid}/maps").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        found |= {Segment(match["path"], int(match["inode"])) for match in _MAPPED.finditer(maps)}
    return frozenset(found)


def leftovers(segments: Iterable[Segment]) -> frozenset[Segment]:
    """Those that are still there and that no process of this host has mapped: they cost memory until a reboot."""
    left = frozenset(existing(segments))
    return left - segments_of(ProcessIdentity(pid=int(n), start_time=0.0) for n in _pids()) if left else left


def existing(segments: Iterable[Segment]) -> tuple[Segment, ...]:
    """Those whose file is still there, and is this very one of this user."""
    return tuple(segment for segment in segments if _is_there(segment))


def remove_leftovers(segments: Iterable[Segment]) -> int:
    """Unlink those that are still there and that no process has mapped; how many were unlinked."""
    left = leftovers(segments)
    for segment in left:
        with contextlib.suppress(OSError):
            Path(segment.path).unlink()
    return sum(not _is_there(segment) for segment in left)


def _pids() -> list[str]:
    return [name for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208


def _is_there(segment: Segment) -> bool:
    if not _SEGMENT.fullmatch(segment.path):  # a record is a file that anybody may have edited
        return False
    try:
        status = Path(segment.path).lstat()
    except OSError:
        return False
    return status.st_ino == segment.inode and status.st_uid == os.getuid()
