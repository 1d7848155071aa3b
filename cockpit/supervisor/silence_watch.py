"""Notices that a boot has gone silent, and asks its processes why."""

from __future__ import annotations

import time
from pathlib import Path

from cockpit.supervisor.boot_evidence import EvidenceReader
from cockpit.supervisor.boot_state import BootState, StageId
from cockpit.supervisor.record import InstanceRecord
from cockpit.supervisor.silence import Evidence, Silence, silence_of

_FIRST_LOOK_SECONDS = 4.0
_LOOK_EVERY_SECONDS = 3.0


class SilenceWatch:
    """Told at every tick how much of the log there is; looks at the processes only while that does not grow."""

    def __init__(self, record: InstanceRecord, usual: dict[StageId, float]) -> None:
        self._usual = usual
        self._heard_at = _last_written(record)
        self._bytes = 0
        self._reader = EvidenceReader()
        self._evidence: Evidence | None = None
        self._looked_at = 0.0

    def tick(self, record: InstanceRecord, log_bytes: int, boot: BootState, now: float) -> Silence | None:
        """What to say of the silence at Unix time ``now``; None while there is none, or nothing is known of it."""
        if log_bytes != self._bytes:
            first = self._bytes == 0
            self._bytes = log_bytes
            self._reader.forget()
            self._evidence = None
            # A log that was there before is not new: it has been silent since it was last written to.
            self._heard_at = min(now, _last_written(record)) if first else now
            return None
        silent = now - self._heard_at
        if silent >= _FIRST_LOOK_SECONDS and now - self._looked_at >= _LOOK_EVERY_SECONDS:
            self._looked_at = now
            self._evidence = self._reader.look(record) or self._evidence
        return silence_of(boot, silent, self._evidence, self._usual)


def _last_written(record: InstanceRecord) -> float:
    try:
        return Path(record.log).stat().st_mtime
    except OSError:
        return time.time()
