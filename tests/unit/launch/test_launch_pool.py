"""The pool of KV blocks against the plan, on rigs that are described and checkpoints that are fixtures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cockpit.catalog.slug import Slug, Speculative, Weights
from cockpit.checkpoint.inspect import inspect
from cockpit.launch.changes import full_forecast
from cockpit.launch.plan import Facts, context_for, subject_of
from cockpit.launch.pool import pool_findings
from cockpit.rig.described import load_rig
from cockpit.rig.types import Rig
from cockpit.rules.finding import Finding
from cockpit.rules.plan_rules import refusals

CHECKPOINTS = Path(__file__).parents[2] / "fixtures" / "checkpoints"


def found(folder: str, rig: str, length: int = 262144, **chosen: Any) -> dict[str, Finding]:
    checkpoint = inspect(str(CHECKPOINTS / folder)) if folder else None
    slug = Slug(
        name="local/x",
        model="x",
        weights=Weights(format="auto-round", repo="a/b", vision=True, mtp=True),
        max_model_len=length,
        max_num_seqs=2,
        kv_cache_dtype="fp8_e4m3",
        speculative=Speculative(method="mtp", tokens=3),
    )
    described = load_rig(rig) if rig else Rig()
    facts = Facts(rig=described, checkpoint=checkpoint, engine=None, environ={}, free_port=8000, cwd="/")
    ctx = context_for(slug, chosen, facts)
    forecast = full_forecast(ctx, subject_of(facts))
    return {finding.rule: finding for finding in pool_findings(ctx, forecast, checkpoint)}


def test_a_4_bit_27b_at_its_whole_context_is_calm_on_two_cards() -> None:
    assert found("auto-round-w4-hybrid", "2x3090", gpus=(0, 1)) == {}


def test_the_same_on_one_card_is_refused_with_the_longest_context_that_fits() -> None:
    (finding,) = found("auto-round-w4-hybrid", "1x3090", gpus=(0,)).values()
    assert (finding.rule, finding.severity, finding.level) == ("kv-one-request", "block", "rig")
    assert "one request of 262,144 tokens needs" in finding.message
    fits = int(finding.fix.removeprefix("Set max_model_len=").removesuffix(" or less."))
    again = found("auto-round-w4-hybrid", "1x3090", gpus=(0,), max_model_len=fits)
    assert "kv-one-request" not in again
    assert refusals((finding,), force=True) == ()


def test_weights_that_fill_the_card_are_refused_whatever_the_context() -> None:
    (finding,) = found("bf16-hybrid", "2x3090", 1024, gpus=(0, 1)).values()
    assert finding.severity == "block"
    assert finding.fix == "Use more GPUs, or smaller weights."


def test_a_pool_that_may_be_too_small_is_a_warning_with_tokens_and_percent() -> None:
    (finding,) = found("auto-round-w4-hybrid", "1x3090", gpus=(0,), max_model_len=49152).values()
    assert (finding.rule, finding.severity) == ("kv-headroom", "warn")
    assert "tokens (" in finding.message and "%) short" in finding.message


def test_more_sequences_than_state_blocks_are_refused_on_a_hybrid_only() -> None:
    rules = found("auto-round-w4-hybrid", "1x3090", gpus=(0,), max_model_len=16384, max_num_seqs=2000)
    assert rules["hybrid-state-blocks"].severity == "block"
    assert "Set max_num_seqs=" in rules["hybrid-state-blocks"].fix
    assert "hybrid-state-blocks" not in found("auto-round-w4", "1x3090", 16384, gpus=(0,), max_num_seqs=2000)


def test_switches_that_free_memory_count() -> None:
    loaded = found("auto-round-w4-hybrid", "1x3090", gpus=(0,), max_model_len=262144)["kv-one-request"]
    lean = found(
        "auto-round-w4-hybrid", "1x3090", gpus=(0,), max_model_len=262144, vision="off", speculative_tokens=0
    )["kv-one-request"]

    def longest(finding: Finding) -> int:
        return int(finding.fix.removeprefix("Set max_model_len=").removesuffix(" or less."))

    assert longest(lean) > longest(loaded)


@pytest.mark.parametrize(
    ("folder", "rig"),
    [("", "2x3090"), ("auto-round-w4-hybrid", ""), ("jamba", "2x3090"), ("unknown-method", "2x3090")],
)
def test_nothing_is_said_where_checkpoint_rig_or_family_is_unknown(folder: str, rig: str) -> None:
    assert found(folder, rig) == {}
