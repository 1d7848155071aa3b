"""A checkpoint by itself: what it is, and what a slug made for it may do."""

from __future__ import annotations

from typing import Any

import msgspec

from cockpit.checkpoint.inspect import inspect
from cockpit.checkpoint.types import Checkpoint, Quantization
from cockpit.errors import CockpitError
from cockpit.launch.new_slug import propose
from cockpit.launch.plan import Facts, context_for, toggle_states
from cockpit.rig.types import Rig
from cockpit.rules.finding import Finding, ToggleState
from cockpit.rules.plan_rules import plan_findings

_OF_THIS_MACHINE = ("engine-missing", "gpu-missing", "slug-disagrees", "weights-missing")
_ANY_PORT = 8000
"""Left out of what is told."""


class Inspection(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint, and what a slug made for it may do on this rig."""

    checkpoint: Checkpoint
    toggles: dict[str, ToggleState]
    values: dict[str, Any]
    findings: tuple[Finding, ...]


def inspection(source: str, rig: Rig) -> Inspection:
    """A checkpoint by folder, config.json or cached repository, judged through the slug it would get.

    Raises CockpitError when it cannot be read. Findings about this machine's engine are left out.
    """
    checkpoint = inspect(source)
    # Where it lies makes no difference to what it is, and a lone config.json is judged as well.
    placed = msgspec.structs.replace(checkpoint, source="/checkpoint", folder="/checkpoint")
    try:
        slug, _ = propose(placed, rig)
    except CockpitError:
        # A format that no slug can declare is judged all the same, as what the files say counts.
        slug, _ = propose(_unquantized(placed), rig)
    facts = Facts(rig=rig, checkpoint=checkpoint, engine=None, environ={}, free_port=_ANY_PORT, cwd="/")
    ctx = context_for(slug, {}, facts)
    findings = tuple(finding for finding in plan_findings(ctx) if finding.rule not in _OF_THIS_MACHINE)
    values = {name: value for name, value in ctx.values.items() if name != "port"}
    return Inspection(checkpoint=checkpoint, toggles=toggle_states(ctx), values=values, findings=findings)


def _unquantized(checkpoint: Checkpoint) -> Checkpoint:
    return msgspec.structs.replace(checkpoint, quantization=Quantization(method="none"))
