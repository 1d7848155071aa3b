"""Files that a cockpit was writing when it was killed, under names that no reader looks at."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import tempfile
import time
from pathlib import Path

from cockpit.supervisor.origin import pid_mark

_RANDOM = r"[a-z0-9_]{8}"
"""How the standard library ends the name of a temporary file."""
_MARK = r"h[0-9a-f]{11}"
_DRAFT = re.compile(
    rf"\..+\.log\.1\.(?P<cut>\d+(?:\.{_MARK})?)"  # of a log that is cut
    rf"|\..+\.json\.{_RANDOM}"  # of a file that is replaced
    rf"|\.+[^.].*\.(?P<made>\d+(?:\.{_MARK})?)\.\d+(?:\.{_RANDOM})?"  # of a record that is made
)
_OLD_SECONDS = 600.0
"""Cutting a log takes some seconds, everything else less."""
_FOREIGN_SECONDS = 86_400.0
"""The same of a cockpit whose process cannot be looked up here; its container may be paused meanwhile."""


def drop_drafts(home: Path) -> int:
    """Delete those in the folders of a home whose cockpit is gone, or that nobody has written to for ten minutes.

    Those of a cockpit in another container or on another host that shares the home stay for a day. Only regular
    files of this user whose names a cockpit makes; how many went. Never raises.
    """
    gone = 0
    for folder in _folders(home):
        drafts = [path for path in _files(folder) if _DRAFT.fullmatch(path.name)]
        now = _clock_of(folder) if drafts else 0.0
        for path in drafts:
            with contextlib.suppress(OSError):
                if _is_left(path, now):
                    path.unlink()
                    gone += 1
    return gone


def _folders(home: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        return list(home.iterdir())
    return []


def _files(folder: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        return list(folder.iterdir())
    return []


def _clock_of(folder: Path) -> float:
    """What time it is where the files lie: a file server has a clock of its own."""
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            return os.fstat(probe.fileno()).st_mtime
    except OSError:  # of the disk: only of its clock something is lost
        return time.time()


def _is_left(path: Path, now: float) -> bool:
    match = _DRAFT.fullmatch(path.name)
    status = path.stat(follow_symlinks=False)
    if match is None or not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid():
        return False
    # A clock may have been set either way since.
    age = abs(now - status.st_mtime)
    pid, _, mark = (match["cut"] or match["made"] or "").partition(".")
    if not pid:
        return age > _OLD_SECONDS
    if not mark or mark != pid_mark():
        return age > _FOREIGN_SECONDS
    # A pid may be another process's by now.
    return age > _OLD_SECONDS or not Path("/proc", pid).exists()
