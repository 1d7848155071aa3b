"""The user's editor, run in the terminal that the screen has been set aside from."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

from cockpit import paths
from cockpit.catalog.load import Entry
from cockpit.errors import CockpitError


def editor_words() -> list[str]:
    """The editor's argv from $VISUAL, $EDITOR, else nano or vi. Raises CockpitError when it is not installed."""
    usual = "nano" if shutil.which("nano") or not shutil.which("vi") else "vi"
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or usual
    try:
        words = shlex.split(editor)
    except ValueError:
        words = []
    if not words or shutil.which(words[0]) is None:
        raise CockpitError(f"the editor {editor!r} was not found", fix="Set $EDITOR to one that is installed.")
    return words


def edit(file: Path, words: list[str]) -> None:
    """Run it on ``file`` and wait."""
    subprocess.run([*words, str(file)], check=False)


def own_copy(entry: Entry) -> Path:
    """The file to edit: the user's own, or for a shipped slug a copy among the user's, which wins over it.

    A shipped file belongs to the install and would be lost with it. Raises CockpitError when no copy can be made.
    """
    if not entry.shipped:
        return entry.file
    if entry.slug.weights.repo is None:
        raise CockpitError(
            f"{entry.slug.name} comes with the cockpit, and its checkpoint lies beside its file",
            fix=f"Copy {entry.file} to {paths.user_slugs()} under another name, with an absolute path.",
        )
    target = paths.user_slugs() / f"{entry.slug.name}.yaml"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as handle:
            handle.write(entry.file.read_bytes())
    except FileExistsError:
        return target
    except OSError as error:
        raise CockpitError(f"cannot write {target}", error.strerror or str(error), "Make it writable.") from error
    return target
