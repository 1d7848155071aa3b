"""Are int8 activations active? Asked for is not active, and one line of vLLM's own is printed either way.

Proof is what the overlay said after the load: how many layers of how many ranks it switched.
"""

from __future__ import annotations

from cockpit.supervisor.boot_state import BootFacts, BootState, Int8Facts
from cockpit.supervisor.record import InstanceRecord
from cockpit.telemetry.frame import Int8

_OVERLAY = "overlays/autoround_int8"


def int8_of(record: InstanceRecord, boot: BootState | None) -> Int8:
    """What is known about the instance's int8 activations from its plan and its boot log."""
    if record.values.get("int8") != "on":
        return Int8()
    if boot is None:
        return Int8(requested=True)
    facts = boot.facts
    if facts.int8 is not None and not facts.int8.needless:
        return _said(facts.int8, facts, boot.ready)
    if not boot.ready:
        return Int8(requested=True)
    machete = next(
        (name for kinds in facts.kernels.values() for name in kinds.split(", ") if "Machete" in name), None
    )
    if machete is not None:
        return _not_active(f"{machete} does not read the switch")
    if facts.int8 is None and _OVERLAY in (record.env.get("PYTHONPATH") or ""):
        return _not_active("the overlay left no line in the log")
    return Int8(requested=True, proof="this vLLM hands the switch on by itself: only a prefill measurement proves it")


def _not_active(why: str) -> Int8:
    return Int8(requested=True, active=False, proof=why)


def _said(int8: Int8Facts, facts: BootFacts, ready: bool) -> Int8:
    if int8.refused is not None:
        return _not_active(int8.refused)
    idle = [rank for rank, layers in sorted(int8.layers.items()) if not layers]
    if idle:
        where = "" if len(idle) == len(int8.layers) else f"rank {idle[0]}: "
        return _not_active(where + (int8.kept_why or "no AutoRound layer of the model reached Marlin"))
    ranks = len(int8.layers)
    if facts.world_size is not None and ranks < facts.world_size:
        if not ready:
            return Int8(requested=True)
        return _not_active(f"only {ranks} of {facts.world_size} ranks switched layers")
    return Int8(requested=True, active=True, proof=_proof(int8, ranks))


def _proof(int8: Int8Facts, ranks: int) -> str:
    """``224 layers on 2 ranks, 258,127 of 516,096 groups folded``."""
    text = f"{min(int8.layers.values())} layers" + (f" on {ranks} ranks" if ranks > 1 else "")
    text += f", {int8.folded:,} of {int8.groups:,} groups folded"
    return f"{text}, {int8.clamped:,} codes clamped" if int8.clamped else text
