"""The user's editor, run in the terminal that the screen has been set aside from."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

from cockpit.errors import CockpitError


def editor_words() -> list[str]:
    """The editor's argv from $VISUAL, $EDITOR, else nano. Raises CockpitError when it is not installed."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "nano"
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
