"""Who holds a GPU's memory, told apart."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from test_boot_history import record

from cockpit.rig.leftovers import Leftover
from cockpit.supervisor import holders, store
from cockpit.supervisor.record import ProcessIdentity

GIB = 1 << 30


def test_leftovers_instances_and_strangers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    lost = ProcessIdentity(pid=8001, start_time=1.0)
    store.save(record(1.0, process=ProcessIdentity(pid=8000, start_time=1.0), descendants=(lost,)))
    held: dict[int, dict[int, Any]] = {0: {8001: 9 * GIB, 8002: 20 * GIB, 8003: None}, 1: {}}
    monkeypatch.setattr(holders, "gpu_holders", lambda: held)
    monkeypatch.setattr(
        holders,
        "find_leftovers",
        lambda: tuple(Leftover(pid=pid, title="VLLM::Worker", started_at=1.0, gpu_bytes={}) for pid in (8001, 8002)),
    )
    monkeypatch.setattr(holders, "process_name", lambda pid: f"VLLM::Worker (pid {pid})")
    monkeypatch.setattr(holders, "is_alive", lambda who: who == lost)
    assert holders.describe_holders() == {
        0: "VLLM::Worker (pid 8002) 20,480 MiB, left over from a dead server: `kill -9 8002` ends it; "
        "VLLM::Worker (pid 8001) 9,216 MiB, left over from a dead server: `cockpit stop vllm-dual` ends it; "
        "VLLM::Worker (pid 8003) of unknown size"
    }


def test_nobody_looks_for_leftovers_on_empty_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holders, "gpu_holders", lambda: {0: {}})
    monkeypatch.setattr(holders, "find_leftovers", lambda: 1 / 0)
    assert holders.describe_holders() == {}


def test_a_pid_that_was_an_instances_once_is_not_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    store.save(record(1.0, process=ProcessIdentity(pid=os.getpid(), start_time=1.0, birth="another-boot:1")))
    monkeypatch.setattr(holders, "gpu_holders", lambda: {0: {os.getpid(): GIB}})
    assert "vllm-dual" not in holders.describe_holders()[0]
