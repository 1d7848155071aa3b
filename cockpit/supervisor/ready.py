"""Whether a server is starting, ready or dead: asked cheaply, and never fooled by a stranger on its port."""

from __future__ import annotations

import contextlib
import time
from typing import Any, Literal

from cockpit.errors import CockpitError
from cockpit.supervisor import memory_history, process
from cockpit.supervisor.boot_clock import slept_since
from cockpit.supervisor.endpoint import answers_health, served_models
from cockpit.supervisor.record import InstanceRecord
from cockpit.supervisor.shared_memory import existing, segments_of
from cockpit.supervisor.spawn import Running, attach

Life = Literal["starting", "ready", "dead"]
State = Literal["starting", "ready", "stopping", "dead"]
PATIENCE_SECONDS = 1.0
"""With an answer that takes a healthy server some milliseconds."""
_SPAWN_SECONDS = 10.0
"""How long another cockpit may need between its record and its spawn."""
_STOP_SECONDS = 120.0
"""A stop that was asked for longer ago was given up: its cockpit died or the server withstood it."""


def serves(record: InstanceRecord, patience_seconds: float = PATIENCE_SECONDS) -> bool:
    """Whether the instance answers on its port, and not a stranger that has the port.

    Where nobody can say whose listener it is, the name of the model that it serves decides, if it gives one.
    """
    if not answers_health(record.url, patience_seconds):
        return False
    owned = process.owns_port(record, record.port)
    if owned is None:
        models = served_models(record.url)
        return models is None or record.served_model_name in models
    return owned


def probe(running: Running, patience_seconds: float = PATIENCE_SECONDS) -> Life:
    """Where the server is now. Notes readiness, descendants and death in the record when it first sees them.

    Ready means that its own process answered /health with 200 once; after that it is ready until the process is
    gone (vLLM ends it when an engine dies). A listener on its port that is known to be another's never counts.
    ``patience_seconds`` is how long each piece of its answer may take.
    """
    end = running.poll()
    if end is not None:
        if running.record.ended_at is None:
            running.note_death(end.code)
        return "dead"
    record = running.record
    if record.ready_at is not None:
        return "ready"
    if not serves(record, patience_seconds):
        return "starting"
    took = None if record.process is None else process.age_seconds(record.process)
    slept = slept_since(record)
    running.note(ready_at=time.time(), boot_seconds=took, boot_slept=slept, **_belongings(record))
    with contextlib.suppress(CockpitError):  # a home that cannot be written to costs the lesson, not the server
        memory_history.learn(running.record)
    return "ready"


def note_descendants(running: Running) -> None:
    """Record the engine and worker processes as they come, so that they can be found when their parent dies."""
    record = running.record
    found = _belongings(record)
    if found["descendants"] and found != {"descendants": record.descendants, "segments": record.segments}:
        running.note(**found)


def _belongings(record: InstanceRecord) -> dict[str, Any]:
    """The fields of a record that say what belongs to its server: processes and shared memory.

    A segment on record whose process is gone stays on it until its file is: nothing else tells whose it is.
    """
    members = process.members_of(record)
    segments = segments_of(members).union(existing(record.segments))
    return {
        "descendants": tuple(who for who in members if who != record.process),
        "segments": tuple(sorted(segments, key=lambda one: (one.path, one.inode))),
    }


def state_of(record: InstanceRecord) -> State:
    """One word for ``ps``; costs at most one short request, and only while the server is not known to be ready."""
    now = time.time()
    # Times are compared both ways: a clock that was set back must not keep anything starting or stopping for hours.
    if record.process is None and record.ended_at is None and abs(now - record.created_at) < _SPAWN_SECONDS:
        return "starting"
    running = attach(record)
    stopping = record.stop_requested_at is not None and abs(now - record.stop_requested_at) < _STOP_SECONDS
    if stopping and (running.poll() is None or process.members_of(record)):
        return "stopping"
    return probe(running)
