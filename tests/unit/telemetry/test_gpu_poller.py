"""A driver that hangs makes GPU figures old and keeps nobody waiting."""

from __future__ import annotations

import threading
import time

import pytest
from fake_nvml import GIB, Nvml

from cockpit.telemetry import gpu_poller
from cockpit.telemetry.gpu import GpuReader
from cockpit.telemetry.gpu_poller import GpuPoller
from cockpit.telemetry.sampler import Sampler


@pytest.fixture
def hang(monkeypatch):
    """An event that lets hung calls go on when the test is over; after a first answer no other is waited for long."""
    monkeypatch.setattr(gpu_poller, "PATIENCE_SECONDS", 0.2)
    event = threading.Event()
    yield event
    event.set()


def wait_for(condition):
    limit = time.monotonic() + 60
    while not condition() and time.monotonic() < limit:
        time.sleep(0.01)
    assert condition()


def test_a_reading_is_of_now(clock):
    poller = GpuPoller(GpuReader(nvml=Nvml([(0, 10, GIB)])), clock)
    read = poller.read({10})
    assert (read.age_seconds, read.sample.problem, len(read.sample.gpus)) == (0.0, None, 2)
    assert read.sample.gpus[0].instance_bytes == GIB
    poller.close()


def test_a_driver_that_never_answers_is_said_and_asked_once(clock, hang, monkeypatch):
    monkeypatch.setattr(gpu_poller, "FIRST_PATIENCE_SECONDS", 1.0)
    nvml = Nvml()
    nvml.hang = hang
    poller = GpuPoller(GpuReader(nvml=nvml), clock)
    assert poller.read().age_seconds is None
    began = time.monotonic()
    for _ in range(60):
        read = poller.read()
    assert time.monotonic() - began < 30, "each read would wait a second"
    assert (read.sample.gpus, nvml.calls) == ((), ["init"])
    assert "has not answered" in read.sample.problem


def test_a_driver_that_begins_to_hang_leaves_old_figures_and_then_none(clock, hang):
    nvml = Nvml()
    poller = GpuPoller(GpuReader(nvml=nvml), clock)
    poller.read()
    nvml.hang = hang
    clock.pass_seconds(1)
    assert poller.read().age_seconds == 1.0
    clock.pass_seconds(6)
    old = poller.read()
    assert (old.age_seconds, len(old.sample.gpus)) == (7.0, 2)
    assert old.sample.problem == "NVML has not answered for 6 s: the driver may hang."
    clock.pass_seconds(4)
    gone = poller.read()
    assert (gone.age_seconds, gone.sample.gpus) == (11.0, ())
    began = time.monotonic()
    poller.close()
    assert time.monotonic() - began < 30


def test_a_driver_that_answers_again_is_read_again(clock, hang):
    nvml = Nvml()
    poller = GpuPoller(GpuReader(nvml=nvml), clock)
    poller.read()
    nvml.hang = hang
    clock.pass_seconds(5)
    assert poller.read().sample.problem is not None
    nvml.hang = None
    hang.set()
    wait_for(lambda: poller.read().sample.problem is None)
    assert poller.read().age_seconds == 0.0
    poller.close()


def test_the_frame_carries_the_age_and_the_other_figures_go_on(truth, clock, hang):
    nvml = Nvml()
    sampler = Sampler(truth("steady").url, clock=clock, gpu_reader=GpuReader(nvml=nvml))
    sampler.tick(1_000.0, "ready")
    nvml.hang = hang
    for second in range(1, 7):
        clock.pass_seconds(1.0)
        frame = sampler.tick(1_000.0 + second, "ready")
    assert frame.gpu_age_seconds == 6.0
    assert "may hang" in frame.gpu_problem
    assert frame.throughput.decode_tokens_per_second == pytest.approx(90, rel=0.02)
    sampler.close()
