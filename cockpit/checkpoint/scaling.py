"""How a model's context is stretched (rope_scaling, rope_parameters), and how long vLLM then lets it be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cockpit.checkpoint.types import RopeScaling

_NO_FACTOR = frozenset({"default", "su", "longrope", "llama3", "mrope", "proportional"})
_YARN = frozenset({"yarn", "deepseek_yarn", "deepseek_llama_scaling"})
_LATER_YARN = (0, 30)
"""From this vLLM on max_position_embeddings counts as stretched already (seen in 0.30 to 0.33, not in 0.28)."""


def read_scaling(text: Mapping[str, Any]) -> RopeScaling | None:
    """The scaling that the text part of a config states, under its new or its old key; None when there is none.

    Never raises: what is not a scaling counts as none, and vLLM itself says what is wrong with it.
    """
    for key in ("rope_parameters", "rope_scaling"):
        part = text.get(key)
        if not isinstance(part, dict):
            continue
        inner = [one for one in part.values() if isinstance(one, dict)] or [part]
        for one in inner:
            found = _one(one)
            if found is not None:
                return found
    return None


def _one(part: Mapping[str, Any]) -> RopeScaling | None:
    kind = part.get("rope_type", part.get("type"))
    if not isinstance(kind, str) or kind == "default":
        return None
    return RopeScaling(
        kind=kind[:40],
        factor=_number(part.get("factor")),
        original=None if (length := _number(part.get("original_max_position_embeddings"))) is None else int(length),
    )


def _number(value: object) -> float | None:
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if numeric and 0 < value < 2**40 else None  # type: ignore[operator,arg-type]


def longest_context(
    positions: int, scaling: RopeScaling | None, model_type: str, version: tuple[int, ...] | None
) -> int | None:
    """Tokens up to which vLLM takes --max-model-len; None for a scaling that cannot be told.

    ``positions`` is max_position_embeddings, ``version`` the vLLM's, None for unknown: then the more generous rule
    counts. Source: _get_and_verify_max_len of config/model.py.
    """
    if scaling is None or scaling.kind in _NO_FACTOR or "gemma3" in model_type:
        return positions
    if scaling.kind in _YARN and version is not None and version >= _LATER_YARN:
        return positions
    if scaling.factor is None:
        return None
    if scaling.kind in _YARN:
        # Before 0.30 only "yarn" itself started from the original length.
        original = scaling.original if scaling.kind == "yarn" else positions
        stretched = None if original is None else int(original * scaling.factor)
        return stretched if version is not None or stretched is None else max(stretched, positions)
    return int(positions * scaling.factor)
