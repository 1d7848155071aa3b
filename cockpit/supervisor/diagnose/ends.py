"""How a server ended when no exception tells: signals, exit codes, reports of a failure elsewhere."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence

from cockpit.supervisor.diagnose.types import End, Incident

_CORE_CODES = re.compile(r"[Ff]ailed core proc\(s\): \{(?P<codes>[^}]*)\}")
_WORKER = re.compile(r"Worker ?[Pp]roc (?P<name>\S+) died unexpectedly")
_ENGINE = re.compile(r"Engine process \(pid \d+\) died|Engine loop has died")
_CODE = re.compile(r"'?[\w-]+'?: (?P<code>-?\d{1,5})")
_DIED_CODE = re.compile(r"(?:exit ?code:? |exit code )(?P<code>-?\d{1,5})")


def signal_of(code: int | None) -> int | None:
    """The signal in an exit code: negative as Popen gives it, 128 + n as a shell or docker does."""
    if code is None:
        return None
    if code < 0:
        return -code
    return code - 128 if 129 <= code <= 128 + 31 else None


def silent_end(wrappers: Sequence[str], end: End) -> Incident | None:
    """The end of a server that left no exception, worded for the table; None when nothing says that it ended."""
    codes = [code for text in wrappers for code in _codes_of(text)]
    for code in (*codes, end.exit_code):
        number = signal_of(code)
        if number is not None:
            return Incident(text=f"killed by signal {number} ({_name(number)}), exit code {code}")
    worker = next(filter(None, map(_WORKER.search, wrappers)), None)
    if worker is not None:
        return Incident(text=f"worker {worker['name']} ended without a word")
    if any(map(_ENGINE.search, wrappers)):
        return Incident(text="the engine ended without a word")
    if wrappers:
        hang = not codes and any(_CORE_CODES.search(text) for text in wrappers)
        return Incident(text="the engine ended without a word" if hang else f"reported only: {wrappers[-1].strip()}")
    if end.dead and not end.asked_for:
        known = "" if end.exit_code is None else f", exit code {end.exit_code}"
        return Incident(text=f"the server ended without a word{known}")
    return None


def _codes_of(text: str) -> list[int]:
    found = _CORE_CODES.search(text)
    if found is not None:
        return [int(code["code"]) for code in _CODE.finditer(found["codes"])]
    return [int(code["code"]) for code in _DIED_CODE.finditer(text)]


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
