"""The key that servers ask for: from the environment, or from a file that nobody else may read."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from cockpit import paths
from cockpit.errors import CockpitError

VARIABLE = "VLLM_API_KEY"
"""vLLM reads it, so that the key stands in no command line."""
_MAX_BYTES = 4096


def key_file() -> Path:
    """One line with the key, mode 0600, beside config.yaml."""
    return paths.config_home() / "api-key"


def find_api_key(environ: Mapping[str, str]) -> str | None:
    """The key of ``environ``, else that of the file; None when there is neither.

    Raises CockpitError, which never holds the key, when the file can be read by others or is no single line.
    """
    return environ.get(VARIABLE) or _read(key_file())


def known_api_key() -> str | None:
    """The file's key, where it can be read: for keeping it out of texts."""
    try:
        return _read(key_file())
    except CockpitError:
        return None


def _read(file: Path) -> str | None:
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise CockpitError(f"{file} cannot be read", error.strerror or "", "Make it yours, or remove it.") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise CockpitError(f"{file} is not a file", fix="Put the key into a file of one line.")
        if status.st_mode & 0o077 or status.st_uid not in (os.getuid(), 0):
            raise CockpitError(f"other users may read the key in {file}", fix=f"Run `chmod 600 {file}`.")
        text = os.read(descriptor, _MAX_BYTES + 1).decode("utf-8", errors="replace").strip()
    finally:
        os.close(descriptor)
    if not text or len(text) > _MAX_BYTES or not text.isprintable() or " " in text:
        raise CockpitError(f"{file} holds no key", fix="It takes one line with the key and nothing else.")
    return text
