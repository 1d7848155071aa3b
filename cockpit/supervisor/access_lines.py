"""Access lines: one for each request that a server has answered, which drown what its log says besides."""

from __future__ import annotations

import re

_ACCESS = re.compile(r'- "[A-Z]{3,7} \S* HTTP/\d(?:\.\d)?" [123]\d\d(?: [A-Za-z -]{1,40})?\s*$')
"""As uvicorn writes them; a request that failed is news."""


def is_access(line: str) -> bool:
    """Whether a log line says only that a request was answered, and not with an error."""
    return " HTTP/" in line and _ACCESS.search(line) is not None
