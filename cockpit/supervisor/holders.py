"""Who holds the memory of each GPU, and what they are: an instance, a leftover of a dead server, or a stranger."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cockpit.rig.gpus import gpu_holders
from cockpit.rig.host import process_name
from cockpit.rig.leftovers import find_leftovers
from cockpit.supervisor import store
from cockpit.supervisor.process import is_alive
from cockpit.supervisor.record import InstanceRecord

_SHOWN = 3


def describe_holders() -> dict[int, str]:
    """The largest three by GPU index, as text: ``VLLM::EngineCore (pid 7) 21,000 MiB, left over from a dead server``.

    Leftovers and records are looked for only where somebody holds memory.
    """
    holders = {index: by_pid for index, by_pid in gpu_holders().items() if by_pid}
    if not holders:
        return {}
    lost = frozenset(left.pid for left in find_leftovers())
    instances = _instances(store.load_all()[0])
    return {index: _text(by_pid, lost, instances) for index, by_pid in holders.items()}


def _instances(records: Iterable[InstanceRecord]) -> dict[int, str]:
    """Pid → name of the instance that it belongs to; a pid that another process has by now is none of its own."""
    found: dict[int, str] = {}
    for record in records:
        for who in (record.process, *record.descendants):
            if who is not None and is_alive(who):
                found[who.pid] = record.name
    return found


def _text(by_pid: Mapping[int, int | None], lost: frozenset[int], instances: Mapping[int, str]) -> str:
    largest = sorted(by_pid.items(), key=lambda one: -(one[1] or 0))[:_SHOWN]
    return "; ".join(_one(pid, size, lost, instances) for pid, size in largest)


def _one(pid: int, size: int | None, lost: frozenset[int], instances: Mapping[int, str]) -> str:
    amount = "of unknown size" if size is None else f"{size // 2**20:,} MiB"
    text = f"{process_name(pid)} {amount}"
    name = instances.get(pid)
    if pid in lost:
        ends = f"`cockpit stop {name}` ends it" if name else f"`kill -9 {pid}` ends it"
        return f"{text}, left over from a dead server: {ends}"
    return f"{text} of {name}" if name else text
