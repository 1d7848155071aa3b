"""How far a boot is, held against earlier ones. Pure."""

from __future__ import annotations

import msgspec

from cockpit.supervisor.boot_history import Expectation
from cockpit.supervisor.boot_state import STAGES, BootState, StageId


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """A boot against its expectation, in seconds."""

    expected_seconds: float
    """Of the whole boot."""
    remaining_seconds: float
    """What the rest of this stage and the stages after it usually take; 0 when it is overdue."""
    fraction: float
    """How much of it is done, from 0 to 1."""
    boots: int
    """How many earlier boots this rests on."""
    usual: dict[StageId, float] = {}
    """Seconds of each stage."""


def pace_of(boot: BootState, seconds: float, expected: Expectation | None) -> Pace | None:
    """Where a boot that has run for ``seconds`` stands; None without earlier boots.

    A stage that is slow today moves the end; one that is over or was skipped counts with what it took.
    """
    if expected is None:
        return None
    remaining = 0.0 if boot.current is None else _remaining(boot, boot.current, seconds, expected.stages)
    whole = seconds + remaining
    return Pace(
        expected_seconds=expected.seconds,
        remaining_seconds=remaining,
        fraction=1.0 if whole <= 0 else min(1.0, seconds / whole),
        boots=expected.boots,
        usual=expected.stages,
    )


def _remaining(boot: BootState, current: StageId, seconds: float, usual: dict[StageId, float]) -> float:
    later = sum(usual.get(stage, 0.0) for stage in STAGES[STAGES.index(current) + 1 :])
    running = next((stage for stage in boot.stages if stage.id == current), None)
    if running is None or running.ended is not None:
        return later
    return max(0.0, usual.get(current, 0.0) - (seconds - running.started)) + later
