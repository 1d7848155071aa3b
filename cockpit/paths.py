"""Where things live: XDG homes of the user, and the recipes and themes that come with the program."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import BinaryIO

import platformdirs

from cockpit.errors import CockpitError

_APP = "cockpit"
_MORE_BYTES = 1 << 16


def read_up_to(handle: BinaryIO, limit: int) -> bytes:
    """At most ``limit`` bytes of a regular file; ``read`` alone would take room for the limit, whatever is there."""
    data = handle.read(min(limit, os.fstat(handle.fileno()).st_size + 1))
    while len(data) < limit and (more := handle.read(min(limit - len(data), _MORE_BYTES))):
        data += more
    return data


def config_home() -> Path:
    """Folder of config.yaml and of the user's own slugs and themes."""
    return Path(platformdirs.user_config_dir(_APP))


def data_home() -> Path:
    """Folder of managed engines: large, may be shared by several cockpits."""
    return Path(platformdirs.user_data_dir(_APP))


def state_home() -> Path:
    """Folder of instance records and logs."""
    return Path(platformdirs.user_state_dir(_APP))


def cache_home() -> Path:
    """Folder of what can be computed again."""
    return Path(platformdirs.user_cache_dir(_APP))


def engines_home() -> Path:
    """Folder with one sub-folder for each managed engine."""
    return data_home() / "engines"


def instances_home() -> Path:
    """Folder with one JSON record for each instance."""
    return state_home() / "instances"


def logs_home() -> Path:
    """Folder with the log files of served instances."""
    return state_home() / "logs"


def user_slugs() -> Path:
    """The user's own slugs; they win over shipped ones of the same name."""
    return config_home() / "slugs"


def user_themes() -> Path:
    """The user's own themes."""
    return config_home() / "themes"


def shipped(kind: str) -> Path:
    """The shipped ``slugs`` or ``themes``: inside the wheel, or beside the package in a checkout."""
    package = Path(__file__).resolve().parent
    inside_wheel = package / "_shipped" / kind
    return inside_wheel if inside_wheel.is_dir() else package.parent / kind


def ensure_private(folder: Path) -> Path:
    """Make ``folder`` with mode 0700, or say why it cannot be written.

    Raises CockpitError when it cannot be made or written to.
    """
    try:
        for home in (state_home(), folder):
            # Logs hold prompts and paths: nobody else reads them, not even through a parent folder.
            if home == folder or home in folder.parents:
                home.mkdir(parents=True, exist_ok=True, mode=0o700)
                if home.stat().st_mode & 0o077:
                    home.chmod(0o700)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise CockpitError(
            f"cannot write to {folder}",
            error.strerror or str(error),
            "Make it writable, or set XDG_STATE_HOME, XDG_DATA_HOME or XDG_CACHE_HOME to a folder that is.",
        ) from error
    return folder


def write_atomic(target: Path, data: bytes, mode: int = 0o600) -> None:
    """Replace ``target`` in one step, so that no reader ever sees half a file.

    Raises OSError; the old content stays when it does.
    """
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        temporary = Path(name)
        temporary.chmod(mode)
        temporary.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
