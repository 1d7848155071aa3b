"""A server with an engine, a worker and shared memory: brought to a stage of its life, and gone without a rest."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from pathlib import Path

from cockpit.supervisor import process, store
from cockpit.supervisor.boot_watch import BootWatch
from cockpit.supervisor.record import InstanceRecord, ProcessIdentity
from cockpit.supervisor.spawn import Running

from .conftest import titled, until_settled, wait_for

FAMILY = ("--fork-children", "1", "--shared-memory", "--dies-with-engine")
"""A server, an engine, a worker, and two segments; it ends when its engine does, as vLLM."""
NAME = "cpu-fake"


def begun(running: Running) -> bool:
    """Wait until server, engine, worker and both segments are there."""

    def there() -> bool:
        return titled(running.record) == 3 and len(segments(running.record)) == 2

    return wait_for(there)


def segments(record: InstanceRecord) -> list[Path]:
    """The shared memory that the log says it made."""
    try:
        said = Path(record.log).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return [Path("/dev/shm", name) for name in re.findall(r"holds (psm_\w+)", said)]


def member(running: Running, which: str) -> ProcessIdentity:
    """The server, the engine or the worker."""
    root, engine, worker = process.members_of(running.record)
    return {"server": root, "engine": engine, "worker": worker}[which]


@contextlib.contextmanager
def nothing_left(running: Running) -> Iterator[None]:
    """Whatever happens inside: in the end no process and no segment of the server is left, and no record."""
    family = process.members_of(running.record)
    held = segments(running.record)
    yield
    assert [who.pid for who in family if process.is_alive(who)] == []
    assert process.members_of(running.record) == ()
    assert [path for path in held if path.exists()] == []
    assert store.load_all() == ([], [])


def at_stage(running: Running, stage: str) -> None:
    """Bring a server to a stage, with a cockpit that looks on: loading, ready, or asked to stop."""
    assert begun(running)
    BootWatch(running).tick()
    if stage != "loading":
        assert until_settled(running).life == "ready"
    if stage == "stopping":
        running.update(stop_requested_at=time.time())


BOOTS = {"loading": "3600", "ready": "0.2", "stopping": "0.2"}
