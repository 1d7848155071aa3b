"""The address of a dead instance that is started again."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cockpit.supervisor import process, store
from cockpit.supervisor.record import InstanceRecord
from cockpit.this_host import address_again, promised_to

HOST = "127.0.0.1"


def record(name: str, port: int, **fields: Any) -> InstanceRecord:
    given: dict[str, Any] = {
        "slug": f"a/{name}",
        "model": "m",
        "served_model_name": name,
        "argv": (),
        "env": {},
        "cwd": "/",
        "host": HOST,
        "url": f"http://{HOST}:{port}",
        "log": f"/log/{name}",
        "created_at": 1.0,
    }
    return InstanceRecord(name=name, port=port, **{**given, **fields})


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as other:
        other.bind((HOST, 0))
        other.listen()
        yield other.getsockname()[1]


@pytest.fixture
def free() -> int:
    with socket.socket() as other:
        other.bind((HOST, 0))
        return int(other.getsockname()[1])


def test_it_keeps_its_address(free: int) -> None:
    dead = record("dead", free, ended_at=2.0)
    store.save(dead)
    assert address_again(dead, {}, HOST) == {"host": HOST, "port": free}


def test_it_does_not_take_what_another_was_promised(free: int) -> None:
    store.save(record("starting", free))
    assert address_again(record("dead", free, ended_at=2.0), {}, HOST) == {}
    assert address_again(record("dead", free, ended_at=2.0), {}, "0.0.0.0") == {"host": HOST}


def test_it_does_not_take_what_another_has(taken: int) -> None:
    assert address_again(record("dead", taken, ended_at=2.0), {}, HOST) == {}


def test_the_port_of_a_fix_is_the_next_that_is_free(taken: int) -> None:
    store.save(record("starting", taken + 1))
    again = address_again(record("dead", taken, ended_at=2.0), {"port": taken}, HOST)
    assert again["host"] == HOST and again["port"] > taken + 1


def test_the_host_of_a_fix_counts(free: int) -> None:
    dead = record("dead", free, host="192.0.2.7", ended_at=2.0)
    assert address_again(dead, {"host": HOST}, HOST)["host"] == HOST


def test_whose_port_it_is_is_told_without_asking_a_server_that_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        port = hanging.getsockname()[1]
        store.save(record("vllm-slow", port, process=process.identity(os.getpid())))
        assert promised_to("127.0.0.1", port) == "vllm-slow"
        hanging.setblocking(False)
        with pytest.raises(BlockingIOError):
            hanging.accept()
