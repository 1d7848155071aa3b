"""What every folder of tests shares."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from typing import Any

import pytest
from faults import note_fault
from hypothesis import HealthCheck, settings

# The same examples every time, however fast the machine is; `--hypothesis-profile=explore` draws others.
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", settings.get_profile("explore"), derandomize=True)
settings.load_profile("same")


def pytest_configure() -> None:
    """A shell's background job ignores SIGINT, one under nohup SIGHUP, and so would all that a test starts."""
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        # Handled, it still does nothing here, and is its default again in what is started.
        signal.signal(signal.SIGHUP, lambda *_: None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep what became of each fault."""
    report = yield
    note_fault(item, call, report.outcome)
    return report
