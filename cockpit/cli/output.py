"""Printing for people and for scripts. Control characters of untrusted text never reach the terminal."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

import msgspec

from cockpit.errors import FailedError

_VISIBLE_ANYWAY = {"\n", "\t"}
_LEAST_PROSE = 24
"""Cells of a column of prose, however narrow the terminal."""


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
    import json

    text = json.dumps(msgspec.to_builtins(value, enc_hook=str))
    _write(sys.stdout, json.dumps(json.loads(text, parse_constant=lambda _: None), indent=2) + "\n")


def table(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Sequence[int] = (),
    spare: Sequence[int] = (),
    cut: int | None = None,
) -> None:
    """Columns as wide as their widest cell; the columns in ``right`` align right.

    Where the terminal is too narrow (80 columns where there is none), those in ``spare`` are left out, the first
    first, and then ``cut`` is shortened in its middle. Without ``spare`` and ``cut`` nothing is.
    """
    cells = [list(headers), *([plain(cell).replace("\n", " ") for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headers))]
    room = shutil.get_terminal_size((80, 24)).columns
    kept = _kept(widths, spare, room)
    over = _line_width(widths, kept) - room
    if cut is not None and over > 0:
        widths[cut] = max(len(headers[cut]), widths[cut] - over)
    for row in cells:
        parts = []
        for column in kept:
            cell = _shortened(row[column], widths[column])
            parts.append(cell.rjust(widths[column]) if column in right else cell.ljust(widths[column]))
        say("  ".join(parts).rstrip())


def prose_table(headers: Sequence[str], rows: Sequence[Sequence[str]], cut: int | None = None) -> None:
    """Columns of which the last is prose.

    On a terminal it wraps under its title, and ``cut`` is shortened in its middle to a third of the width. Elsewhere
    a row is one line, and nothing is shortened.
    """
    if not sys.stdout.isatty():
        table(headers, rows)
        return
    room = shutil.get_terminal_size((80, 24)).columns
    cells = [[plain(cell).replace("\n", " ") for cell in row] for row in (headers, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headers) - 1)]
    if cut is not None:
        widths[cut] = min(widths[cut], max(len(headers[cut]), room // 3))
    beside = sum(widths) + 2 * len(widths)
    for row in cells:
        head = "  ".join(_shortened(cell, width).ljust(width) for cell, width in zip(row, widths, strict=False))
        prose = textwrap.wrap(row[-1], max(_LEAST_PROSE, room - beside)) or [""]
        say(f"{head}  {prose[0]}".rstrip())
        for line in prose[1:]:
            say(" " * beside + line)


def _line_width(widths: Sequence[int], kept: Sequence[int]) -> int:
    return sum(widths[column] for column in kept) + 2 * (len(kept) - 1)


def _kept(widths: Sequence[int], spare: Sequence[int], room: int) -> list[int]:
    kept = list(range(len(widths)))
    for column in spare:
        if _line_width(widths, kept) <= room:
            break
        kept.remove(column)
    return kept


def _shortened(text: str, width: int) -> str:
    """``text`` without its middle where it is longer than ``width``: a path's two ends say most."""
    if len(text) <= width:
        return text
    head = (width - 1) // 3
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"
