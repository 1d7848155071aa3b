"""What a check of `cockpit doctor` reads and answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from cockpit.rig.leftovers import Leftover
from cockpit.rig.types import Engine, EngineProblem, HostFacts, Rig

Status = Literal["ok", "warn", "fail"]


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the doctor."""

    check: str
    """What was looked at, kebab-case."""
    status: Status
    message: str
    """One sentence."""
    fix: str = ""
    """One sentence; empty when all is well."""


class Examined(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the checks read, gathered before."""

    rig: Rig
    facts: HostFacts
    environ: Mapping[str, str]
    engines: Sequence[Engine] = ()
    engine_problems: Sequence[EngineProblem] = ()
    leftovers: Sequence[Leftover] = ()
    instances: Mapping[int, str] = {}
    """Pid → instance, for the processes of instances on record."""
