"""The clock of rates and ages."""

from __future__ import annotations

import inspect
import sys
import time

import pytest

from cockpit.telemetry.clock import elapsed
from cockpit.telemetry.fetch import fetch
from cockpit.telemetry.gpu_poller import GpuPoller
from cockpit.telemetry.host import HostReader
from cockpit.telemetry.sampler import Sampler


@pytest.mark.parametrize("reader", [Sampler, HostReader, GpuPoller, fetch])
def test_all_figures_are_timed_by_the_clock_that_goes_on_while_the_machine_sleeps(reader):
    assert inspect.signature(reader).parameters["clock"].default is elapsed


def test_it_never_goes_back_and_is_ahead_of_the_one_that_stands_still_in_a_suspend():
    before = elapsed()
    assert elapsed() >= before
    if sys.platform == "linux":
        stands_still, goes_on = time.monotonic(), time.clock_gettime(time.CLOCK_BOOTTIME)
        now = elapsed()
        assert now >= stands_still - 0.001
        assert goes_on - 0.001 <= now <= time.clock_gettime(time.CLOCK_BOOTTIME) + 0.001
