"""Values as the JSON that scripts rely on."""

from __future__ import annotations

from typing import Any

from cockpit.catalog.load import Entry, Problem
from cockpit.cli.forecast_text import forecast_json
from cockpit.launch.render import shell_command, shown_argv, shown_env
from cockpit.launch.slug_fit import SlugFit
from cockpit.launch.types import LaunchPlan
from cockpit.rules.finding import Finding, ToggleState
from cockpit.supervisor.boot_state import BootState
from cockpit.supervisor.diagnose.types import Diagnosis


def finding_json(finding: Finding) -> dict[str, Any]:
    """One finding."""
    return {
        "rule": finding.rule,
        "severity": finding.severity,
        "subject": finding.subject,
        "message": finding.message,
        "fix": finding.fix,
    }


def toggles_json(states: dict[str, ToggleState], values: dict[str, Any]) -> dict[str, Any]:
    """Every toggle's state, value and reason."""
    return {
        name: {"state": state.state, "value": values.get(name), "reason": state.reason, "fix": state.fix}
        for name, state in states.items()
    }


def fit_json(fit: SlugFit) -> dict[str, Any]:
    """Whether a slug fits: as the forecast of `cockpit plan`, without what is said of each GPU."""
    whole = forecast_json(fit.forecast)
    short = {name: value for name, value in whole.items() if name not in ("per_gpu", "changes")}
    blocked = None if fit.blocked is None else finding_json(fit.blocked)
    return {**short, "fits": fit.fits, "reason": fit.reason, "needs_gpus": fit.needs_gpus, "blocked": blocked}


def slug_json(entry: Entry, states: dict[str, ToggleState], values: dict[str, Any], fit: SlugFit) -> dict[str, Any]:
    """One row of `cockpit slugs`."""
    slug, weights = entry.slug, entry.slug.weights
    spec = slug.speculative
    return {
        "name": slug.name,
        "aliases": slug.aliases,
        "model": slug.model,
        "description": slug.description,
        "platform": slug.platform,
        "weights": {
            "repo": weights.repo or entry.model_source,
            "format": weights.format,
            "bits": weights.bits,
            "widths": weights.widths,
            "moe": weights.moe,
            "size_bytes": weights.size_bytes,
            "bits_per_weight": weights.bits_per_weight,
        },
        "tensor_parallel": slug.tensor_parallel,
        "max_model_len": slug.max_model_len,
        "kv_cache_dtype": slug.kv_cache_dtype,
        "speculative": {"method": spec.method, "tokens": spec.tokens} if spec else None,
        "quality": slug.quality,
        "fits": fit_json(fit),
        "toggles": toggles_json(states, values),
        "file": str(entry.file),
    }


def diagnosis_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """`cockpit diagnose`, and the diagnosis of `cockpit serve --wait`."""
    boot = diagnosis.boot
    return {
        "healthy": diagnosis.healthy,
        "ready": diagnosis.ready,
        "vllm_version": diagnosis.vllm_version,
        "symptom": diagnosis.symptom,
        "first_exception": diagnosis.first_exception,
        "place": diagnosis.place,
        "explanation": diagnosis.explanation,
        "fixes": [{"text": fix.text, "set": fix.set, "env": fix.env} for fix in diagnosis.fixes],
        "notes": diagnosis.notes,
        "stages": stages_json(boot),
        "facts": boot.facts,
    }


def stages_json(boot: BootState) -> list[dict[str, Any]]:
    """The stages of a boot; the seconds of one that did not end are null."""
    return [
        {"id": stage.id, "seconds": None if stage.seconds is None else round(stage.seconds, 3)}
        for stage in boot.stages
    ]


def problem_json(problem: Problem) -> dict[str, Any]:
    """A slug file that cannot be used."""
    return {
        "name": problem.name,
        "file": str(problem.file),
        "error": {"title": problem.title, "detail": problem.detail, "fix": problem.fix},
    }


def plan_json(plan: LaunchPlan) -> dict[str, Any]:
    """`cockpit plan`."""
    return {
        "slug": plan.slug,
        "model": plan.model,
        "argv": shown_argv(plan.argv),
        "env": shown_env(plan.env),
        "cwd": plan.cwd,
        "host": plan.host,
        "port": plan.port,
        "url": plan.url,
        "gpus": plan.gpus,
        "engine": plan.engine or None,
        "overlays": plan.overlays,
        "values": plan.values,
        "command": shell_command(plan),
        "findings": [finding_json(finding) for finding in plan.findings],
        "forecast": None if plan.forecast is None else forecast_json(plan.forecast),
    }
