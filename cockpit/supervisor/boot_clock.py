"""How long a server has been booting, whatever is done to the clock of its host meanwhile."""

from __future__ import annotations

import time

from cockpit.supervisor import process
from cockpit.supervisor.record import InstanceRecord


class BootClock:
    """Runs from the spawn on. The first reading is the age of the process, or else what the record's times say."""

    def __init__(self, record: InstanceRecord) -> None:
        self._created_at = record.created_at
        age = None if record.process is None else process.age_seconds(record.process)
        self._began = time.monotonic() - (max(0.0, time.time() - record.created_at) if age is None else age)

    @property
    def seconds(self) -> float:
        """Since the spawn."""
        return time.monotonic() - self._began

    @property
    def unix(self) -> float:
        """The Unix time that it would be, had nobody set the clock since the spawn."""
        return self._created_at + self.seconds


def boot_seconds(record: InstanceRecord) -> float | None:
    """From the spawn to the first answer; None for a server that never gave one."""
    if record.ready_at is None:
        return None
    return max(0.0, record.ready_at - record.created_at) if record.boot_seconds is None else record.boot_seconds
