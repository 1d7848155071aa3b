"""The longest context that vLLM takes: the model's own, as its scaling or the slug's overrides stretch it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from cockpit.checkpoint.scaling import longest_context, read_scaling
from cockpit.checkpoint.types import RopeScaling
from cockpit.rig.version import version_numbers
from cockpit.rules.context import Context
from cockpit.rules.finding import Finding
from cockpit.units import tokens

_ALLOW = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"
_LENGTHS = ("max_position_embeddings", "n_positions", "max_seq_len", "model_max_length", "max_sequence_length")
_TEXT = ("text_config", "language_config", "llm_config")


def _overrides(ctx: Context) -> Mapping[str, Any] | None:
    """What the slug's hf-overrides change of the text model; empty for nothing, None when that cannot be read."""
    said: Any = ctx.slug.flags.get("hf-overrides")
    if said is None:
        return {}
    if isinstance(said, str):
        try:
            said = json.loads(said)
        except ValueError:
            return None
    if not isinstance(said, dict):
        return None
    inner = [said[key] for key in _TEXT if isinstance(said.get(key), dict)]
    return {**said, **{key: value for part in inner for key, value in part.items()}}


def _length(overrides: Mapping[str, Any]) -> int | None:
    lengths = [overrides[key] for key in _LENGTHS if key in overrides]
    return next((value for value in lengths if isinstance(value, int) and not isinstance(value, bool)), None)


def _scaling(ctx: Context, overrides: Mapping[str, Any]) -> RopeScaling | None:
    if "rope_parameters" in overrides or "rope_scaling" in overrides:
        return read_scaling(overrides)
    return None if ctx.checkpoint is None else ctx.checkpoint.rope_scaling


def longest(ctx: Context) -> int | None:
    """In tokens; None when nothing states it, or an override cannot be read."""
    checkpoint = ctx.checkpoint
    native = (None if checkpoint is None else checkpoint.max_model_len) or ctx.slug.weights.native_max_model_len
    overrides = _overrides(ctx)
    if overrides is None:
        return None
    positions = _length(overrides) or native
    if positions is None:
        return None
    version = None if ctx.engine is None else version_numbers(ctx.engine.version) or None
    model_type = "" if checkpoint is None else checkpoint.model_type
    return longest_context(positions, _scaling(ctx, overrides), model_type, version)


def _allowed(ctx: Context) -> bool:
    """Whether vLLM is told to take any length."""
    said = ctx.slug.env.get(_ALLOW)
    inherited = ctx.host is not None and _ALLOW in ctx.host.inherited
    return inherited if said is None else said.strip().lower() in ("1", "true")


def _fix(ctx: Context, limit: int, length: int) -> str:
    shorter = f"Set max_model_len={limit} or less"
    stretched = _scaling(ctx, _overrides(ctx) or {})
    if stretched is not None and stretched.kind.endswith("yarn"):
        return f"{shorter}, or set max_position_embeddings={length} in hf-overrides beside the scaling."
    return f"{shorter}."


def context_length(ctx: Context) -> Iterator[Finding]:
    """vLLM refuses a context above what the model's config gives, unless it is told not to."""
    limit, length = longest(ctx), ctx.values.get("max_model_len")
    if limit is None or length is None or length <= limit:
        return
    allowed = _allowed(ctx)
    message = f"context {tokens(length)} is longer than the model's own {tokens(limit)} tokens"
    yield Finding(
        rule="context-native",
        severity="warn" if allowed else "block",
        subject="max_model_len",
        message=f"{message}, which {_ALLOW} lets pass: answers may turn to nonsense" if allowed else message,
        fix=_fix(ctx, limit, length),
    )
