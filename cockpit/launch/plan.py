"""Slug + toggle values → the exact argv and environment. Pure: everything it needs is handed in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from cockpit.api_key import VARIABLE
from cockpit.catalog.load import Entry
from cockpit.catalog.slug import Slug
from cockpit.checkpoint.types import Checkpoint
from cockpit.errors import CockpitError
from cockpit.launch.changes import full_forecast
from cockpit.launch.draft import Draft
from cockpit.launch.forecast import Subject, boot_subject
from cockpit.launch.overlay import apply_overlays, needed, overlay_findings
from cockpit.launch.pool import boots_findings, pool_findings
from cockpit.launch.rig_env import apply_rig_env
from cockpit.launch.toggles import BY_ID, TOGGLES
from cockpit.launch.types import LaunchPlan
from cockpit.launch.values import parse_value
from cockpit.nearest import nearest
from cockpit.planner.calibration import Boot
from cockpit.rig.flags import EngineFlags
from cockpit.rig.types import Engine, HostFacts, Rig
from cockpit.rules.context import Context
from cockpit.rules.finding import Finding, ToggleState
from cockpit.rules.host import flag_findings
from cockpit.rules.int8 import SWITCH
from cockpit.rules.plan_rules import blocks_first, plan_findings
from cockpit.rules.secrets import secret_findings
from cockpit.rules.toggles import toggle_state


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What planning reads from the outside, gathered once."""

    rig: Rig
    checkpoint: Checkpoint | None = None
    """What the checkpoint's files say; None when they are not on this machine."""
    checkpoint_problem: str | None = None
    declared: Checkpoint | None = None
    """The checkpoint as its slug declares it, for a forecast where its files are not here."""
    boots: tuple[Boot, ...] = ()
    """Earlier boots of the checkpoint that measured their memory."""
    boots_problem: str | None = None
    """What is wrong with the file of them, as one sentence."""
    host: HostFacts | None = None
    missing_files: tuple[str, ...] = ()
    """Whole paths that the slug's flags name and that are not on this machine."""
    gpu_holders: dict[int, str] = {}
    engine: Engine | None
    flags: EngineFlags | None = None
    """What that vLLM's own help names; None while it was not asked."""
    engine_problem: str | None = None
    environ: dict[str, str]
    """The caller's environment."""
    api_key: str | None = None
    """The key that the server will ask for, from the environment or the key file."""
    readable_secrets: tuple[str, ...] = ()
    """Variables of the slug that hold secrets, in a file that other users may read."""
    free_port: int
    """First free port from 8000."""
    default_host: str = "127.0.0.1"
    cwd: str


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """What stands against the chosen host and port; neither is set when nothing does."""

    problem: str | None = None
    """Why nothing can listen there: not this machine's, or not allowed."""
    owner: str | None = None
    """Who listens there already."""


def parse_settings(pairs: Sequence[str]) -> dict[str, Any]:
    """``["int8=on", "max_model_len=131072"]`` → values by toggle id.

    Raises CockpitError for an unknown toggle (with the nearest), a missing ``=`` or a value that cannot be used.
    """
    values: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        name = name.strip().replace("-", "_")
        if not equals:
            raise CockpitError(f"--set {pair[:60]} has no value", fix=f"Write --set {name or 'int8'}=VALUE.")
        if name not in BY_ID:
            raise CockpitError(f"no toggle is named {name[:60]!r}", fix=_meant_toggle(name))
        values[name] = parse_value(name, BY_ID[name].kind, text)
    return values


def _meant_toggle(word: str) -> str:
    """By its id, or by what the card calls it."""
    ids = {name.lower(): toggle.id for toggle in TOGGLES for name in (toggle.id, toggle.label.replace(" ", "_"))}
    meant = dict.fromkeys(ids[name] for name in nearest(word, ids))
    return f"Did you mean {' or '.join(meant)}?" if meant else f"There are: {', '.join(BY_ID)}."


def effective_values(slug: Slug, chosen: Mapping[str, Any], facts: Facts) -> dict[str, Any]:
    """Every toggle's value: what the user chose, else the slug's or the rig's default.

    GPUs and tensor parallel follow each other when only one is chosen. int8 that the slug turns on stays off
    where a rule blocks it.
    """
    values = {toggle.id: toggle.default(slug) for toggle in TOGGLES}
    values["host"] = facts.default_host
    values["port"] = facts.free_port
    values.update(chosen)
    if "gpus" in chosen and "tensor_parallel" not in chosen:
        values["tensor_parallel"] = max(1, len(chosen["gpus"]))
    elif "tensor_parallel" in chosen and "gpus" not in chosen and slug.platform != "cpu":
        values["gpus"] = tuple(range(chosen["tensor_parallel"]))
    if values["int8"] == "on" and "int8" not in chosen:
        ctx = Context(slug=slug, checkpoint=facts.checkpoint, rig=facts.rig, engine=facts.engine, values=values)
        if toggle_state("int8", ctx).state == "blocked":
            values["int8"] = "off"
    return values


def context_for(slug: Slug, chosen: Mapping[str, Any], facts: Facts, address: Address | None = None) -> Context:
    """The facts as rules read them, with the value of every toggle: what was chosen, else its default."""
    return Context(
        slug=slug,
        checkpoint=facts.checkpoint,
        checkpoint_problem=facts.checkpoint_problem,
        host=facts.host,
        missing_files=facts.missing_files,
        gpu_holders=facts.gpu_holders,
        rig=facts.rig,
        engine=facts.engine,
        engine_problem=facts.engine_problem,
        values=effective_values(slug, chosen, facts),
        chosen=frozenset(chosen),
        address_problem=address.problem if address else None,
        port_owner=address.owner if address else None,
        api_key_set=bool(facts.environ.get(VARIABLE) or facts.api_key or slug.env.get(VARIABLE)),
    )


def toggle_states(ctx: Context) -> dict[str, ToggleState]:
    """State of every toggle, in the table's order."""
    return {toggle.id: toggle_state(toggle.id, ctx) for toggle in TOGGLES}


def draft_of(slug: Slug, ctx: Context, facts: Facts) -> Draft:
    """Flags and environment of a slug with the values of ``ctx``, without overlays."""
    draft = Draft()
    for name, text in slug.env.items():
        draft.env(name, text)
    if facts.api_key:
        draft.env_default(VARIABLE, facts.api_key, facts.environ)
    draft.flag("served-model-name", slug.api_name)
    for toggle in TOGGLES:
        state = toggle_state(toggle.id, ctx)
        # What only this rig stands against is done all the same when the user asked for it: --force passes it.
        if state.state == "offered" or (state.level == "rig" and toggle.id in ctx.chosen):
            toggle.apply(draft, slug, ctx.values[toggle.id])
        elif toggle.id == "int8":
            # A refused switch is also taken out of an environment that has it.
            toggle.apply(draft, slug, "off")
    for name, value in slug.flags.items():
        draft.flag(name, value)
    if slug.platform == "cuda":
        apply_rig_env(draft, facts.rig, ctx.values["tensor_parallel"], facts.environ)
    return draft


def subject_of(facts: Facts, source: str = "") -> Subject:
    """What the forecast of a slug is about: its checkpoint's files, else what it declares."""
    declared = facts.checkpoint is None
    return Subject(
        checkpoint=facts.declared if declared else facts.checkpoint,
        declared=declared,
        source=source,
        boots=facts.boots,
        environ=facts.environ,
    )


def _gpu_model(slug: Slug, rig: Rig, gpus: Sequence[int]) -> str:
    """The GPUs of a plan by name, each kind with its number; empty when one of them is not there."""
    if slug.platform == "cpu":
        return "CPU"
    names = [gpu.name for gpu in rig.gpus if gpu.index in gpus]
    if len(names) != len(gpus):
        return ""
    return ", ".join(f"{names.count(name)}x {name}" for name in dict.fromkeys(names))


def _argv(entry: Entry, facts: Facts, words: Sequence[str]) -> tuple[str, ...]:
    command = facts.engine.path if facts.engine is not None else "vllm"
    return (command, "serve", entry.model_source, *words)


def _findings_beside_the_rules(entry: Entry, facts: Facts, argv: Sequence[str]) -> tuple[Finding, ...]:
    """What files and the engine's own help say against a plan."""
    return (
        *boots_findings(facts.boots_problem),
        *flag_findings(argv[3:], facts.flags),
        *secret_findings(facts.readable_secrets, str(entry.file)),
    )


def make_plan(entry: Entry, chosen: Mapping[str, Any], facts: Facts, address: Address | None = None) -> LaunchPlan:
    """The exact command for one slug: argv, environment, findings and forecast.

    ``chosen`` holds what the user set, by toggle id. A plan with blocking findings is returned all the same, so
    that it can be shown; `rules.plan_rules.refusals` says whether it may run. argv[0] is ``vllm`` when there is
    no engine.
    """
    ctx = context_for(entry.slug, chosen, facts, address)
    draft = draft_of(entry.slug, ctx, facts)
    subject = subject_of(facts, entry.model_source)
    forecast = full_forecast(ctx, subject)
    overlays = needed(ctx, int8=draft.value(SWITCH, facts.environ) is not None)
    apply_overlays(draft, ctx, overlays, facts.environ)
    argv = _argv(entry, facts, draft.words())
    gpus = ctx.gpu_indices if entry.slug.platform != "cpu" else ()
    found = (*plan_findings(ctx), *overlay_findings(ctx, overlays), *pool_findings(ctx, forecast, subject.checkpoint))
    return LaunchPlan(
        slug=entry.slug.name,
        model=entry.model_source,
        served_model_name=entry.slug.api_name,
        argv=argv,
        env=draft.changes(facts.environ),
        cwd=facts.cwd,
        host=ctx.values["host"],
        port=ctx.values["port"],
        gpus=gpus,
        platform=entry.slug.platform,
        engine=facts.engine.id if facts.engine is not None else "",
        engine_version=facts.engine.version if facts.engine is not None else "",
        gpu_model=_gpu_model(entry.slug, facts.rig, gpus),
        values=ctx.values,
        findings=blocks_first((*found, *_findings_beside_the_rules(entry, facts, argv))),
        forecast=forecast,
        boot=boot_subject(ctx, subject),
        overlays=overlays,
    )
