"""Python values as a log shows them: the ``repr`` of a dict, or arguments by name; read as far as the line goes."""

from __future__ import annotations

import re
from typing import Any

from cockpit.supervisor.diagnose.number import number_of

_DEEPEST = 20
"""Values in values that are looked into; vLLM's configurations nest about four deep."""
_STRING = re.compile(r"[bru]?(?:'(?P<one>(?:[^'\\]|\\.)*)'|\"(?P<two>(?:[^\"\\]|\\.)*)\")", re.IGNORECASE)
_CALL = re.compile(r"[A-Za-z_][\w.]*\(")
_OBJECT = re.compile(r"<(?:[^<>]|<[^<>]*>)*>")
_WORD = re.compile(r"[^,()\[\]{}<>'\"]+")
_KEY = re.compile(r"[^,:()\[\]{}<>'\"]+")
_NAME = re.compile(r"([A-Za-z_]\w*)=(?!=)")
_BLANKS = re.compile(r"\s*")
_ESCAPED = re.compile(r"\\([\\'\"])")
"""Other escapes stay as they are written: what they stand for might move a terminal's cursor."""
_WHOLE = re.compile(r"[+-]?\d+")
_WORDS: dict[str, Any] = {"True": True, "true": True, "False": False, "false": False, "None": None, "null": None}
_ENDS = {"{": "}", "[": "]", "(": ")"}
_CUT = ("…", "...")


def read_dict(text: str) -> dict[str, Any]:
    """The first dict or JSON object of a text; what its end cuts is None, a dict or list in it as far as it went."""
    start = text.find("{")
    value = None if start < 0 else _Reader(text, start).value()
    return value if isinstance(value, dict) else {}


def read_arguments(text: str) -> dict[str, Any]:
    """``name=value, name=value``, to the end of the text or to a bracket that closes it."""
    return _Reader(text, 0).items("")[0]


def plain_value(text: str) -> Any:
    """A word or a number that stands outside of quotes."""
    if text in _WORDS:
        return _WORDS[text]
    number = None if "," in text else number_of(text)
    if number is None:
        return text
    return int(number) if _WHOLE.fullmatch(text) else number


class _Reader:
    """Reads on from a place in a text; where that ends early, or cannot be read, all that is open ends."""

    def __init__(self, text: str, at: int) -> None:
        self._text = text
        self._at = at
        self._depth = 0
        self._is_cut = False

    def value(self, word: re.Pattern[str] = _WORD) -> Any:
        """The value that begins here; of an object its arguments by name."""
        sign = self._next()
        if sign in _ENDS:
            self._at += 1
            pairs, others = self.items(_ENDS[sign])
            return others if sign != "{" or (others and not pairs) else pairs
        for pattern in (_STRING, _CALL, _OBJECT, word):
            match = pattern.match(self._text, self._at)
            if match is not None:
                self._at = match.end()
                return self._found(pattern, match)
        self._is_cut = True
        return None

    def items(self, end: str) -> tuple[dict[str, Any], list[Any]]:
        """What stands before ``end``: values with a key or a name, and the others."""
        pairs: dict[str, Any] = {}
        others: list[Any] = []
        self._depth += bool(end)
        self._is_cut = self._is_cut or self._depth > _DEEPEST
        while not self._is_cut and self._next() != end:
            self._item(end, pairs, others)
            if self._is_cut or self._next() != ",":
                break
            self._at += 1
        if end:
            self._depth -= 1
            self._is_cut = self._is_cut or self._next() != end
            self._at += 1
        return pairs, others

    def _item(self, end: str, pairs: dict[str, Any], others: list[Any]) -> None:
        name = _NAME.match(self._text, self._at) if end in ("", ")") else None
        if name is not None:
            self._at = name.end()
            pairs[name[1]] = self.value()
            return
        value = self.value(_KEY if end == "}" else _WORD)
        if end == "}" and not self._is_cut and self._next() == ":":
            self._at += 1
            pairs[str(value)] = self.value()
        elif not self._is_cut:
            others.append(value)

    def _found(self, pattern: re.Pattern[str], match: re.Match[str]) -> Any:
        if pattern is _STRING:
            return _ESCAPED.sub(r"\1", match["two"] if match["one"] is None else match["one"])
        if pattern is _OBJECT:
            return match[0]
        if pattern is _CALL:
            pairs, others = self.items(")")
            return others[0] if len(others) == 1 and not pairs else pairs
        word = match[0].strip()
        self._is_cut = word.endswith(_CUT) or (self._depth > 0 and self._at >= len(self._text))
        return None if self._is_cut else plain_value(word)

    def _next(self) -> str:
        """The next character that is no blank; empty at the end."""
        blanks = _BLANKS.match(self._text, self._at)
        self._at = self._at if blanks is None else blanks.end()
        return self._text[self._at : self._at + 1]
