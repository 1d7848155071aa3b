"""What was forecast for an instance beside what came of it."""

from __future__ import annotations

import msgspec

from cockpit.planner.forecast_types import Forecast
from cockpit.supervisor.boot_state import BootFacts
from cockpit.supervisor.record import InstanceRecord
from cockpit.units import GIB


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """One figure; None is unknown."""

    forecast: int | None = None
    actual: int | None = None


class Against(msgspec.Struct, frozen=True, kw_only=True):
    """Forecast against actual."""

    kv_capacity_tokens: Pair
    kv_bytes: Pair
    """Of the GPU with the smallest pool, or of the CPU build's; vLLM prints it to a hundredth of a GiB."""
    error_bytes: int | None = None
    """How far off the forecast said that its bytes may be."""


def forecast_of_record(record: InstanceRecord) -> Forecast | None:
    """What was forecast when the instance was started; None where nobody wrote it down."""
    written = (record.forecast or {}).get("forecast")
    try:
        return None if written is None else msgspec.convert(written, Forecast)
    except msgspec.ValidationError:
        return None


def against(record: InstanceRecord, facts: BootFacts, capacity_tokens: int | None = None) -> Against | None:
    """The forecast of an instance against its log, or against ``capacity_tokens`` of its metrics.

    None where there was no forecast.
    """
    forecast = forecast_of_record(record)
    if forecast is None:
        return None
    planned = forecast.kv_bytes
    if planned is None:
        # As older versions wrote it down.
        planned = min((gpu.kv.bytes for gpu in forecast.per_gpu), default=None)
    printed = facts.available_kv_gib
    return Against(
        kv_capacity_tokens=Pair(
            forecast=None if forecast.kv is None else forecast.kv.capacity_tokens,
            actual=facts.capacity_tokens if capacity_tokens is None else capacity_tokens,
        ),
        kv_bytes=Pair(forecast=planned, actual=None if printed is None else round(printed * GIB)),
        error_bytes=forecast.error_bytes,
    )
