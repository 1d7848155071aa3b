"""Text for the screen. Outside text goes in as text: nothing here parses markup, nothing here moves a cursor."""

from __future__ import annotations

from collections.abc import Iterable

from textual.content import Content

STYLES = {
    "": "",
    "dim": "$foreground 60%",
    "bold": "bold",
    "key": "bold $accent",
    "good": "$text-success",
    "warn": "$text-warning",
    "bad": "bold $text-error",
    "title": "bold $text-primary",
    "bar": "$primary",
    "bar2": "$secondary",
    "reverse": "reverse",
}
"""Meaning → Textual style; the theme decides the colour."""

Segment = tuple[str, str]
"""Text and the name of its meaning."""
Row = list[Segment]


def printable(text: str) -> str:
    """``text`` without what a terminal would obey, turn round or fail to encode; line ends stay."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() or character == "\n" else "�" for character in text)


def row_content(row: Iterable[Segment]) -> Content:
    """One line."""
    return Content.assemble(*((printable(text), STYLES[style]) for text, style in row))


def rows_content(rows: Iterable[Row]) -> Content:
    """Several lines."""
    return Content("\n").join(row_content(row) for row in rows)


def row_text(row: Iterable[Segment]) -> str:
    """One line without its styles."""
    return "".join(text for text, _ in row)


def fit(row: Row, width: int) -> Row:
    """The line cut to ``width`` cells with an ellipsis. Counts characters."""
    if sum(len(text) for text, _ in row) <= width:
        return row
    cut: Row = []
    left = max(0, width - 1)
    for text, style in row:
        cut.append((text[:left], style))
        left -= min(left, len(text))
        if left == 0:
            break
    return [*cut, ("…", "dim")]
