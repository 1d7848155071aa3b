"""Whether a slug fits a rig, in a word for a list. Pure; what would make it fit is the business of its card."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from cockpit.catalog.slug import Slug
from cockpit.launch.forecast import forecast_of, gpus_missing
from cockpit.launch.plan import Facts, context_for, subject_of
from cockpit.launch.refusal import blocked_word, first_block
from cockpit.launch.verdict import VERDICTS
from cockpit.planner.forecast_types import Fits, Forecast
from cockpit.rig.types import Rig
from cockpit.rules.finding import Finding
from cockpit.units import gib, size_text, tokens


class SlugFit(msgspec.Struct, frozen=True, kw_only=True):
    """One slug on one rig."""

    fits: Fits
    reason: str | None = None
    """Why it does not fit, is tight or is unknown: one sentence without a full stop at its end."""
    needs_gpus: int | None = None
    """So many GPUs it takes, where the rig has fewer."""
    blocked: Finding | None = None
    """What refuses its start, whatever its memory."""
    forecast: Forecast


def slug_fit(slug: Slug, chosen: Mapping[str, Any], facts: Facts) -> SlugFit:
    """Whether a slug fits the rig of ``facts`` with the values that were chosen, and what refuses its start."""
    ctx = context_for(slug, chosen, facts)
    forecast = forecast_of(ctx, subject_of(facts))
    return SlugFit(
        fits=forecast.fits,
        reason=forecast.reason,
        needs_gpus=gpus_missing(ctx),
        blocked=first_block(slug, ctx, facts, forecast),
        forecast=forecast,
    )


def fit_text(fit: SlugFit, width: int = 22) -> str:
    """What a list shows of it in ``width`` cells, twenty at least.

    ``2.38x +361,729``, ``tight +1,528``, ``tight -7,282 ±35,000``, ``no: needs 3.1 GiB more``, ``needs 4 GPUs``
    or ``?``; with less room ``tight -7,282`` and ``needs 13.1 GiB more``. ``blocked: flags`` where its memory is not
    what refuses it.
    """
    forecast = fit.forecast
    if fit.needs_gpus is not None:
        return "needs 1 GPU" if fit.needs_gpus == 1 else f"needs {fit.needs_gpus} GPUs"
    if fit.blocked is not None and fit.fits != "no":
        text = f"blocked: {blocked_word(fit.blocked)}"
        return text if len(text) <= width else "blocked"
    if fit.fits == "unknown":
        return "?"
    if fit.fits == "no":
        if not forecast.missing_bytes:
            return "no: memory in use"
        text = f"needs {size_text(forecast.missing_bytes)} more"
        return f"no: {text}" if len(text) + 4 <= width else text
    headroom = forecast.headroom_tokens
    spare = "" if headroom is None else f" {headroom:+,}"
    if fit.fits == "tight":
        short = headroom is not None and headroom < 0 and forecast.error_tokens is not None
        with_error = f"tight{spare} ±{tokens(forecast.error_tokens)}" if short else f"tight{spare}"
        return with_error if len(with_error) <= width else f"tight{spare}"
    if forecast.kv is None:
        return f"fits{spare}"
    at_once = forecast.kv.max_concurrency
    return f"{at_once:.2f}x{spare}" if at_once < 100 else f"{at_once:,.0f}x{spare}"


def fit_sentence(fit: SlugFit) -> str:
    """The forecast in one sentence without a full stop at its end."""
    forecast, kv = fit.forecast, fit.forecast.kv
    if fit.needs_gpus is not None or fit.fits == "unknown":
        return fit.reason or "nothing is known of its memory"
    parts = VERDICTS[fit.fits][1]
    if kv is not None and fit.fits != "no":
        parts += (
            f": {tokens(kv.capacity_tokens)} tokens of KV pool, {kv.max_concurrency:,.2f} requests at full context"
        )
    if fit.reason:
        parts += f"{', ' if kv is not None and fit.fits != 'no' else ': '}{fit.reason}"
    if fit.fits == "no" and forecast.largest_max_model_len:
        parts += f"; {tokens(forecast.largest_max_model_len)} tokens would fit"
    return parts


def rig_text(rig: Rig) -> str:
    """``2x RTX 3090 24 GiB``; cards of one kind are counted together."""
    kinds: dict[tuple[str, int | None], int] = {}
    for gpu in rig.gpus:
        kind = (gpu.name.removeprefix("NVIDIA ").removeprefix("GeForce "), gpu.total_bytes)
        kinds[kind] = kinds.get(kind, 0) + 1
    return " + ".join(f"{count}x {name} {gib(size, 0)} GiB" for (name, size), count in kinds.items())
