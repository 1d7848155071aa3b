"""Whether files are as they were: what a remembered answer rests on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

Stamp = tuple[int, int]
"""Modification time in ns and size in bytes."""


def stamp(path: str) -> Stamp:
    """The stamp of one file or folder; (0, 0) when it is not there."""
    try:
        status = Path(path).stat()
    except OSError:
        return (0, 0)
    return (status.st_mtime_ns, status.st_size)


def stamps_of(paths: Iterable[str]) -> dict[str, Stamp]:
    """The stamps of some files, by path."""
    return {path: stamp(path) for path in sorted(paths)}


def unchanged(stamps: Mapping[str, Stamp]) -> bool:
    """Whether every file still has the stamp that it had."""
    return all(stamp(path) == known for path, known in stamps.items())


def file_name(path: str) -> str:
    """A short name for what is remembered of ``path``; two paths never share one."""
    return hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:24] + ".json"
