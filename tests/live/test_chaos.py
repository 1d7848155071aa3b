"""A real vLLM that is killed piece by piece: what is left is found, named and ended."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
from faults import cycles

from cockpit import paths
from cockpit.supervisor import store
from cockpit.supervisor.stop import stop

from .conftest import SLUG, Family, cockpit, own_rows, serving

pytestmark = pytest.mark.live
NAME = "cpu-tiny-qwen3"


@pytest.fixture(autouse=True)
def alone(home: Path) -> Iterator[None]:
    """What a failed test leaves running is no fault of the next one."""
    yield
    for record in store.load_all()[0]:
        stop(record)


def served() -> tuple[dict[str, Any], Family]:
    """Serve it and wait; what `serve --json` said, and the server's family."""
    answer = cockpit("serve", SLUG, "--wait", "--json")
    assert answer.code == 0, answer.err
    said: dict[str, Any] = answer.json
    return said, Family(said["pid"])


def until(condition: Callable[[], object], seconds: float = 240.0) -> bool:
    limit = time.monotonic() + seconds
    while not condition() and time.monotonic() < limit:
        time.sleep(0.1)
    return bool(condition())


def engine_of(family: Family) -> psutil.Process:
    return next(one for one in family.processes if one.name().startswith("VLLM::Engine"))


def nothing_left(family: Family, home: Path) -> None:
    # The tracker of Python's shared memory ends by itself once the last process that told it of any is gone.
    until(lambda: family.left() == [])
    assert family.left() == []
    assert serving(str(paths.shipped("slugs") / SLUG), home) == []
    assert own_rows() == []


@pytest.mark.fault("SIGKILL of a real vLLM's server process", "engine and worker are listed as orphans, and ended")
def test_orphans_of_a_killed_server_are_found_with_and_without_its_record(home: Path) -> None:
    said, family = served()
    left = {one.pid for one in family.processes if one.name().startswith("VLLM::")}
    engine = engine_of(family).pid
    os.kill(said["pid"], signal.SIGKILL)
    assert until(lambda: own_rows()[0]["state"] == "dead")
    (row,) = own_rows()
    assert engine in left and left <= set(row["orphans"])
    assert f"`cockpit stop {NAME}` ends them" in cockpit("ps").err
    assert any(str(engine) in check["message"] for check in cockpit("doctor", "--json").json)
    # Without the record nothing but their titles and their group says whose they are.
    (paths.instances_home() / f"{NAME}.json").unlink()
    name = f"orphans-{said['pid']}"
    assert any(one["instance"] == name and set(one["orphans"]) == left for one in cockpit("ps", "--json").json)
    stopped = cockpit("stop", name, "--json")
    assert stopped.code == 0 and stopped.json["orphans"] == [], stopped.err
    nothing_left(family, home)


@pytest.mark.fault("SIGKILL of a real vLLM's EngineCore", "dead, the log names the engine, and nothing is left")
def test_a_killed_engine_is_a_death_with_its_cause(home: Path) -> None:
    _, family = served()
    os.kill(engine_of(family).pid, signal.SIGKILL)
    assert until(lambda: own_rows()[0]["state"] == "dead")
    log = cockpit("logs", NAME, "-n", "300").out
    assert "EngineDeadError" in log, log[-3000:]
    stopped = cockpit("stop", NAME)
    assert stopped.code == 0, stopped.err
    nothing_left(family, home)


def thief_of(port: int, host: str) -> socket.socket:
    """Listens on a port that a vLLM has bound already and does not listen on yet."""

    def is_bound() -> bool:
        with socket.socket() as probe:
            try:
                probe.bind((host, port))
            except OSError:
                return True
            return False

    assert until(is_bound)
    thief = socket.socket()
    thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    thief.bind((host, port))
    thief.listen()
    return thief


@pytest.mark.fault("a port taken after a real vLLM has bound it", "told with its owner, and not waited for")
def test_a_port_that_is_taken_before_a_vllm_listens(home: Path, host: str) -> None:
    if cycles(0, 1) == 0:
        pytest.skip(
            "servers that do the same try it in tests/process; a real boot takes a minute: `make soak` does it"
        )
    with socket.socket() as probe:
        probe.bind((host, 0))
        port = probe.getsockname()[1]
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(cockpit, "serve", SLUG, "--wait", "--json", "--set", f"port={port}")
        with thief_of(port, host):
            answer = waiting.result()
    assert answer.code == 1, answer.err
    assert answer.json["state"] == "starting" and answer.json["not_awaited"]["id"] == "port-taken", answer.err
    assert f"(pid {os.getpid()})" in answer.json["not_awaited"]["sentence"]
    family = Family(answer.json["pid"])
    stopped = cockpit("stop", NAME)
    assert stopped.code == 0, stopped.err
    nothing_left(family, home)


@pytest.mark.fault("a real vLLM started and stopped, again and again", "every cycle ends with nothing left")
@pytest.mark.parametrize("cycle", range(cycles(1, 20)))
def test_a_real_cycle(home: Path, cycle: int) -> None:
    if cycles(0, 1) == 0:
        pytest.skip("other tests start and stop one too; twenty cycles take ten minutes: `make soak` runs them")
    _, family = served()
    stopped = cockpit("stop", NAME, "--json")
    assert stopped.code == 0 and stopped.json["stopped"], stopped.err
    nothing_left(family, home)
