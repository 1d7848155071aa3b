"""Servers of known truth, clocks that stand still, and the recorded metrics."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cockpit.telemetry import fetch, gpu_poller

TESTS = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TESTS / "fakes"))

from truth_server import TruthServer  # noqa: E402 - found through the line above


class Clock:
    """Seconds that pass only when told to."""

    def __init__(self, now: float = 1_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def pass_seconds(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """What answers is waited for, however busy this machine is; tests of what does not answer set their own."""
    monkeypatch.setattr(fetch, "STEP_TIMEOUT_SECONDS", 60.0)
    monkeypatch.setattr(fetch, "WHOLE_TIMEOUT_SECONDS", 120.0)
    monkeypatch.setattr(gpu_poller, "FIRST_PATIENCE_SECONDS", 60.0)
    monkeypatch.setattr(gpu_poller, "PATIENCE_SECONDS", 60.0)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def truth(clock: Clock) -> Iterator[Callable[[str], TruthServer]]:
    """Start truth servers on the test's clock; all are closed at the end."""
    started: list[TruthServer] = []

    def start(mode: str = "steady") -> TruthServer:
        started.append(TruthServer(mode, clock=clock))
        return started[-1]

    yield start
    for server in started:
        server.close()


@pytest.fixture
def recorded() -> Callable[[str], str]:
    """Text of a recorded /metrics."""
    return lambda name: (TESTS / "fixtures" / "metrics" / f"{name}.txt").read_text(encoding="utf-8")
