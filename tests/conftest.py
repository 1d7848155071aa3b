"""What every folder of tests shares."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from faults import note_fault
from hypothesis import HealthCheck, settings

# The same examples every time, however fast the machine is; `--hypothesis-profile=explore` draws others.
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", settings.get_profile("explore"), derandomize=True)
settings.load_profile("same")


HOMES = Path(tempfile.mkdtemp(prefix="cockpit-tests-"))


def pytest_configure() -> None:
    """No test sees the user's own servers and settings, whatever it forgets to set or takes back.

    A shell's background job ignores SIGINT, one under nohup SIGHUP, and so would all that a test starts.
    """
    for kind in ("CONFIG", "STATE"):
        os.environ[f"XDG_{kind}_HOME"] = str(HOMES / kind.lower())
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        # Handled, it still does nothing here, and is its default again in what is started.
        signal.signal(signal.SIGHUP, lambda *_: None)


def pytest_unconfigure() -> None:
    """Of what no test made a place of its own for, nothing stays."""
    shutil.rmtree(HOMES, ignore_errors=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep what became of each fault."""
    report = yield
    note_fault(item, call, report.outcome)
    return report
