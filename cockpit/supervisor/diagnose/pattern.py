"""Patterns with a literal part, so that most lines are settled without a regular expression."""

from __future__ import annotations

import re

_PART = re.compile(
    r"(?P<plain>[^\\\[{()}.^$|?*+]+)"
    r"|\\(?P<escaped>[^A-Za-z0-9])"
    r"|\[\^?\]?(?:[^\]\\]|\\.)*\]|\{[^}]*\}|\((?:[^()\[\\]|\\.)*\)"
    r"|(?P<mark>\\[xuU\d][\dA-Fa-f]*|\\?.)",
    re.DOTALL,
)
"""Plain characters, an escaped one, a class, a count, a simple group, or whatever else has a meaning of its own."""
_NONE_TOO = ("?", "*", "{")
"""What comes after a character that need not be there."""


def literal_of(pattern: str) -> str:
    """The longest text that whatever the pattern matches must contain; empty when there is none to be seen.

    Looks outside of groups and classes only; a bar outside of a group makes it empty.
    """
    longest, run, depth = "", "", 0
    for part in _PART.finditer(pattern):
        plain, mark = part["plain"] or part["escaped"], part["mark"]
        if mark == "|" and depth == 0:
            return ""
        depth += (mark == "(") - (mark == ")")
        goes_on = plain is not None and depth == 0
        if goes_on:
            goes_on = pattern[part.end() : part.end() + 1] not in _NONE_TOO
            run += plain if goes_on else plain[:-1]
        if len(run) > len(longest):
            longest = run
        if not goes_on:
            run = ""
    return longest


class Pattern:
    """A regular expression behind its literal; compiled when it is first needed, as most never are."""

    __slots__ = ("_regex", "literal", "text")

    def __init__(self, pattern: str) -> None:
        self.literal = literal_of(pattern)
        self.text = pattern
        self._regex: re.Pattern[str] | None = None

    def search(self, text: str) -> re.Match[str] | None:
        """Where the text has it, if it does."""
        if self.literal not in text:
            return None
        if self._regex is None:
            self._regex = re.compile(self.text, re.DOTALL | re.MULTILINE)
        return self._regex.search(text)
