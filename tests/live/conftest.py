"""The real CPU engine from the user's own data home, with state and settings in a home of this run alone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from cockpit.errors import CockpitError
from cockpit.rig.engines import choose_engine, find_engines
from cockpit.rig.types import Engine
from cockpit.session import Session
from cockpit.supervisor import store

SLUG = "cpu/tiny-qwen3"
CAPACITY_TOKENS = 2_097_152
"""1 GiB of KV cache for 2 layers of 2 heads of 32 in bfloat16."""
_SEGMENT = re.compile(r"/dev/shm/[^ \n]+")


class Answer(msgspec.Struct, frozen=True):
    """What a cockpit command gave."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its stdout, which must be JSON."""
        return json.loads(self.out)


def cockpit(*words: str, timeout: float = 1200.0) -> Answer:
    """Run a verb as a user would, without a terminal, and wait for its end."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "cockpit", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        said = (error.stderr or b"")[-3000:]
        text = said.decode(errors="replace") if isinstance(said, bytes) else said
        raise AssertionError(f"cockpit {' '.join(words)} took more than {timeout:.0f} s; it said:\n{text}") from error
    return Answer(done.returncode, done.stdout, done.stderr)


def own_rows() -> list[Any]:
    """`cockpit ps` without what else serves on this host."""
    return [row for row in cockpit("ps", "--json").json if row["kind"] == "own"]


class Family:
    """The processes of one server and the shared memory that they hold, to be looked for afterwards."""

    def __init__(self, pid: int) -> None:
        root = psutil.Process(pid)
        self.processes = [root, *root.children(recursive=True)]
        self.segments: set[Path] = set()
        for process in self.processes:
            maps = Path(f"/proc/{process.pid}/maps").read_text(encoding="utf-8", errors="replace")
            self.segments |= {Path(found) for found in _SEGMENT.findall(maps)}

    def left(self) -> list[str]:
        """Processes that still run and segments that still exist."""
        alive = [
            str(process)
            for process in self.processes
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE
        ]
        return [*alive, *(str(path) for path in self.segments if path.exists())]


def serving(model: str, home: Path) -> list[psutil.Process]:
    """Processes with ``model`` in their command line and this run's state home in their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if model in process.cmdline() and process.environ().get("XDG_STATE_HOME") == str(home / "state"):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


@pytest.fixture(scope="session")
def engine() -> Engine:
    """The managed CPU engine; without one there is nothing to test."""
    try:
        return choose_engine(find_engines()[0], "cpu")
    except CockpitError as error:
        pytest.skip(f"{error.title}: `make engine` installs one")


@pytest.fixture(scope="session")
def host() -> str:
    """Where the servers of this worker listen: vLLM binds its port late, and another worker would choose the same."""
    lane = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    return f"127.0.0.{int(lane) + 1}"


@pytest.fixture(scope="module")
def home(engine: Engine, host: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """State and settings of this module, seen by this process and its children; nothing of it runs afterwards."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "config" / "cockpit").mkdir(parents=True)
    (folder / "config" / "cockpit" / "config.yaml").write_text(f"host: {host}\n", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        yield folder
        session = Session()
        for record in store.load_all()[0]:
            session.stop(record.name)
