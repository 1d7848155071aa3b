"""Keeps secrets out of text that is shown, saved or copied: told by their values, their names or their look."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping

from cockpit.api_key import known_api_key

REDACTED = "<redacted>"
_VARIABLE = re.compile(r"KEY|(?:^|_)TOKEN(?:_|$)|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
_SHORTEST_VALUE = 6
"""A shorter value would take too much of an innocent text with it."""

_NAME = (
    r"(?:[A-Za-z0-9]+[_-])*(?:api[_-]?keys?|secrets?|passw(?:or)?d|credentials?|private[_-]?key|access[_-]?key)"
    r"|(?:[A-Za-z0-9]+[_-])*(?:hf|hub|auth|access|bearer|refresh|session|api)[_-]?token"
    r"|authorization"
)
# A string keeps its quotes; a quote that is never closed goes to the end of the line. A list goes as a whole.
_VALUE = r"(?:\\?\"(?:[^\"\\]|\\.)*\\?\"?|\\?'(?:[^'\\]|\\.)*'?|\[[^\]]*\]?|\([^)]*\)?|[^\s,;&}\])'\"]+)"
_NOTHING = r"(?:None|null|True|False|true|false|\[\]|''|\"\"|<redacted>)(?![\w-])"
_HINTS = ("secret", "passw", "credential", "authorization", "bearer", "basic", "hf_", "sk-")
_JOINTS = ("", "_", "-")
_BEFORE_KEY = tuple(word + joint for word in ("api", "private", "access") for joint in _JOINTS)
_BEFORE_TOKEN = tuple(
    word + joint
    for word in ("hf", "hub", "auth", "access", "bearer", "refresh", "session", "api")
    for joint in _JOINTS
)
_PAIR = re.compile(
    rf"(?P<before>(?<![A-Za-z0-9])(?P<quote>\\?['\"]?)(?:--)?(?:{_NAME})(?P=quote)\s*[:=]\s*)(?!{_NOTHING})"
    rf"(?:(?:Bearer|Basic)\s+)?{_VALUE}",
    re.IGNORECASE,
)
_FLAG = re.compile(
    rf"(?P<before>(?<![\w-])--?(?:api[_-]key|hf[_-]token)['\"]?(?:\s*,)?\s+)(?!--){_VALUE}", re.IGNORECASE
)
_BEARER = re.compile(r"(?P<before>\b(?:Bearer|Basic)\s+)[A-Za-z0-9._~+/=-]{6,}")
_LOOKS = re.compile(r"(?<![A-Za-z0-9])(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,})")
_USERINFO = re.compile(r"(?P<before>\b[a-z][a-z0-9+.-]{0,20}://)[^\s/@'\"]+@", re.IGNORECASE)


def is_secret(variable: str) -> bool:
    """Whether a variable's value must never be shown."""
    return _VARIABLE.search(variable) is not None


def secret_values(environ: Mapping[str, str] | None = None) -> frozenset[str]:
    """The secrets that this process knows (or those of ``environ``), to be looked for in texts."""
    where = os.environ if environ is None else environ
    values = [value for name, value in where.items() if is_secret(name)]
    if environ is None:
        values.append(known_api_key() or "")
    return frozenset(value for value in values if len(value.strip()) >= _SHORTEST_VALUE)


def redact(text: str, values: Collection[str] = ()) -> str:
    """``text`` with ``<redacted>`` for each of ``values`` and for what is a secret by its name or look."""
    for value in values:
        if value in text:
            text = text.replace(value, REDACTED)
    if not _may_hold_a_secret(text.lower()):
        return text
    text = _FLAG.sub(rf"\g<before>{REDACTED}", text)
    text = _PAIR.sub(rf"\g<before>{REDACTED}", text)
    text = _BEARER.sub(rf"\g<before>{REDACTED}", text)
    text = _USERINFO.sub(rf"\g<before>{REDACTED}@", text)
    return _LOOKS.sub(REDACTED, text)


def _may_hold_a_secret(small: str) -> bool:
    """Whether any pattern can match the text, here in small letters: settles most lines 50 times faster than they do.

    Every log of vLLM is full of tokens and keys that are none: ``tokens/s``, ``KV cache``.
    """
    return (
        any(hint in small for hint in _HINTS)
        or ("://" in small and "@" in small)
        or ("token" in small and _comes_after(small, "token", _BEFORE_TOKEN))
        or ("key" in small and _comes_after(small, "key", _BEFORE_KEY))
    )


def _comes_after(small: str, word: str, before: tuple[str, ...]) -> bool:
    """Whether the word comes right after any of what may stand before it."""
    return any(part.endswith(before) for part in small.split(word)[:-1])
