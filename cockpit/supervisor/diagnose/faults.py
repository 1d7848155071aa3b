"""Whether an exception is a program's own mistake, or a sentence against what was asked for."""

from __future__ import annotations

import re

from cockpit.supervisor.diagnose.refusals import asked
from cockpit.supervisor.diagnose.types import Evidence

_PROGRAMMING = re.compile(
    r"(?:AttributeError|TypeError|NameError|UnboundLocalError|IndexError|KeyError|AssertionError|NotImplementedError"
    r"|ZeroDivisionError|StopIteration)\b"
)
"""Exceptions that a program raises against its own mistakes."""
_SENTENCE = re.compile(
    r"^(?:AssertionError|NotImplementedError): (?:\S+\s+){3}\S|^\w+Error: .{0,80}(?<![\w-])--[a-z]"
)
"""Where it is meant for the user: a check that was written out."""
_REFUSAL = re.compile(r"(?:[\w.]+\.)?(?:ValueError|NotImplementedError|ValidationError): (?:\S+\s+){3}\S")


def is_fault(seen: Evidence) -> bool:
    """Whether a program failed, and did not refuse."""
    text = seen.incident.text
    return _PROGRAMMING.match(text) is not None and _SENTENCE.match(text) is None


def refuses(seen: Evidence) -> bool:
    """Whether the exception is a sentence against what was asked for, so that another release says the same."""
    return not is_fault(seen) and (bool(asked(seen)) or _REFUSAL.match(seen.incident.text) is not None)
