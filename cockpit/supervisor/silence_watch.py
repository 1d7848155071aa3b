"""Notices that a boot has gone silent, and asks its processes why."""

from __future__ import annotations

import time
from pathlib import Path

from cockpit.supervisor.boot_evidence import EvidenceReader
from cockpit.supervisor.boot_state import STAGE_NAMES, BootStage, BootState, StageId
from cockpit.supervisor.record import InstanceRecord
from cockpit.supervisor.silence import Evidence, Silence, silence_of

_FIRST_LOOK_SECONDS = 4.0
_LOOK_EVERY_SECONDS = 3.0
_STANDSTILL_SECONDS = 7200.0
"""Of one and the same stage without progress, however much is written meanwhile: weights are counted by shards."""


class SilenceWatch:
    """Told at every tick how much of the log there is; looks at the processes only while that does not grow."""

    def __init__(self, record: InstanceRecord, usual: dict[StageId, float]) -> None:
        self._usual = usual
        self._heard_at = 0.0
        """In seconds since the spawn, like every time here: the clock may be set at any moment."""
        self._bytes: int | None = None
        self._reader = EvidenceReader()
        self._evidence: Evidence | None = None
        self._looked_at = -_LOOK_EVERY_SECONDS
        self._stages: tuple[BootStage, ...] = ()
        self._moved_at: float | None = None

    def tick(
        self, record: InstanceRecord, log_bytes: int, boot: BootState, seconds: float, slept: float = 0.0
    ) -> Silence | None:
        """What to say of the silence ``seconds`` after the spawn; None while there is none, or nothing is known.

        The host was suspended for ``slept`` seconds besides, in which nobody can be heard.
        """
        if self._moved_at is None or boot.stages != self._stages:
            self._stages, self._moved_at = boot.stages, seconds
        if log_bytes != self._bytes:
            # A log that was there before is not new: it has been silent since it was last written to.
            ago = _last_written_ago(record, seconds + slept) if self._bytes is None else 0.0
            self._heard_at = seconds - max(0.0, ago - slept)
            self._bytes = log_bytes
            self._reader.forget()
            self._evidence = None
            return self._standstill(boot, seconds - self._moved_at)
        silent = seconds - self._heard_at
        if silent >= _FIRST_LOOK_SECONDS and seconds - self._looked_at >= _LOOK_EVERY_SECONDS:
            self._looked_at = seconds
            self._evidence = self._reader.look(record) or self._evidence
        said = silence_of(boot, silent, self._evidence, self._usual)
        return said or self._standstill(boot, seconds - self._moved_at)

    def _standstill(self, boot: BootState, still: float) -> Silence | None:
        """A server may repeat one line for ever, and work for ever: hours in one stage are no boot."""
        if boot.current is None or still < _STANDSTILL_SECONDS + self._usual.get(boot.current, 0.0):
            return None
        return Silence(
            id="standstill",
            seconds=still,
            alarm=True,
            sentence=f"its boot has not come further since, in {STAGE_NAMES[boot.current]}",
            fix="The end of its log says what it repeats or waits for.",
        )


def _last_written_ago(record: InstanceRecord, most: float) -> float:
    """Seconds; never more than the server is old nor less than nothing, as a clock may have been set since."""
    try:
        return min(most, max(0.0, time.time() - Path(record.log).stat().st_mtime))
    except OSError:
        return 0.0
