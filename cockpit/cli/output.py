"""Printing for people and for scripts. Control characters of untrusted text never reach the terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import msgspec

_VISIBLE_ANYWAY = {"\n", "\t"}


def plain(text: str) -> str:
    """``text`` without control characters."""
    return "".join(
        character if character.isprintable() or character in _VISIBLE_ANYWAY else "�" for character in text
    )


def say(text: str = "") -> None:
    """One line for the reader, on stdout."""
    sys.stdout.write(plain(text) + "\n")
    sys.stdout.flush()


def tell(text: str) -> None:
    """One line of progress or prose, on stderr."""
    sys.stderr.write(plain(text) + "\n")
    sys.stderr.flush()


def emit(value: Any) -> None:
    """One JSON value on stdout: ASCII-safe against control characters, indented for readers."""
    text = msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=2).decode()
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> None:
    """Columns as wide as their widest cell; the columns in ``right`` align right."""
    cells = [list(headers), *([plain(cell).replace("\n", " ") for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headers))]
    for row in cells:
        parts = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        say("  ".join(parts).rstrip())
