"""An incident as one line for people."""

from __future__ import annotations

import re

from cockpit.supervisor.diagnose.types import Incident

_MAX_CHARACTERS = 1000
_PRIVATE = re.compile(r"^(?:\w+\.)*_\w+\.(?=[A-Z])")
"""Where an exception's class lies inside its library: ``pydantic_core._pydantic_core.``"""
_VALIDATION = re.compile(
    r"(?P<type>[\w.]*ValidationError|[\w. -]{1,60}: error: argument \S{1,80})"
    r": \d+ validation errors? for (?P<what>\S+)"
)
_INPUT = re.compile(r"\s*\[type=\w+, input_value=.*", re.DOTALL)
_REASON = re.compile(r"^(?:Value error|Assertion failed), ", re.MULTILINE)
_SEE_ALSO = re.compile(r"^For further information visit .*", re.MULTILINE)


def shown_exception(incident: Incident) -> str:
    """``XxxError: message`` as one line: pydantic's reason without its frame, the next line for no message."""
    text = incident.text
    validation = _VALIDATION.match(text)
    if validation is not None:
        return _reason_of(validation, text[validation.end() :])
    first, _, rest = text.partition("\n")
    first = first.strip()
    if first.endswith(":") and rest.strip():
        first = f"{first} {rest.strip().partition(chr(10))[0]}"
    return _PRIVATE.sub("", first.removesuffix(":"))[:_MAX_CHARACTERS]


def _reason_of(validation: re.Match[str], rest: str) -> str:
    rest = _SEE_ALSO.sub("", _INPUT.sub("", rest))
    reason = _REASON.sub("", rest.strip())
    words = " ".join(reason.split())
    name = _PRIVATE.sub("", validation["type"])
    return f"{name}: {validation['what']}: {words}"[:_MAX_CHARACTERS] if words else f"{name}: {validation['what']}"
