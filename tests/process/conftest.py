"""Real subprocesses, in a state home of their own, and nothing left of them after a test."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cockpit.launch.types import LaunchPlan
from cockpit.rig.leftovers import Leftover, find_settled_leftovers
from cockpit.supervisor import process, store
from cockpit.supervisor.boot_watch import Progress, wait_ready
from cockpit.supervisor.others import Other, find_others
from cockpit.supervisor.record import InstanceRecord
from cockpit.supervisor.spawn import Running

PATIENCE = 90.0
"""Seconds; only what fails takes them, and everything here also runs on machines that have other things to do."""
_PORTS = itertools.count()
_BLOCK_PORTS, _BLOCKS = 16, 600
FAKE_SERVER = Path(__file__).parents[1] / "fakes" / "fake_server.py"


@pytest.fixture(autouse=True)
def homes(tmp_path: Path) -> Iterator[Path]:
    """XDG homes of this test alone, which no ``monkeypatch.undo()`` takes back, and no server left afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        for kind in ("CONFIG", "DATA", "STATE", "CACHE"):
            patch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind.lower()))
        # Tests run side by side: what another one orphans is neither shown nor ended here.
        patch.setattr("cockpit.supervisor.others.find_settled_leftovers", lambda: _own_leftovers(str(tmp_path)))
        yield tmp_path
        for record in store.load_all()[0]:
            for who in process.members_of(record):
                process.send_signal(who, signal.SIGKILL)


def _own_leftovers(home: str) -> tuple[Leftover, ...]:
    return tuple(left for left in find_settled_leftovers() if home in _environment(left.pid))


def _environment(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/environ").read_text(errors="replace")
    except OSError:  # another test's, and ended by it
        return ""


@pytest.fixture
def free_port() -> int:
    """A port that stays free until it is bound: neither the kernel nor another run of tests hands it out."""
    first = _block().getsockname()[1]
    while True:
        port = first + 1 + next(_PORTS) % (_BLOCK_PORTS - 1)
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return int(port)


@functools.cache
def _block() -> socket.socket:
    """Ports of this process alone, for as long as it holds the first of them."""
    for block in range(os.getpid(), os.getpid() + _BLOCKS):
        holder = socket.socket()
        try:
            holder.bind(("127.0.0.1", 10_000 + block % _BLOCKS * _BLOCK_PORTS))
        except OSError:
            holder.close()
        else:
            return holder
    raise RuntimeError("no block of ports is free")


@pytest.fixture
def make_plan(free_port: int, tmp_path: Path) -> Callable[..., LaunchPlan]:
    """A plan for the fake server: ``make_plan("--die-at", "0.2")``."""

    def make(*options: str, port: int = free_port, slug: str = "cpu/fake", **changes: object) -> LaunchPlan:
        values: dict[str, object] = {
            "slug": slug,
            "model": "fake",
            "served_model_name": "fake",
            "argv": (sys.executable, str(FAKE_SERVER), "--port", str(port), *options),
            "env": {},
            "cwd": str(tmp_path),
            "host": "127.0.0.1",
            "port": port,
            "gpus": (),
            "platform": "cpu",
            "engine": "fake",
            "values": {"int8": "off"},
            "findings": (),
        }
        return LaunchPlan(**{**values, **changes})  # type: ignore[arg-type]

    return make


def until_settled(running: Running, timeout: float = PATIENCE) -> Progress:
    """The last progress of a boot: ready, dead or timed out."""
    *_, last = wait_ready(running, timeout)
    return last


def wait_for(condition: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


def titled(record: InstanceRecord) -> int:
    """How many processes of a server there are that have come as far as their title, which is their first act."""
    return 1 + sum(process.is_engine(who) for who in process.members_of(record) if who != record.process)


def pids_of_session(leader: int) -> list[int]:
    """Living processes (no zombies) of a session."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                text = (folder / "stat").read_text(encoding="utf-8")
            except OSError:
                continue
            fields = text.rpartition(")")[2].split()
            if int(fields[3]) == leader and fields[0] not in "ZX":
                found.append(int(folder.name))
    return found


@pytest.fixture
def vllm(tmp_path: Path) -> Path:
    """A command named vllm that starts the fake server, as a console script of pip does."""
    command = tmp_path / "bin" / "vllm"
    command.parent.mkdir()
    command.write_text(
        f"#!{sys.executable}\nimport runpy, sys\n"
        "words = sys.argv[sys.argv.index('--port'):]\n"
        f"sys.argv = ['fake', *words]\nrunpy.run_path({str(FAKE_SERVER)!r}, run_name='__main__')\n"
    )
    command.chmod(0o755)
    return command


Serve = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def serve(vllm: Path, free_port: int) -> Iterator[Serve]:
    """Start a foreign ``vllm serve``; everything of it is killed afterwards."""
    started: list[subprocess.Popen[bytes]] = []

    def run(
        *options: str, env: dict[str, str] | None = None, model: str = "Qwen/Foreign-1B"
    ) -> subprocess.Popen[bytes]:
        words = [str(vllm), "serve", model, "--port", str(free_port), *options]
        one = subprocess.Popen(
            words, stdout=subprocess.DEVNULL, start_new_session=True, env={**os.environ, **(env or {})}
        )
        started.append(one)
        return one

    yield run
    for one in started:
        try:
            os.killpg(one.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        one.wait()


def other_of(pid: int) -> Other | None:
    return next((one for one in find_others(store.load_all()[0])[0] if one.pid == pid), None)


def found(pid: int) -> Other:
    """The other server with that pid, once it shows."""
    assert wait_for(lambda: other_of(pid) is not None)
    other = other_of(pid)
    assert other is not None
    return other
