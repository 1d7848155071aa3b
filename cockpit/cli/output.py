"""Printing for people and for scripts. Control characters of untrusted text never reach the terminal."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

import msgspec

from cockpit.errors import FailedError

_VISIBLE_ANYWAY = {"\n", "\t"}


def plain(text: str) -> str:
    """``text`` without control characters."""
    return "".join(
        character if character.isprintable() or character in _VISIBLE_ANYWAY else "�" for character in text
    )


def ready_streams() -> None:
    """Make the three streams usable: a closed one becomes /dev/null, a glyph the terminal lacks becomes ``?``."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - open to the end
        elif name == "stdout":
            stream.reconfigure(errors="replace")


def flush() -> None:
    """Empty stdout's buffer; a reader that went away is no error."""
    with contextlib.suppress(BrokenPipeError, FailedError):
        _write(sys.stdout, "")


def _write(stream: TextIO, text: str) -> None:
    """Write at once. Raises BrokenPipeError when the reader is gone, FailedError when it cannot be written."""
    try:
        stream.write(text)
        stream.flush()
    except OSError as error:
        # What is left in the buffer must go somewhere, or Python complains of it on its way out.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        if isinstance(error, BrokenPipeError):
            raise
        raise FailedError(
            "the output cannot be written", error.strerror or str(error), "Send it elsewhere, or make room."
        ) from error


def say(text: str = "") -> None:
    """One line for the reader, on stdout."""
    _write(sys.stdout, plain(text) + "\n")


def tell(text: str) -> None:
    """One line of progress or prose, on stderr. When nobody can read it the work goes on."""
    with contextlib.suppress(BrokenPipeError, FailedError):
        _write(sys.stderr, plain(text) + "\n")


def emit(value: Any) -> None:
    """One JSON value on stdout, indented for readers.

    Everything but ASCII is escaped: control characters, and bytes of file names that are not UTF-8. Figures that
    are not finite become null.
    """
    text = json.dumps(msgspec.to_builtins(value, enc_hook=str))
    _write(sys.stdout, json.dumps(json.loads(text, parse_constant=lambda _: None), indent=2) + "\n")


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
