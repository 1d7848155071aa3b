"""Whose memory is on a GPU: the instance's by its processes, or by exclusion where pids are hidden."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
import psutil

from cockpit.telemetry.frame import GpuHolder, ShareBasis

Held = Mapping[int, int | None]
"""Bytes by pid; a None is a size that NVML hides."""


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU's memory by holder."""

    instance_bytes: int | None = None
    basis: ShareBasis | None = None
    others: tuple[GpuHolder, ...] = ()


def name_of(pid: int) -> str | None:
    """Name of a living process of this machine or container; None for a pid that is not seen from here."""
    try:
        return psutil.Process(pid).name()
    except (psutil.Error, ValueError):
        return None


def shares(
    held: Mapping[int, Held | None],
    used: Mapping[int, int | None],
    pids: frozenset[int],
    assigned: bool,
    name: Callable[[int], str | None],
) -> dict[int, Share]:
    """The shares by GPU; ``pids`` are the instance's, ``assigned`` says that these GPUs are known to be its own.

    In a container NVML lists the host's pids or none at all, and a sum over nothing would read as 0. So a GPU without
    a process of ours counts as 0 only if NVML shows one of ours on some GPU. Where it shows none, and the GPUs are
    the instance's own, its share is what no visible process holds.
    """
    seen_anywhere = any(pids & by_pid.keys() for by_pid in held.values() if by_pid)
    found: dict[int, Share] = {}
    for index, by_pid in held.items():
        others = _others(by_pid or {}, pids, name)
        if seen_anywhere and by_pid is not None:
            found[index] = _by_process(by_pid, pids, others)
        elif pids and assigned and used.get(index) is not None:
            found[index] = _by_exclusion(used[index] or 0, others)
        else:
            found[index] = Share(others=others)
    return found


def _others(by_pid: Held, pids: frozenset[int], name: Callable[[int], str | None]) -> tuple[GpuHolder, ...]:
    """Processes that are not ours and can be seen from here, largest first."""
    seen = (
        GpuHolder(pid=pid, name=called, used_bytes=size)
        for pid, size in by_pid.items()
        if pid not in pids and (called := name(pid)) is not None
    )
    return tuple(sorted(seen, key=lambda holder: -(holder.used_bytes or 0)))


def _by_process(by_pid: Held, pids: frozenset[int], others: tuple[GpuHolder, ...]) -> Share:
    sizes = [size for pid, size in by_pid.items() if pid in pids]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes):
        return Share(others=others)
    return Share(instance_bytes=sum(known), basis="processes", others=others)


def _by_exclusion(used: int, others: tuple[GpuHolder, ...]) -> Share:
    sizes = [holder.used_bytes for holder in others]
    known = [size for size in sizes if size is not None]
    return Share(instance_bytes=max(0, used - sum(known)), basis="exclusion", others=others)
