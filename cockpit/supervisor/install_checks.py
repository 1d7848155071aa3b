"""What must be so before an install begins: found out in milliseconds, not after a gigabyte of downloads."""

from __future__ import annotations

import ctypes
import importlib.util
import shutil
import sys
from collections.abc import Collection
from pathlib import Path

from cockpit.errors import CockpitError
from cockpit.supervisor.install_steps import Recipe


def check_before(home: Path, recipe: Recipe, done: Collection[str]) -> None:
    """Raise CockpitError when the steps of ``recipe`` that are not ``done`` cannot succeed on this machine."""
    if "venv" not in done:
        check_ensurepip()
    for library, package in recipe.libraries.items():
        check_library(library, package)
    if not all(step.id in done for step in recipe.steps if step.heavy):
        check_disk(home, recipe, present_bytes=_size(home) if done else 0)


def check_ensurepip() -> None:
    """Raise CockpitError when this Python cannot make virtual environments (Debian splits that off)."""
    if importlib.util.find_spec("ensurepip") is None or importlib.util.find_spec("venv") is None:
        package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
        raise CockpitError(
            "this Python cannot make virtual environments",
            "its ensurepip module is not installed",
            f"Install it, on Debian and Ubuntu with `sudo apt-get install {package}`, and run this again.",
        )


def check_library(library: str, package: str) -> None:
    """Raise CockpitError when the shared ``library``, which Debian has in ``package``, cannot be loaded."""
    try:
        ctypes.CDLL(library)
    except OSError as error:
        raise CockpitError(
            f"the library {library} is missing",
            "vLLM's kernels do not load without it",
            f"Install it, on Debian and Ubuntu with `sudo apt-get install {package}`, and run this again.",
        ) from error


def check_disk(home: Path, recipe: Recipe, present_bytes: int) -> None:
    """Raise CockpitError when the disk of ``home`` is too full for what is left to install."""
    needed = max(0, recipe.needs_bytes - present_bytes)
    free = shutil.disk_usage(home).free
    if free < needed:
        raise CockpitError(
            f"not enough disk space for {recipe.engine_id}",
            f"{home} has {free / 1e9:.1f} GB free and the install needs about {needed / 1e9:.1f} GB",
            "Free some space, or set XDG_DATA_HOME to a folder on a larger disk.",
        )


def _size(home: Path) -> int:
    """Bytes of all files under ``home``."""
    return sum(file.lstat().st_size for file in home.rglob("*") if not file.is_dir())
