"""Access lines: one for each request that a server has answered, which drown what its log says besides."""

from __future__ import annotations

import re

_ANSWER = r'- "[A-Z]{3,7} \S* HTTP/\d(?:\.\d)?" [123]\d\d(?: [A-Za-z -]{1,40})?\s*$'
_ACCESS = re.compile(_ANSWER)
"""As uvicorn writes them; a request that failed is news."""
_NOTHING_ELSE = re.compile(rf"(?:[\w.:%\[\]]{{1,60}} )?{_ANSWER}")


def is_access(line: str) -> bool:
    """Whether a log line says only that a request was answered, and not with an error."""
    return " HTTP/" in line and _ACCESS.search(line) is not None


def is_only_access(text: str) -> bool:
    """Whether the text of a line, without what is put before it, is that: no other line stands before it."""
    return " HTTP/" in text and _NOTHING_ELSE.match(text) is not None
