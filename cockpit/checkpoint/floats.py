"""Float formats (FP8, NVFP4, MXFP4) and bitsandbytes: one scheme, and lists of modules that are left alone."""

from __future__ import annotations

import fnmatch

from cockpit.checkpoint.declared import MAX_PATTERNS, Declaration, Segments, group_of, nothing
from cockpit.checkpoint.keys import Keys
from cockpit.checkpoint.modules import Place, aliases
from cockpit.checkpoint.types import Method, WeightScheme

_FP8 = WeightScheme(bits=8, kind="float", symmetric=True, activation_bits=8)
_NVFP4 = WeightScheme(bits=4, kind="float", symmetric=True, group_size=16, activation_bits=4)
_MXFP4 = WeightScheme(bits=4, kind="float", symmetric=True, group_size=32)
_MAX_WILDCARD = 512


def read_fp8(keys: Keys, declared: str) -> Declaration:
    """FP8 as transformers and vLLM write it: all linear layers but lm_head and those listed."""
    skipped = Segments(keys.words(keys.first("modules_to_not_convert", "ignored_layers")))
    scheme = WeightScheme(
        bits=8,
        kind="float",
        symmetric=True,
        group_size=group_of(keys, "weight_block_size"),
        activation_bits=8,
    )

    def resolve(place: Place) -> WeightScheme | None:
        return scheme if place.kind in ("linear", "experts") and place.name not in skipped else None

    return Declaration(method="fp8", declared_method=declared, resolve=resolve, packing_format=keys.word("fmt"))


def _algorithm(word: str, group: int | None) -> tuple[Method, WeightScheme | None]:
    """ModelOpt's name for a scheme. Integer schemes of ModelOpt are none that is known here."""
    word = word.upper()
    if "NVFP4" in word:
        bits = None if word.startswith("W4A16") else 8 if word.startswith("W4A8") else 4
        return "nvfp4", WeightScheme(
            bits=4, kind="float", symmetric=True, group_size=group or _NVFP4.group_size, activation_bits=bits
        )
    if "MXFP4" in word:
        return "mxfp4", _MXFP4
    if word.startswith("FP8"):
        return "fp8", _FP8
    return "other", None


class _Wildcards:
    """ModelOpt's exclude list: shell patterns over module names, or whole dotted parts of them."""

    def __init__(self, keys: Keys, key: str) -> None:
        names = keys.words(key)
        self.wild = [name for name in names if any(letter in "*?[" for letter in name)]
        if len(self.wild) > MAX_PATTERNS or any(len(name) > _MAX_WILDCARD for name in self.wild):
            raise keys.fail(key, f"a list of at most {MAX_PATTERNS:,} patterns of {_MAX_WILDCARD} characters")
        self.plain = Segments(name for name in names if name not in self.wild)

    def __contains__(self, name: str) -> bool:
        return name in self.plain or any(
            fnmatch.fnmatchcase(alias, pattern) for alias in aliases(name) for pattern in self.wild
        )


def _mixed(keys: Keys) -> tuple[Method, dict[str, WeightScheme | None]]:
    """``quantized_layers``: an algorithm for each module by name."""
    layers: dict[str, WeightScheme | None] = {}
    methods: set[Method] = set()
    for name, entry in keys.mappings("quantized_layers"):
        method, scheme = _algorithm(entry.word("quant_algo") or "", group_of(entry, "group_size"))
        methods.add(method)
        layers[name] = scheme
    order: tuple[Method, ...] = ("nvfp4", "mxfp4", "fp8")
    return next((method for method in order if method in methods), "other"), layers


def read_modelopt(keys: Keys, declared: str) -> Declaration:
    """ModelOpt: in config.json, or the ``quantization`` part of hf_quant_config.json."""
    keys = keys.mapping("quantization") or keys
    word = keys.word("quant_algo") or ""
    excluded = _Wildcards(keys, keys.first("exclude_modules", "ignore"))
    method, scheme = _algorithm(word, group_of(keys, "group_size"))
    layers: dict[str, WeightScheme | None] = {}
    if keys.has("quantized_layers"):
        method, layers = _mixed(keys)
    elif method == "other":
        return Declaration(method="other", declared_method=f"{declared} {word}".strip(), resolve=nothing)

    def resolve(place: Place) -> WeightScheme | None:
        if place.kind in ("embedding", "router") or place.name in excluded:
            return None
        for name in aliases(place.name) if layers else ():
            if name in layers:
                return layers[name]
        return None if layers else scheme

    return Declaration(method=method, declared_method=declared, resolve=resolve, packing_format=word or None)


def read_mxfp4(keys: Keys, declared: str) -> Declaration:
    """MXFP4 as in gpt-oss: the experts only."""
    skipped = Segments(keys.words("modules_to_not_convert"))

    def resolve(place: Place) -> WeightScheme | None:
        expert = place.kind == "experts" or ".experts." in place.name
        return _MXFP4 if expert and place.kind != "router" and place.name not in skipped else None

    return Declaration(method="mxfp4", declared_method=declared, resolve=resolve)


def _bits_and_bytes_scheme(keys: Keys) -> WeightScheme:
    if keys.flag("load_in_8bit"):
        return WeightScheme(bits=8, kind="int", symmetric=True, group_size=-1, activation_bits=8)
    return WeightScheme(bits=4, kind="float", symmetric=True, group_size=64)


def read_bits_and_bytes(keys: Keys, declared: str) -> Declaration:
    """bitsandbytes: NF4 (a float code) or LLM.int8, all linear layers but lm_head and those listed."""
    skipped = Segments((*keys.words("llm_int8_skip_modules"), "lm_head"))
    scheme = _bits_and_bytes_scheme(keys)

    def resolve(place: Place) -> WeightScheme | None:
        return scheme if place.kind == "linear" and place.name not in skipped else None

    return Declaration(
        method="bitsandbytes",
        declared_method=declared,
        resolve=resolve,
        packing_format=keys.word("bnb_4bit_quant_type"),
    )
