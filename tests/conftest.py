"""What every folder of tests shares."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from typing import Any

import pytest
from faults import note_fault


def pytest_configure() -> None:
    """A shell's background job ignores SIGINT, and so would every server that a test starts and then interrupts."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep what became of each fault."""
    report = yield
    note_fault(item, call, report.outcome)
    return report
