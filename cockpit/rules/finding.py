"""What a rule answers: a finding about a plan, or the state of one toggle."""

from __future__ import annotations

from typing import Literal

import msgspec

Severity = Literal["block", "warn", "note"]
Level = Literal["rig", "checkpoint", "usage"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One fact about a plan that its user should know."""

    rule: str
    """Id of the rule, kebab-case."""
    severity: Severity
    subject: str
    """What it is about: a toggle id, ``engine``, ``port``, ``gpus``…"""
    message: str
    """One sentence."""
    fix: str = ""
    """One sentence: what to do."""
    level: Level = "checkpoint"
    """``--force`` passes blocks of level ``rig`` only."""


class ToggleState(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a toggle may be used, and why not."""

    state: Literal["offered", "blocked"]
    reason: str | None = None
    """One sentence; None when it is offered."""
    fix: str | None = None
    level: Level = "checkpoint"


OFFERED = ToggleState(state="offered")


def describe(finding: Finding) -> str:
    """A finding as one line with its glyph."""
    glyph = {"block": "✕", "warn": "⚠", "note": "·"}[finding.severity]
    return f"{glyph} {finding.message.rstrip('.')}." + (f" {finding.fix}" if finding.fix else "")
