"""The list says that a slug is blocked exactly where its card refuses to start it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from recipes import ENGINE, HOPPER, RTX, entry, facts

from cockpit import paths
from cockpit.catalog.load import Entry, load
from cockpit.catalog.slug import Weights
from cockpit.launch.plan import Facts, make_plan
from cockpit.launch.slug_fit import fit_text, slug_fit
from cockpit.planner.declared import declared_checkpoint
from cockpit.rig.described import load_rig
from cockpit.rig.flags import EngineFlags
from cockpit.rules.finding import Finding
from cockpit.rules.plan_rules import refusals

SHIPPED = load(paths.shipped("slugs")).entries
KNOWN_FLAGS = EngineFlags(version="0.33.0", flags={})


def first_refusal(of: Entry, with_facts: Facts) -> Finding | None:
    return next(iter(refusals(make_plan(of, {}, with_facts).findings)), None)


def facts_on(rig_name: str, of: Entry) -> Facts:
    declared = declared_checkpoint(of.slug.weights, of.architecture_file)
    return Facts(rig=load_rig(rig_name), declared=declared, engine=None, environ={}, free_port=8000, cwd="/")


@pytest.mark.parametrize("rig_name", ["1x3090", "2x3090", "4x3090", "1xh200"])
def test_it_is_what_the_plan_of_every_shipped_slug_says_first(rig_name: str) -> None:
    for of in SHIPPED:
        with_facts = facts_on(rig_name, of)
        assert slug_fit(of.slug, {}, with_facts).blocked == first_refusal(of, with_facts), of.slug.name


BLOCKED: dict[str, tuple[Entry, dict[str, Any]]] = {
    "an engine that is not there": (entry(), {"engine": None}),
    "files that cannot be read": (entry(), {"checkpoint_problem": "config.json is no JSON"}),
    "a file that a flag names": (entry(), {"missing_files": ("/no/template",)}),
    "a flag that needs another": (entry(flags={"enable-auto-tool-choice": True}), {}),
    "a flag that vLLM does not know": (entry(flags={"swap-space": 4}), {"flags": KNOWN_FLAGS}),
    "a flag of a toggle that it does not know": (entry(kv_cache_dtype="fp8_e4m3"), {"flags": KNOWN_FLAGS}),
    "fewer GPUs": (entry(tensor_parallel=8), {}),
    "formats on cards that cannot": (entry(Weights(format="nvfp4", repo="a/b")), {"rig": HOPPER}),
}


@pytest.mark.parametrize("case", BLOCKED)
def test_it_is_what_the_plan_says_whatever_kind_of_rule_speaks(case: str) -> None:
    of, changes = BLOCKED[case]
    with_facts = facts(**changes)
    assert slug_fit(of.slug, {}, with_facts).blocked == first_refusal(of, with_facts)


@pytest.mark.parametrize(
    ("case", "text"),
    [
        ("an engine that is not there", "blocked: no vLLM"),
        ("files that cannot be read", "blocked: weights"),
        ("a file that a flag names", "blocked: flags"),
        ("a flag that vLLM does not know", "blocked: flags"),
        ("fewer GPUs", "needs 8 GPUs"),
    ],
)
def test_a_list_says_what_it_is_about(case: str, text: str) -> None:
    of, changes = BLOCKED[case]
    assert fit_text(slug_fit(of.slug, {}, facts(**changes)), 20) == text


def test_a_word_without_room_is_left_out() -> None:
    fit = slug_fit(entry().slug, {}, facts(engine=None))
    assert fit.blocked is not None
    long = msgspec.structs.replace(fit.blocked, rule="x", subject="gpu_memory_utilization")
    assert fit_text(msgspec.structs.replace(fit, blocked=long), 20) == "blocked"


def test_what_nothing_stands_against_is_not_blocked() -> None:
    assert slug_fit(entry().slug, {}, facts(rig=RTX, engine=ENGINE)).blocked is None
