"""The servers of this host: those on record, and the others that are only watched."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from cockpit.api_key import find_api_key
from cockpit.errors import CockpitError, FailedError
from cockpit.supervisor import adopted, store
from cockpit.supervisor.diagnose.files import diagnose_record, end_of
from cockpit.supervisor.diagnose.types import Diagnosis
from cockpit.supervisor.endpoint import answers_health, base_url, served_models
from cockpit.supervisor.log_bounds import bound
from cockpit.supervisor.logfile import refuse_no_log
from cockpit.supervisor.others import (
    Other,
    as_record,
    find_other,
    find_others,
    instance_at,
    refuse_to_stop,
    still_there,
)
from cockpit.supervisor.process import is_alive
from cockpit.supervisor.ready import probe, state_of
from cockpit.supervisor.record import InstanceRecord
from cockpit.supervisor.spawn import Running, attach
from cockpit.supervisor.stop import StopResult, end_processes, stop
from cockpit.supervisor.vram import GpuMemory
from cockpit.telemetry.frame import State
from cockpit.watch import ForeignWatch, InstanceWatch, Watch

Tell = Callable[[str], None]


class InstanceView(msgspec.Struct, frozen=True, kw_only=True):
    """One instance on record and what it is doing."""

    record: InstanceRecord
    state: State
    diagnosis: Diagnosis | None = None
    """Why it died; None while it lives."""


class Fleet:
    """Servers by name. Those that this process started are its children: only their parent sees how they end."""

    def __init__(self) -> None:
        self._started: dict[str, Running] = {}
        self._others: dict[str, Other] = {}
        """As last found, by name."""
        self._diagnoses: dict[str, tuple[tuple[object, ...], Diagnosis]] = {}
        """Of the dead, by name, with what each was made from: the log's size and time, the exit code."""

    def instances(self) -> tuple[list[InstanceView], list[str]]:
        """Every instance on record with its state, oldest first, and one sentence for each unreadable record."""
        for name, running in list(self._started.items()):
            if running.poll() is not None:
                # A child's exit code is known to its parent alone: it is written down here or never.
                probe(running)
                self._started.pop(name, None)
        records, problems = store.load_all()
        for record in records:
            bound(Path(record.log))
        views = [self._view(record) for record in records]
        return sorted(views, key=lambda view: view.record.created_at), problems

    def _view(self, record: InstanceRecord) -> InstanceView:
        state = state_of(record)
        return InstanceView(record=record, state=state, diagnosis=self._known(record) if state == "dead" else None)

    def _known(self, record: InstanceRecord) -> Diagnosis:
        """The diagnosis of a dead server, made again only when its log has changed."""
        try:
            status = Path(record.log).stat()
            key = (status.st_size, status.st_mtime_ns, record.exit_code)
        except OSError:
            key = (0, 0, record.exit_code)
        known = self._diagnoses.get(record.name)
        if known is None or known[0] != key:
            known = key, diagnose_record(record, end_of(record, dead=True))
            self._diagnoses[record.name] = known
        return known[1]

    def others(self) -> tuple[list[Other], list[str]]:
        """Foreign servers, adopted URLs and orphans, and one sentence for what cannot be read; may take seconds."""
        found, problems = find_others(store.load_all()[0])
        self._others = {one.name: one for one in found}
        return found, problems

    def is_on_record(self, name: str) -> bool:
        """Whether a server of that name is still to be shown: a stop, of any cockpit, takes an instance away."""
        other = self._others.get(name)
        return store.exists(name) or (other is not None and still_there(other))

    def running(self, name: str) -> Running:
        """The instance of that name, or of that slug when only one serves it. Raises CockpitError for none."""
        record = store.find(name)
        child = self._started.get(record.name)
        return child if child is not None else attach(record)

    def other(self, name: str) -> Other | None:
        """The foreign server, adopted URL or group of orphans of that name; None when there is none."""
        if store.names(name):
            return None
        known = self._others.get(name)
        fresh = known is not None and still_there(known) and all(is_alive(who) for who in known.processes)
        return known if fresh else find_other(name, store.load_all()[0])

    def watch(self, name: str) -> Watch:
        """Follow one server. Raises CockpitError for an unknown one, and for one without an address."""
        other = self.other(name)
        if other is None:
            return InstanceWatch(self.running(name))
        if other.url is None:
            raise CockpitError(f"{name} has no address that can be reached from here", other.what[:200])
        self._others[other.name] = other
        # The user named the address of an adopted one: it gets the key if it asks for it.
        return ForeignWatch(as_record(other), api_key=find_api_key(os.environ) if other.kind == "adopted" else None)

    def diagnosis(self, name: str) -> Diagnosis | None:
        """Why the server of that name died; None while it lives. Raises CockpitError for an unknown one."""
        return self.diagnose(name) if probe(self.running(name)) == "dead" else None

    def diagnose(self, name: str) -> Diagnosis:
        """What log and record say of an instance, dead or alive. Raises CockpitError for none, or without a log."""
        running = self.running(name)
        refuse_no_log(running.record.log)
        dead = probe(running) == "dead"
        return diagnose_record(running.record, end_of(running.record, dead))

    def serving(self, slug: str) -> tuple[InstanceRecord, ...]:
        """The living instances of a slug, oldest first."""
        records = (record for record in store.load_all()[0] if record.slug == slug and state_of(record) != "dead")
        return tuple(sorted(records, key=lambda record: record.created_at))

    def adopt(self, url: str, name: str | None = None) -> adopted.Adopted:
        """Remember the URL of a server that answers.

        Raises CockpitError for a bad URL and for that of an instance on record, FailedError when nothing answers.
        """
        base = base_url(url)
        own = instance_at(base, store.load_all()[0])
        if own is not None:
            raise CockpitError(
                f"{base} is {own.name}, which the cockpit started itself",
                fix=f"`cockpit ps` lists it already, and `cockpit top {own.name}` watches it.",
            )
        if not answers_health(base):
            raise FailedError(f"nothing answers at {base}", fix="Check that it runs, and its address and port.")
        # Without a key: it is not for a server that one has only just heard of.
        models = served_models(base)
        return adopted.remember(base, models[0] if models else None, name)

    def stop(self, name: str, on_event: Tell = lambda _: None, foreign_pid: int | None = None) -> StopResult:
        """Stop one server and wait until nothing of it is left.

        One that no cockpit started is stopped only when ``foreign_pid`` is its process. Raises CockpitError for that
        and for an unknown one.
        """
        other = self.other(name)
        if other is not None:
            refuse_to_stop(other, foreign_pid)
            return self._end_other(other, on_event)
        running = self.running(name)
        memory = GpuMemory(running.record.gpus)
        result = stop(running, on_event)
        self._started.pop(running.record.name, None)
        self._diagnoses.pop(running.record.name, None)
        return msgspec.structs.replace(result, gpu_bytes_freed=memory.freed(on_event))

    def _end_other(self, other: Other, on_event: Tell) -> StopResult:
        memory = GpuMemory(other.gpus)
        if other.kind == "orphans":
            result = end_processes(other.name, other.processes, on_event)
        else:
            result = stop(as_record(other), on_event)
        self._others.pop(other.name, None)
        return msgspec.structs.replace(result, gpu_bytes_freed=memory.freed(on_event))
