"""How long earlier boots took, one small file a slug: what is expected of the next one, stage by stage."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from cockpit.rig.version import version_numbers
from cockpit.supervisor.boot_clock import boot_seconds, slept_through
from cockpit.supervisor.boot_state import BootState, StageId
from cockpit.supervisor.key_files import KeyedFile, KeyFiles
from cockpit.supervisor.record import InstanceRecord
from cockpit.units import tokens

KEPT = 5
"""Boots that count for one engine version on one GPU model."""
_MAX_BOOTS = 100
_SMALLER = 0.9
_ADDRESS = ("host", "port")


class PastBoot(msgspec.Struct, frozen=True, kw_only=True):
    """One boot that ended with a server that answers."""

    created_at: float
    """Unix time of the spawn; tells two boots apart."""
    engine_version: str
    gpu_model: str
    seconds: float
    """From the spawn to the first answer."""
    stages: dict[StageId, float]
    """Seconds of each stage that there was."""
    values: dict[str, Any] = {}
    """Toggle values, without the address."""
    capacity_tokens: int | None = None
    """Of its KV pool."""


class _File(KeyedFile, frozen=True, kw_only=True):
    slug: str
    boots: tuple[PastBoot, ...]


_FILES = KeyFiles("boots", _File, "slug", "earlier boots do not count", lambda slug: slug.replace("/", "-"))


class Expectation(msgspec.Struct, frozen=True, kw_only=True):
    """Medians of the last boots of one slug with one engine version on one GPU model, in seconds."""

    boots: int
    seconds: float
    stages: dict[StageId, float]
    """Only stages that at least half of those boots had."""


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """The boots of one slug, and what is wrong with their file."""

    boots: tuple[PastBoot, ...] = ()
    problem: str | None = None
    """One sentence; None when the file is fine or not there."""


def remembered(slug: str) -> Remembered:
    """The boots on file, oldest first. Never raises: a file that cannot be used counts as none, and says so."""
    found = _FILES.read(slug)
    boots = () if found.content is None else found.content.boots
    return Remembered(boots=tuple(boot for boot in boots if _is_sound(boot)), problem=found.problem)


def _is_sound(boot: PastBoot) -> bool:
    return all(0 <= seconds < float("inf") for seconds in (boot.seconds, *boot.stages.values()))


def expectation(boots: tuple[PastBoot, ...], engine_version: str, gpu_model: str) -> Expectation | None:
    """What the last boots of this engine version on this GPU model lead to expect; None when there were none."""
    alike = [boot for boot in boots if (boot.engine_version, boot.gpu_model) == (engine_version, gpu_model)][-KEPT:]
    if not alike:
        return None
    by_stage: dict[StageId, list[float]] = {}
    for boot in alike:
        for stage, seconds in boot.stages.items():
            by_stage.setdefault(stage, []).append(seconds)
    return Expectation(
        boots=len(alike),
        seconds=_median(boot.seconds for boot in alike),
        stages={stage: _median(all_) for stage, all_ in by_stage.items() if 2 * len(all_) >= len(alike)},
    )


def _median(values: Iterable[float]) -> float:
    """Of one value at least; statistics has the same beside fractions and decimals, which no one here needs."""
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def expected_of(record: InstanceRecord) -> Expectation | None:
    """What is expected of the boot of an instance, its own left out; None when nothing is known."""
    if not record.engine_version:
        return None
    earlier = tuple(boot for boot in remembered(record.slug).boots if boot.created_at != record.created_at)
    return expectation(earlier, record.engine_version, record.gpu_model)


def earlier_version(record: InstanceRecord) -> str | None:
    """The vLLM of the last boot of this slug on this GPU model, where the record's vLLM has never booted it there."""
    if not version_numbers(record.engine_version):
        return None
    past = (boot for boot in remembered(record.slug).boots if boot.gpu_model == record.gpu_model)
    alike = [boot.engine_version for boot in past if version_numbers(boot.engine_version)]
    return alike[-1] if alike and record.engine_version not in alike else None


def _settings(record: InstanceRecord) -> dict[str, Any]:
    values = {name: value for name, value in record.values.items() if name not in _ADDRESS}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def smaller_pool(record: InstanceRecord, boot: BootState) -> str | None:
    """A sentence when the KV pool is clearly smaller than earlier boots with the same settings made it.

    vLLM measures the free memory once: a GPU that was not empty then costs capacity for the server's whole life.
    """
    capacity = boot.facts.capacity_tokens
    alike = [
        past.capacity_tokens
        for past in remembered(record.slug).boots
        if past.created_at != record.created_at
        and (past.engine_version, past.gpu_model) == (record.engine_version, record.gpu_model)
        and past.values == _settings(record)
        and past.capacity_tokens is not None
    ][-KEPT:]
    usual = _median(alike) if alike else None
    if capacity is None or usual is None or capacity >= usual * _SMALLER:
        return None
    return (
        f"the KV pool has {tokens(capacity)} tokens, and had {tokens(usual)} with the same settings: "
        "the GPU was not empty when it started; start it again once it is"
    )


def remember(record: InstanceRecord, boot: BootState) -> None:
    """Keep the times of a boot that got ready, once; none of one during which the host slept.

    Raises CockpitError when the state home cannot be written to.
    """
    seconds = boot_seconds(record)
    if not record.engine_version or seconds is None or not boot.ready or slept_through(record):
        return
    past = PastBoot(
        created_at=record.created_at,
        engine_version=record.engine_version,
        gpu_model=record.gpu_model,
        seconds=round(seconds, 3),
        stages={stage.id: round(stage.seconds, 3) for stage in boot.stages if stage.seconds is not None},
        values=_settings(record),
        capacity_tokens=boot.facts.capacity_tokens,
    )
    _FILES.change(
        record.slug, lambda file: _File(slug=record.slug, boots=_with(() if file is None else file.boots, past))
    )


def _with(known: tuple[PastBoot, ...], past: PastBoot) -> tuple[PastBoot, ...]:
    sound = tuple(boot for boot in known if _is_sound(boot))
    return known if any(one.created_at == past.created_at for one in known) else _kept((*sound, past))


def _kept(boots: tuple[PastBoot, ...]) -> tuple[PastBoot, ...]:
    """The last boots of each engine version and GPU model, in the order of their spawns."""
    kept: list[PastBoot] = []
    counts: dict[tuple[str, str], int] = {}
    for boot in sorted(boots, key=lambda boot: -boot.created_at):
        kind = (boot.engine_version, boot.gpu_model)
        counts[kind] = counts.get(kind, 0) + 1
        if counts[kind] <= KEPT and len(kept) < _MAX_BOOTS:
            kept.append(boot)
    return tuple(reversed(kept))
