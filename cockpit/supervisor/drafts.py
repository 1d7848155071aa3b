"""Files that a cockpit was writing when it was killed, under names that no reader looks at."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from pathlib import Path

_RANDOM = r"[a-z0-9_]{8}"
"""How the standard library ends the name of a temporary file."""
_DRAFT = re.compile(
    r"\..+\.log\.1\.(?P<cut>\d+)"  # of a log that is cut
    rf"|\..+\.json\.{_RANDOM}"  # of a file that is replaced
    rf"|\.+[^.].*\.(?P<made>\d+)\.\d+(?:\.{_RANDOM})?"  # of a record that is made
)
_OLD_SECONDS = 600.0
"""Cutting a log takes some seconds, everything else less."""


def drop_drafts(home: Path) -> int:
    """Delete those in the folders of a home whose cockpit is gone, or that nobody has written to for ten minutes.

    Only regular files of this user whose names a cockpit makes; how many went. Never raises.
    """
    gone = 0
    for path in _files(home):
        with contextlib.suppress(OSError):
            if _is_left(path):
                path.unlink()
                gone += 1
    return gone


def _files(home: Path) -> list[Path]:
    found: list[Path] = []
    with contextlib.suppress(OSError):
        for folder in home.iterdir():
            with contextlib.suppress(OSError):
                found += folder.iterdir()
    return found


def _is_left(path: Path) -> bool:
    match = _DRAFT.fullmatch(path.name)
    if match is None:
        return False
    status = path.stat(follow_symlinks=False)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid():
        return False
    pid = match["cut"] or match["made"]
    # A clock may have been set either way since, and a pid may be another process's by now.
    return (pid is not None and not Path("/proc", pid).exists()) or abs(time.time() - status.st_mtime) > _OLD_SECONDS
