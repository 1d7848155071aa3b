"""What every folder of tests shares."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from faults import note_fault


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep what became of each fault."""
    report = yield
    note_fault(item, call, report.outcome)
    return report
