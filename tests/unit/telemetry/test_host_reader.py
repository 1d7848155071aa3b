"""Host readings of this very machine, and of real child processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import psutil
import pytest

from cockpit.telemetry import host
from cockpit.telemetry.host import HostReader

BURN = "x = bytearray(60_000_000)\nprint('up', flush=True)\nwhile True: pass"


@pytest.fixture
def burner():
    with subprocess.Popen([sys.executable, "-c", BURN], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield process
        process.kill()


def test_memory_is_that_of_this_host():
    reading = HostReader().read()
    assert reading.memory_total_bytes == psutil.virtual_memory().total
    assert 0 < reading.memory_used_bytes < reading.memory_total_bytes
    assert reading.instance_bytes is None
    assert reading.instance_cpu_cores is None


def test_processor_use_is_unknown_at_the_first_reading_and_a_fraction_then():
    reader = HostReader()
    assert reader.read().cpu_fraction is None
    time.sleep(0.1)
    assert 0.0 <= reader.read().cpu_fraction <= 1.0


def test_a_busy_process_is_seen_with_its_memory_and_its_core(burner):
    reader = HostReader()
    reading = reader.read({burner.pid})
    assert reading.instance_cpu_cores is None
    limit = time.monotonic() + 60
    # Others may have the processor, and it may be taken away between two readings of one look.
    while not 0.1 < (reading.instance_cpu_cores or 0) < 1.3 and time.monotonic() < limit:
        time.sleep(0.6)
        reading = reader.read({burner.pid})
    assert 0.1 < reading.instance_cpu_cores < 1.3
    assert 60_000_000 < reading.instance_bytes < 200_000_000


def test_memory_is_read_anew_only_every_few_seconds_or_for_other_processes(burner, clock, monkeypatch):
    asked = []
    monkeypatch.setattr(host, "_process_bytes", lambda process: asked.append(process.pid) or 7)
    reader = HostReader(clock)
    for _ in range(5):
        assert reader.read({burner.pid}).instance_bytes == 7
        clock.pass_seconds(1.0)
    assert len(asked) == 1
    clock.pass_seconds(1.0)
    reader.read({burner.pid})
    assert len(asked) == 2
    assert reader.read({burner.pid, os.getpid()}).instance_bytes == 14
    assert len(asked) == 4


def test_a_process_that_is_gone_is_left_out(burner):
    burner.kill()
    burner.wait()
    reading = HostReader().read({burner.pid, -4})
    assert reading.instance_bytes is None
    assert reading.instance_cpu_cores is None
