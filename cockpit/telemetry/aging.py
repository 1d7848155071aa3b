"""A frame that was made a while ago, as it may still be shown."""

from __future__ import annotations

from msgspec.structs import replace

from cockpit.telemetry.frame import Frame

STALE_SECONDS = 10.0
"""How long the last figures are kept, marked as stale, when nothing newer comes."""
FRESH_SECONDS = 3.0
"""Figures up to this age count as those of now: a tick may come late."""


def aged(frame: Frame, seconds: float) -> Frame:
    """The frame ``seconds`` after it was made: marked as stale, and without figures once they mean nothing."""
    if frame.age_seconds is None:
        return frame
    age = frame.age_seconds + max(0.0, seconds)
    if age <= FRESH_SECONDS:
        return replace(frame, age_seconds=age)
    if age <= STALE_SECONDS:
        return replace(frame, age_seconds=age, stale=True)
    return Frame(at=frame.at, state=frame.state, age_seconds=age, stale=True, notes=frame.notes)
