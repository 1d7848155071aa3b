"""Faults that were tried, kept for docs/reliability.md: one line of JSON each, when a file is asked for."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

RESULTS = "COCKPIT_FAULTS"
"""Variable with the file that results are appended to."""
SOAK = "COCKPIT_SOAK"
"""Variable that asks for the long runs."""


def cycles(short: int, long: int) -> int:
    """How often a fault is tried: a short pass unless a soak was asked for."""
    return long if os.environ.get(SOAK) else short


def note_fault(item: pytest.Item, call: pytest.CallInfo[Any], outcome: str) -> None:
    """Append the outcome of a test that is marked ``fault(what, then)``."""
    mark = item.get_closest_marker("fault")
    target = os.environ.get(RESULTS)
    if mark is None or not target or call.when != "call":
        return
    stage = item.callspec.id if hasattr(item, "callspec") else ""
    if stage.isdigit():  # one of many cycles
        stage = ""
    line = {
        "fault": mark.args[0],
        "then": mark.args[1],
        "case": stage,
        "suite": item.nodeid.split("/")[1],
        "outcome": outcome,
        "seconds": round(call.duration, 2),
    }
    with Path(target).open("a", encoding="utf-8") as handle:
        handle.write(json.dumps(line) + "\n")
