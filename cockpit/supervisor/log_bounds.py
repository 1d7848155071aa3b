"""Bounds for log files: one that grew too large loses its middle, and the oldest of servers long gone are deleted.

A server writes to its log by itself, so that it needs no cockpit; nobody but a cockpit that looks can bound it. While
none looks, a log grows as it likes. Lines written between the last copy and the cut, some microseconds, are lost.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
from collections.abc import Collection, Iterator
from pathlib import Path

from cockpit import paths
from cockpit.supervisor.origin import marked_pid

MOST_BYTES = 64 << 20
"""A log that passed this is cut."""
HEAD_BYTES = 1 << 20
"""What stays of its beginning: the boot, from which stages and capacity are read."""
MARK = b"[cockpit] the lines between went to "
_KEPT_LOGS, _KEPT_BYTES = 50, 1 << 30
"""Of servers that are on record no more."""
_CHUNK_BYTES = 1 << 20
_ROUNDS = 5


def older_part(log: Path) -> Path:
    """Where the lines went that were cut out last."""
    return log.with_name(f"{log.name}.1")


def bound(log: Path, most_bytes: int = MOST_BYTES, head_bytes: int = HEAD_BYTES) -> bool:
    """Cut the log when it passed ``most_bytes``; whether it was. Never raises: a log is no reason to fail.

    Its beginning stays in place, the rest moves to `older_part` (the latest half of ``most_bytes``). On a full disk
    the rest is dropped instead. One cockpit does it, others that look meanwhile leave it alone.
    """
    with contextlib.suppress(OSError):
        if log.stat(follow_symlinks=False).st_size <= most_bytes:
            return False
        with _alone(log) as descriptor:
            if descriptor is not None:
                return _cut(descriptor, log, most_bytes, head_bytes)
    return False


@contextlib.contextmanager
def _alone(log: Path) -> Iterator[int | None]:
    """The open log, locked; None when another cockpit has it, or it is no file of its own."""
    descriptor = os.open(log, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield descriptor if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    except BlockingIOError:
        yield None
    finally:
        os.close(descriptor)


def _cut(descriptor: int, log: Path, most_bytes: int, head_bytes: int) -> bool:
    size = os.fstat(descriptor).st_size
    if size <= most_bytes:
        return False
    head = os.pread(descriptor, head_bytes, 0)
    keep = head.rfind(b"\n") + 1 or len(head)
    _copy(descriptor, max(keep, size - most_bytes // 2), older_part(log))
    os.ftruncate(descriptor, keep)
    stamp = time.strftime("%Y-%m-%d %H:%M:%S")
    with contextlib.suppress(OSError):
        os.write(descriptor, MARK + f"{older_part(log).name} on {stamp}\n".encode())
    return True


def _copy(descriptor: int, start: int, target: Path) -> None:
    """Copy from ``start`` to the end, and what came meanwhile; a full disk copies nothing."""
    draft = target.with_name(f".{target.name}.{marked_pid(os.getpid())}")
    try:
        copy = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            for _ in range(_ROUNDS):
                start = _copy_rest(descriptor, start, copy)
                if os.fstat(descriptor).st_size == start:
                    break
        finally:
            os.close(copy)
        draft.replace(target)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink()


def _copy_rest(descriptor: int, start: int, copy: int) -> int:
    end = os.fstat(descriptor).st_size
    while start < end:
        piece = os.pread(descriptor, min(_CHUNK_BYTES, end - start), start)
        if not piece:
            break
        start += len(piece)
        while piece:
            piece = piece[os.write(copy, piece) :]
    return start


def prune(known: Collection[str], kept: int = _KEPT_LOGS, kept_bytes: int = _KEPT_BYTES) -> int:
    """Delete the oldest logs that no record names until ``kept`` files and ``kept_bytes`` are left; how many went."""
    found: list[tuple[float, int, Path]] = []
    kept_paths = {str(Path(one).resolve()) for one in known}
    with contextlib.suppress(OSError):
        for path in paths.logs_home().resolve().iterdir():
            status = path.stat(follow_symlinks=False)
            if stat.S_ISREG(status.st_mode) and str(path).removesuffix(".1") not in kept_paths and _is_log(path):
                found.append((status.st_mtime, status.st_size, path))
    gone, total = 0, 0
    for number, (_, size, path) in enumerate(sorted(found, key=lambda one: one[0], reverse=True)):
        total += size
        if number >= kept or total > kept_bytes:
            with contextlib.suppress(OSError):
                path.unlink()
                gone += 1
    return gone


def _is_log(path: Path) -> bool:
    return path.name.endswith((".log", ".log.1"))
