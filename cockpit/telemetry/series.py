"""The part of a Prometheus sample before its value: a name, and labels in braces.

As prometheus_client.parser reads it, except that what the format does not allow is never read: loading that package
takes 3.5 MB, and the tests hold the two against each other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r'[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*(?:,|$)', re.DOTALL)
_ESCAPE = re.compile(r'\\([\\n"])')


def parse_series(text: str) -> tuple[str, Mapping[str, str]] | None:
    """Name and labels of ``name`` or ``name{label="value",…}``; None when it is neither."""
    name, brace, rest = text.strip().partition("{")
    name = name.rstrip()
    if not _NAME.fullmatch(name) or (brace and not rest.endswith("}")):
        return None
    labels: dict[str, str] = {}
    inside, at = rest[:-1].rstrip() if brace else "", 0
    while at < len(inside):
        match = _LABEL.match(inside, at)
        if match is None or match[1] in labels or match[1].startswith("__"):
            return None
        labels[match[1]] = _ESCAPE.sub(_unescaped, match[2]) if "\\" in match[2] else match[2]
        at = match.end()
    return name, labels


def _unescaped(match: re.Match[str]) -> str:
    return "\n" if match[1] == "n" else match[1]
