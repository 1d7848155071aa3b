"""Rows of text → lines of a given width, each cut or wrapped with a hanging indent. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rich.cells import cell_len, set_cell_size

from cockpit.tui.content import Row, Segment, printable, row_text

_WORD = re.compile(r"\S+")
_WIDEST_HEAD = 20
"""Cells of a first segment that what is wrapped may stand beside."""
_LEAST_TEXT = 8
"""Cells that an indent must leave for text."""


def one_line(row: Row) -> Row:
    """The row as a terminal may have it, without line ends."""
    if all(text.isprintable() for text, _ in row):
        return row
    return [(printable(text).replace("\n", " "), style) for text, style in row]


def cut(row: Row, width: int) -> Row:
    """The row in ``width`` terminal cells, with an ellipsis where it had to be cut."""
    if cell_len(row_text(row)) <= width:
        return row
    kept: Row = []
    left = max(0, width - 1)
    for text, style in row:
        size = cell_len(text)
        kept.append((text if size <= left else set_cell_size(text, left), style))
        left -= min(size, left)
        if left == 0:
            break
    return [*kept, ("…", "dim")]


def hanging(row: Row) -> int:
    """Where wrapped lines begin: beside a short first segment that others follow, else as the row itself does."""
    first = row[0][0] if row else ""
    head = cell_len(first)
    if len(row) > 1 and first.strip() and head <= _WIDEST_HEAD:
        return head
    text = row_text(row)
    return len(text) - len(text.lstrip(" "))


def _long_word(text: str, start: int, width: int) -> int:
    """How far the characters of a word that fits no line get on one of ``width`` cells: one of them at least."""
    end, used = start, 0
    while end < len(text) and (used := used + cell_len(text[end])) <= width:
        end += 1
    return max(end, start + 1)


def spans(text: str, width: int, indent: int) -> list[tuple[int, int]]:
    """Beginning and end of each line of ``text``: the first of ``width`` cells, others less their indent."""
    found: list[tuple[int, int]] = []
    begin, end, room = 0, 0, width
    for word in _WORD.finditer(text):
        if cell_len(text[begin : word.end()]) <= room:
            end = word.end()
            continue
        start = word.start()
        if end > begin:
            found.append((begin, end))
            begin, room = start, width - indent
        while cell_len(text[begin : word.end()]) > room:
            cut_at = _long_word(text, begin, room)
            found.append((begin, cut_at))
            begin, room = cut_at, width - indent
        end = word.end()
    return [*found, (begin, max(end, begin))]


def _between(row: Row, start: int, end: int) -> Iterable[Segment]:
    at = 0
    for text, style in row:
        piece = text[max(0, start - at) : max(0, end - at)]
        at += len(text)
        if piece:
            yield piece, style


def wrap(row: Row, width: int) -> list[Row]:
    """The row over as many lines of ``width`` terminal cells as it takes, words whole where they fit a line."""
    text = row_text(row)
    if cell_len(text) <= width:
        return [row]
    indent = hanging(row)
    indent = indent if width - indent >= _LEAST_TEXT else 0
    lines = [list(_between(row, start, end)) for start, end in spans(text, max(1, width), indent)]
    blank: Segment = (" " * indent, "")
    return [lines[0], *([blank, *line] for line in lines[1:])]
