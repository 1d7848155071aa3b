"""Which Python a console script runs under, read from its first lines."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

_HEAD_BYTES = 4096
_EXEC = re.compile(rb"""^'''exec' (?:"([^"$]+)"|'([^']+)'|([^\s"'$]+)) "\$0" "\$@"\s*$""")
"""What installers write when the interpreter's path is too long, or has a space, for the kernel."""
_SHELLS = {"sh", "bash", "dash"}


def interpreter_words(head: bytes) -> list[str] | None:
    """Interpreter and arguments that the head of a script names; None when it names none.

    Understands ``#!/path/python [args]``, ``#!/usr/bin/env [-S] python`` and the ``#!/bin/sh`` + ``'''exec'``
    form. The words are not checked against the disk.
    """
    lines = head.splitlines()
    if not lines or not lines[0].startswith(b"#!"):
        return None
    words = [word.decode("utf-8", "surrogateescape") for word in lines[0][2:].split()]
    if not words:
        return None
    if Path(words[0]).name in _SHELLS:
        match = _EXEC.match(lines[1]) if len(lines) > 1 else None
        found = match and next(group for group in match.groups() if group is not None)
        return [found.decode("utf-8", "surrogateescape")] if found else None
    if Path(words[0]).name == "env":
        return [word for word in words[1:] if not word.startswith("-")] or None
    return words


def python_of(command: Path) -> Path | None:
    """The interpreter of the console script ``command``, else the ``python`` beside it, else None.

    Raises OSError when the script cannot be read.
    """
    with command.open("rb") as handle:
        words = interpreter_words(handle.read(_HEAD_BYTES))
    if words and "python" in Path(words[0]).name:
        located = words[0] if "/" in words[0] else shutil.which(words[0])
        if located and Path(located).is_file():
            return Path(located)
        if located and "/" in words[0]:
            return None
    for name in ("python", "python3"):
        beside = command.parent / name
        if beside.is_file():
            return beside
    return None
