"""Patterns with a literal part, so that most lines are settled without a regular expression."""

from __future__ import annotations

import re

_CLASSES = set("wWdDsSbBAZ0123456789")


def literal_of(pattern: str) -> str:
    """The longest text that whatever the pattern matches must contain; empty when there is none to be seen.

    Looks outside of groups and classes only; a bar outside of a group makes it empty.
    """
    runs, run, index, depth = [], "", 0, 0
    while index < len(pattern):
        character = pattern[index]
        index += 1
        if character == "\\" and index < len(pattern):
            character, index = pattern[index], index + 1
            plain = character not in _CLASSES
        elif character in "[{":
            index = _end_of(pattern, index, "]" if character == "[" else "}")
            plain = False
        else:
            plain = character not in "(){}.^$|?*+"
        if character == "|" and not plain and depth == 0:
            return ""
        depth += (character == "(" and not plain) - (character == ")" and not plain)
        if plain and depth == 0 and pattern[index : index + 1] not in ("?", "*", "{"):
            run += character
        else:
            runs.append(run)
            run = ""
    return max([*runs, run], key=len)


def _end_of(pattern: str, index: int, bracket: str) -> int:
    while index < len(pattern) and pattern[index] != bracket:
        index += 2 if pattern[index] == "\\" else 1
    return index + 1


class Pattern:
    """A regular expression behind its literal; compiled when it is first needed, as most never are."""

    __slots__ = ("_pattern", "_regex", "literal")

    def __init__(self, pattern: str) -> None:
        self.literal = literal_of(pattern)
        self._pattern = pattern
        self._regex: re.Pattern[str] | None = None

    def search(self, text: str) -> re.Match[str] | None:
        """Where the text has it, if it does."""
        if self.literal not in text:
            return None
        if self._regex is None:
            self._regex = re.compile(self._pattern, re.DOTALL | re.MULTILINE)
        return self._regex.search(text)
