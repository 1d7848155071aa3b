"""Tables of the rotary embedding as vLLM builds them: one for each distinct setting, shared by all its layers.

``get_rope`` of model_executor/layers/rotary_embedding, and the classes that it picks.
"""

from __future__ import annotations

from cockpit.checkpoint.keys import Keys
from cockpit.checkpoint.layers import FULL, SLIDING
from cockpit.checkpoint.types import RotaryTable

_MAX_FACTOR = 1 << 16
_MAX_POSITIONS = 1 << 31
_WITHOUT = ("gpt2", "opt", "bloom", "mpt", "whisper", "bart", "t5", "jamba", "nemotron_h")
"""Beginnings of model types that have no rotary embedding."""
_IN_FLOAT32 = ("gpt_oss",)
"""Beginnings of model types that ask ``get_rope`` for float32."""
_AS_LONG = ("default", "llama3", "ntk", "proportional")
_LONGER = ("linear", "dynamic")
_FROM_ORIGINAL = ("yarn", "deepseek_yarn", "deepseek_llama_scaling")
_PARTIAL = {"qwen3_next": 0.25, "qwen3_5": 0.25, "gpt_neox": 0.25, "stablelm": 0.25, "glm": 0.5}
"""partial_rotary_factor of families whose class supplies it."""
_FACTORS = ("partial_rotary_factor", "rotary_pct", "rotary_emb_fraction")


def _number(keys: Keys, key: str, high: float) -> float | None:
    value = keys.data.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= high:
        raise keys.fail(key, f"a number above 0 and up to {high:,g}")
    return float(value)


def _settings(text: Keys, model_type: str) -> dict[str, Keys]:
    """Layer kind → its rotary settings; models of one table have one entry."""
    part = text.mapping(text.first("rope_parameters", "rope_scaling"))
    nothing = Keys({}, text.origin, text.path)
    if part is None and model_type.startswith("gemma4"):
        return {FULL: Keys({"rope_type": "proportional"}, text.origin, text.path), SLIDING: nothing}
    part = part or nothing
    nested = {kind: inner for kind in part.data if (inner := _inner(part, kind)) is not None}
    if nested:
        return nested
    if model_type.startswith("gemma3"):
        # Windowed layers turn at a base of their own and are never scaled.
        return {FULL: part, SLIDING: nothing}
    return {FULL: part}


def _inner(part: Keys, kind: str) -> Keys | None:
    return part.mapping(kind) if isinstance(part.data[kind], dict) else None


def _rows(keys: Keys, word: str, positions: int) -> int | None:
    """Positions that the table holds; None for a kind that is not known here."""
    original = keys.integer("original_max_position_embeddings", 1, _MAX_POSITIONS) or positions
    factor = _number(keys, "factor", _MAX_FACTOR) or 1.0
    if word in _AS_LONG or (word == "dynamic" and keys.has("alpha")):
        return positions
    if word in _LONGER:
        return int(positions * factor)
    if word in _FROM_ORIGINAL:
        return int(original * factor)
    # The table for short contexts and the one for long contexts lie one behind the other.
    return original + positions if word in ("longrope", "su") else None


def rotary_tables(
    text: Keys, model_type: str, positions: int | None, head_dims: dict[str, int]
) -> tuple[RotaryTable, ...] | None:
    """The tables of a model; ``text`` is its text part and ``head_dims`` the head size of each layer kind.

    None where the config asks for a kind that is not known here. Raises CockpitError naming the key that is wrong.
    """
    if positions is None or model_type.startswith(_WITHOUT):
        return ()
    found: dict[tuple[str, RotaryTable], None] = {}
    for kind, keys in _settings(text, model_type).items():
        word = keys.word(keys.first("rope_type", "type")) or "default"
        multimodal = keys.has("mrope_section")
        rows = _rows(keys, "default" if word == "mrope" else word, positions)
        if rows is None:
            return None
        share = next((f for source in (keys, text) for key in _FACTORS if (f := _number(source, key, 1))), None)
        if share is None:
            share = next((f for family, f in _PARTIAL.items() if model_type.startswith(family)), 1.0)
        head_dim = head_dims.get(kind) or head_dims[FULL]
        width = head_dim if word == "proportional" else int(head_dim * share)
        element = 4 if model_type.startswith(_IN_FLOAT32) else None
        table = RotaryTable(positions=rows, width=width, multimodal=multimodal, element_bytes=element)
        found[(kind, table)] = None
    return tuple(table for _, table in found)
