"""Of several quantizations of a model, the best that fits a rig, by published quality, a reason each. Pure.

Published figures are of the weights alone, so a slug that fits only with a smaller KV cache ranks below those that
fit with a 16-bit one. Formats of 8 bits and more stand above narrower ones, whose figures decide among them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from cockpit.catalog.quality import quality_key
from cockpit.catalog.slug import Slug
from cockpit.launch.plan import Facts, context_for
from cockpit.launch.slug_fit import SlugFit, fit_sentence, fit_text, slug_fit
from cockpit.rules.finding import Finding
from cockpit.rules.plan_rules import plan_findings
from cockpit.units import gib

State = Literal["fits", "fits-small-kv", "uncertain", "out"]
_ORDER: dict[State, int] = {"fits": 0, "fits-small-kv": 1, "uncertain": 2, "out": 3}
_OWN_KV = ("auto", "bfloat16", "float16")
_OF_THIS_MACHINE = ("engine", "port", "host")
"""Subjects of findings that say nothing of the checkpoint on the rig."""
_SAID_BY_THE_FIT = ("weights-missing", "gpu-missing", "gpu-index", "tensor-parallel-gpus", "memory-in-use")


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """One slug at the wanted context, judged."""

    slug: Slug
    state: State
    fit: SlugFit
    """With ``set`` in place."""
    declared: SlugFit
    """As the slug is written, but for the context."""
    set: dict[str, Any] = {}
    """What to change of the slug for this to hold, beside the context."""
    why: str
    """One sentence without a full stop at its end."""


def holds(fit: SlugFit) -> bool:
    """Whether it is expected to fit, however closely."""
    kv = fit.forecast.kv
    return fit.fits == "yes" or (fit.fits == "tight" and kv is not None and kv.fits)


def _refusal(slug: Slug, chosen: dict[str, Any], facts: Facts) -> Finding | None:
    """What stands against the slug on such a rig, whatever its memory."""
    for finding in plan_findings(context_for(slug, chosen, facts)):
        elsewhere = finding.subject in _OF_THIS_MACHINE or finding.rule in _SAID_BY_THE_FIT
        if finding.severity == "block" and not elsewhere:
            return finding
    return None


def _short_of(fit: SlugFit) -> str:
    missing = fit.forecast.missing_bytes
    return f"it needs {gib(missing)} GiB more a GPU" if missing else fit.reason or "it does not fit"


def judged(slug: Slug, max_model_len: int, facts: Facts) -> Candidate:
    """One slug on the rig of ``facts`` at ``max_model_len`` tokens."""
    chosen: dict[str, Any] = {"max_model_len": max_model_len}
    fit = slug_fit(slug, chosen, facts)
    refusal = _refusal(slug, chosen, facts)
    if refusal is not None:
        return Candidate(slug=slug, state="out", fit=fit, declared=fit, why=refusal.message.rstrip("."))
    if fit.fits == "no" or not holds(fit):
        state: State = "out" if fit.fits == "no" else "uncertain"
        return Candidate(slug=slug, state=state, fit=fit, declared=fit, why=fit_sentence(fit))
    if slug.kv_cache_dtype in _OWN_KV:
        return Candidate(slug=slug, state="fits", fit=fit, declared=fit, why=fit_sentence(fit))
    wide = {"kv_cache_dtype": "auto"}
    own = slug_fit(slug, {**chosen, **wide}, facts)
    if holds(own):
        return Candidate(slug=slug, state="fits", fit=own, declared=fit, set=wide, why=fit_sentence(own))
    why = f"fits only with its {slug.kv_cache_dtype} KV cache ({fit_text(fit)}): with a 16-bit one {_short_of(own)}"
    return Candidate(slug=slug, state="fits-small-kv", fit=fit, declared=fit, why=why)


def ranked(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """Those that fit first, the best quality first among them; those that are out last."""
    return tuple(sorted(candidates, key=rank_key))


def rank_key(candidate: Candidate) -> tuple[int, tuple[float, float, float, float, str]]:
    """Sorts what fits first, and the best quality first among that."""
    return _ORDER[candidate.state], quality_key(candidate.slug)
