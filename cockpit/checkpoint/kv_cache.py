"""The KV cache that a checkpoint asks for itself: what vLLM makes of ``--kv-cache-dtype auto``.

The same from vLLM 0.26 to 0.33: compressed-tensors' ``kv_cache_scheme`` where an attention layer is made
(layers/attention/attention.py), ModelOpt's before (``get_kv_cache_quant_algo_string`` of utils/torch_utils.py). What
other formats say about it changes nothing.
"""

from __future__ import annotations

from cockpit.checkpoint.keys import Keys

_MODELOPT = {"fp8": "fp8_e4m3", "nvfp4": "nvfp4"}


def _scheme(keys: Keys) -> str:
    """A scheme in compressed-tensors' words, e.g. ``float8``."""
    kind = keys.word("type") or "int"
    return f"{kind}{keys.integer('num_bits', 1, 32) or 8}"


def _compressed(part: Keys) -> str | None:
    scheme = part.mapping("kv_cache_scheme")
    if scheme is None:
        return None
    word = _scheme(scheme)
    # vLLM knows FP8 alone; what it refuses keeps its own name, and no forecast is made for it.
    return "fp8" if word == "float8" else word


def _modelopt(part: Keys) -> str | None:
    for source in (part.mapping("quantization") or part, part):
        if isinstance(source.data.get("kv_cache_scheme"), dict):
            scheme = source.mapping("kv_cache_scheme")
            assert scheme is not None
            static = scheme.flag("dynamic") is False
            word = {"float8": "fp8" if static else "", "float4": "nvfp4"}.get(_scheme(scheme), "")
            return _MODELOPT.get(word)
    for key in ("kv_cache_scheme", "kv_cache_quant_algo"):
        for source in (part.mapping("quantization") or part, part):
            word = source.word(key) or ""
            if word:
                return _MODELOPT.get(word.lower())
    return None


def own_kv_cache(part: Keys, method: str, inner: bool) -> str | None:
    """vLLM's name of it; None is the model's own number type. ``part`` is the quantization config.

    ``inner`` is one that stands in the text part of config.json, where vLLM looks for compressed-tensors' only.
    """
    if method in ("compressed-tensors", "compressed_tensors"):
        return _compressed(part)
    return _modelopt(part) if method.startswith("modelopt") and not inner else None
