"""How long a server has been booting, whatever is done to the clock of its host meanwhile, and while that sleeps.

Everything counts the seconds in which the host was suspended, as the stamps of a log do; how many those are is known
besides.
"""

from __future__ import annotations

import time

from cockpit.supervisor import process
from cockpit.supervisor.record import InstanceRecord
from cockpit.units import duration

WORTH_SAYING_SECONDS = 1.0
"""Of sleep; what is less is the reading of two clocks."""


def slept_seconds() -> float:
    """For how long the host has been suspended since it was started."""
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC))


def slept_since(record: InstanceRecord) -> float | None:
    """Seconds that the host has been suspended since the spawn; None where the record does not say from when on."""
    return None if record.slept_before is None else max(0.0, slept_seconds() - record.slept_before)


class BootClock:
    """Runs from the spawn on. The first reading is the age of the process, or else what the record's times say."""

    def __init__(self, record: InstanceRecord) -> None:
        self._created_at = record.created_at
        age = None if record.process is None else process.age_seconds(record.process)
        self._began = _now() - (max(0.0, time.time() - record.created_at) if age is None else age)
        # Of a server that is gone the host may have been started anew since.
        known = age is not None and record.slept_before is not None
        self._slept_before = record.slept_before if known and record.slept_before is not None else slept_seconds()
        self._told = 0.0

    @property
    def seconds(self) -> float:
        """Since the spawn."""
        return _now() - self._began

    @property
    def slept(self) -> float:
        """How many of them the host was suspended, as far as that is known."""
        return max(0.0, slept_seconds() - self._slept_before)

    @property
    def awake(self) -> float:
        """The others."""
        return self.seconds - self.slept

    @property
    def unix(self) -> float:
        """The Unix time that it would be, had nobody set the clock since the spawn."""
        return self._created_at + self.seconds

    def told_sleep(self) -> str | None:
        """A sentence when the host has slept since this was asked last."""
        slept = self.slept
        if slept - self._told < WORTH_SAYING_SECONDS:
            return None
        self._told = slept
        return (
            f"the host slept for {duration(round(slept))} of this boot: its seconds and stages count that, "
            "and later boots are not measured by it"
        )


def _now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_seconds(record: InstanceRecord) -> float | None:
    """From the spawn to the first answer; None for a server that never gave one."""
    if record.ready_at is None:
        return None
    return max(0.0, record.ready_at - record.created_at) if record.boot_seconds is None else record.boot_seconds


def slept_through(record: InstanceRecord) -> bool:
    """Whether the host was suspended during the boot of a server that has answered."""
    return (record.boot_slept or 0.0) >= WORTH_SAYING_SECONDS
