"""Which folder of the local Hugging Face cache holds a repository's files."""

from __future__ import annotations

import os
import re
from pathlib import Path

from cockpit.checkpoint.keys import fail_reading
from cockpit.errors import CockpitError
from cockpit.hub import hub_cache

_REVISION = re.compile(r"[A-Za-z0-9_.-]{1,80}")


def _main(folder: Path) -> str | None:
    """The revision that ``main`` stood at when it was downloaded."""
    try:
        with (folder / "refs" / "main").open("rb") as handle:
            text = handle.read(128).decode("ascii", "replace").strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise fail_reading(folder / "refs" / "main", error) from error
    return text if _REVISION.fullmatch(text) and text.strip(".") else None


def cached_folder(repository: str, home: Path | None = None) -> Path:
    """The snapshot of ``owner/name`` in the cache: the one that main names, else the only one.

    Raises CockpitError with the command that downloads it when it is not there.
    """
    home = home or hub_cache(os.environ)
    folder = home / ("models--" + repository.replace("/", "--"))
    snapshots = folder / "snapshots"
    download = f"Download it with `hf download {repository}`."
    try:
        found = sorted(entry for entry in snapshots.iterdir() if entry.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        found = []
    except OSError as error:
        raise fail_reading(snapshots, error) from error
    if not found:
        raise CockpitError(f"{repository} is not in the Hugging Face cache", f"looked in {home}", download)
    revision = _main(folder)
    for entry in found:
        if entry.name == revision:
            return entry
    if len(found) > 1:
        raise CockpitError(
            f"{repository} has {len(found)} snapshots in the Hugging Face cache and none of them is main",
            f"looked in {snapshots}",
            f"Name the folder of one of them, or {download[0].lower()}{download[1:]}",
        )
    return found[0]
