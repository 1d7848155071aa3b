"""What kind each decoder layer is: a list in today's configs, an interval or a pattern in others."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cockpit.checkpoint.keys import Keys

MAX_LAYERS = 1024
FULL = "full_attention"
SLIDING = "sliding_attention"
LINEAR = "linear_attention"
_KIND = re.compile(r"[a-z][a-z0-9_]{0,39}")
_ALIASES = {"attention": FULL, "hybrid": FULL, "global": FULL, "local": SLIDING, "swa": SLIDING, "moe": "ffn"}
_LETTERS = {"M": "mamba", "*": FULL, "-": "ffn", "E": "ffn", "L": SLIDING, "G": FULL}
"""Nemotron-H writes M, *, - and E; EXAONE writes L and G."""
_INTERVALS = {"qwen3_next": 4, "qwen3_5": 4}
"""full_attention_interval of families whose class supplies it."""
_PATTERNS = {
    "gemma2": 2,
    "gemma3n": 5,
    "gemma3": 6,
    "gemma4": 6,
    "gpt_oss": 2,
    "cohere2": 4,
    "olmo3": 4,
    "exaone4": 4,
}
"""sliding_window_pattern, likewise."""


def _by_family(table: dict[str, int], model_type: str) -> int | None:
    return next((value for family, value in table.items() if model_type.startswith(family)), None)


def _listed(keys: Keys, key: str, count: int) -> tuple[str, ...]:
    kinds = keys.words(key)
    if not isinstance(keys.data[key], list) or not all(_KIND.fullmatch(kind) for kind in kinds):
        raise keys.fail(key, "a list of layer kinds")
    if len(kinds) < count:
        raise keys.fail(key, f"a list with a kind for each of the {count} layers")
    # Some lists go on with the layers of the MTP head.
    return tuple(_ALIASES.get(kind, kind) for kind in kinds[:count])


def _lettered(keys: Keys, key: str, count: int, repeat: bool) -> tuple[str, ...]:
    text = keys.data[key]
    if not isinstance(text, str) or not text or not set(text) <= set(_LETTERS):
        raise keys.fail(key, f"made of the letters {' '.join(_LETTERS)}")
    if not repeat and len(text) < count:
        raise keys.fail(key, f"a letter for each of the {count} layers")
    return tuple(_LETTERS[text[index % len(text)]] for index in range(count))


def _every(count: int, interval: int, others: str) -> tuple[str, ...]:
    return tuple(others if (index + 1) % interval else FULL for index in range(count))


def _windowed(keys: Keys, count: int, model_type: str) -> tuple[str, ...]:
    """Layers of a model without a list: a window for none, all, some by interval, or all above a depth."""
    if isinstance(keys.data.get("sliding_window_pattern"), str):
        return _lettered(keys, "sliding_window_pattern", count, repeat=True)
    if sliding_window(keys) is None:
        return (FULL,) * count
    pattern = keys.integer("sliding_window_pattern", 1, MAX_LAYERS) or _by_family(_PATTERNS, model_type)
    if pattern is not None:
        return _every(count, pattern, SLIDING)
    full = keys.integer("max_window_layers", 0, 1 << 20) if keys.flag("use_sliding_window") else 0
    return tuple(FULL if index < (full or 0) else SLIDING for index in range(count))


def sliding_window(keys: Keys) -> int | None:
    """Tokens that a windowed layer sees; None when there is no window."""
    size = keys.integer("sliding_window", -1, 1 << 31)
    if keys.flag("use_sliding_window") is False or size is None or size <= 0:
        return None
    return size


def _periodic(keys: Keys, count: int) -> tuple[str, ...]:
    """Jamba: one attention layer every so many, the others Mamba."""
    period = keys.integer("attn_layer_period", 1, MAX_LAYERS) or 1
    offset = keys.integer("attn_layer_offset", 0, MAX_LAYERS) or 0
    return tuple(FULL if index % period == offset % period else "mamba" for index in range(count))


def layer_kinds(keys: Keys, count: int, model_type: str) -> tuple[str, ...]:
    """The kind of each of ``count`` decoder layers, ``keys`` being the text model's config.

    Kinds are the config's own words; ``ffn`` is a layer without attention. Raises CockpitError naming the key.
    """
    for key in ("layer_types", "layers_block_type"):
        if keys.has(key):
            return _listed(keys, key, count)
    if keys.has("hybrid_override_pattern"):
        return _lettered(keys, "hybrid_override_pattern", count, repeat=False)
    interval = keys.integer("full_attention_interval", 1, MAX_LAYERS) or _by_family(_INTERVALS, model_type)
    if interval is not None:
        return _every(count, interval, LINEAR)
    if keys.has("attn_layer_period"):
        return _periodic(keys, count)
    if keys.has("attn_type_list"):
        kinds = keys.items("attn_type_list")
        if len(kinds) < count or any(isinstance(kind, bool) or kind not in (0, 1) for kind in kinds):
            raise keys.fail("attn_type_list", f"0 or 1 for each of the {count} layers")
        return tuple(FULL if kind else LINEAR for kind in kinds[:count])
    return _windowed(keys, count, model_type)


def counted(kinds: Sequence[str]) -> dict[str, int]:
    """Kind → number of layers, in the order in which the kinds first come."""
    return {kind: list(kinds).count(kind) for kind in dict.fromkeys(kinds)}
