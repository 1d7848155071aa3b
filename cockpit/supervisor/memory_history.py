"""What earlier boots measured of their memory, one small file a checkpoint: forecasts are corrected by them."""

from __future__ import annotations

import time

import msgspec

from cockpit.planner.calibration import Boot, BootSubject, latest, worth_keeping
from cockpit.supervisor.boot import BootLog
from cockpit.supervisor.boot_memory import memory_of
from cockpit.supervisor.boot_state import BootFacts
from cockpit.supervisor.key_files import KeyedFile, KeyFiles
from cockpit.supervisor.logfile import Tail
from cockpit.supervisor.record import InstanceRecord

KEPT = 64
"""Boots of one checkpoint."""
_MAX_LOG_BYTES = 64 << 20


class _File(KeyedFile, frozen=True, kw_only=True):
    checkpoint: str
    boots: tuple[Boot, ...]


_FILES = KeyFiles("memory", _File, "checkpoint", "forecasts learn nothing from earlier boots")


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """The boots of one checkpoint, and what is wrong with their file."""

    boots: tuple[Boot, ...] = ()
    problem: str | None = None
    """One sentence; None when the file is fine or not there."""


def measured(checkpoint: str) -> Measured:
    """Boots of the checkpoint of that identity, newest first.

    Never raises: a file that cannot be used counts as none and says so.
    """
    found = _FILES.read(checkpoint)
    boots = () if found.content is None else found.content.boots
    return Measured(boots=tuple(boot for boot in boots if _is_sound(boot)), problem=found.problem)


def _is_sound(boot: Boot) -> bool:
    figures = [value for value in msgspec.structs.astuple(boot.memory) if value is not None]
    share = boot.subject.settings.utilization
    return all(-1024 < value < float("inf") for value in figures) and 0 < share <= 1 and boot.subject.total_bytes > 0


def facts_of(record: InstanceRecord) -> BootFacts:
    """Figures of an instance's boot, from its log; of a log beyond all measure only the beginning counts."""
    tail, log = Tail(record.log), BootLog(record.created_at)
    while not log.snapshot().ready and tail.read_bytes < _MAX_LOG_BYTES:
        lines = tail.read()
        log.feed(lines, time.time())
        if not tail.unread_bytes:
            break
    return log.snapshot().facts


def subject_of(record: InstanceRecord) -> BootSubject | None:
    """What the boot of an instance is about, as its plan had it; None where nobody wrote it down."""
    written = (record.forecast or {}).get("boot")
    try:
        return None if written is None else msgspec.convert(written, BootSubject)
    except msgspec.ValidationError:
        return None


def learn(record: InstanceRecord) -> None:
    """Keep what the boot of a server that answers has measured.

    Raises CockpitError when the state home cannot be written to.
    """
    subject = subject_of(record)
    if subject is None:
        return
    facts = facts_of(record)
    if facts.vllm_version is not None and not facts.vllm_version.startswith(subject.engine_version):
        return
    boot = Boot(subject=subject, at=record.created_at, memory=memory_of(facts))
    if worth_keeping(boot) and _is_sound(boot):
        _FILES.change(subject.checkpoint, lambda file: _with(file, boot))


def _with(file: _File | None, boot: Boot) -> _File:
    known = () if file is None else tuple(one for one in file.boots if _is_sound(one))
    return _File(checkpoint=boot.subject.checkpoint, boots=latest((*known, boot), KEPT))
