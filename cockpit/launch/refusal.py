"""What would refuse a slug's start, for a list: the first block of its plan, without what only a card needs. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.catalog.slug import Slug
from cockpit.launch.overlay import needed, overlay_findings
from cockpit.launch.plan import Facts, draft_of, subject_of
from cockpit.launch.pool import pool_findings
from cockpit.launch.toggles import BY_ID
from cockpit.planner.forecast_types import Forecast
from cockpit.rules.context import Context
from cockpit.rules.finding import Finding
from cockpit.rules.host import flag_findings
from cockpit.rules.int8 import SWITCH
from cockpit.rules.plan_rules import plan_findings


def first_block(slug: Slug, ctx: Context, facts: Facts, forecast: Forecast) -> Finding | None:
    """The block that `make_plan` would show first; None when the plan would start."""
    return next((finding for finding in _findings(slug, ctx, facts, forecast) if finding.severity == "block"), None)


def _findings(slug: Slug, ctx: Context, facts: Facts, forecast: Forecast) -> Iterator[Finding]:
    """In the order of `make_plan`; what follows the rules is computed where they let the plan pass."""
    yield from plan_findings(ctx)
    draft = draft_of(slug, ctx, facts)
    overlays = needed(ctx, int8=draft.value(SWITCH, facts.environ) is not None)
    yield from overlay_findings(ctx, overlays)
    yield from pool_findings(ctx, forecast, subject_of(facts).checkpoint)
    yield from flag_findings(draft.words(), facts.flags)


def blocked_word(finding: Finding) -> str:
    """What a block is about, in a word or two: ``flags``, ``no vLLM``, ``KV cache``."""
    if finding.rule == "engine-missing":
        return "no vLLM"
    toggle = BY_ID.get(finding.subject)
    return finding.subject if toggle is None else toggle.label
