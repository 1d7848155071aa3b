"""GPTQ and AWQ: one integer scheme for the decoder's linear layers, with exceptions."""

from __future__ import annotations

import re

from cockpit.checkpoint.declared import FULL_BITS, MAX_PATTERNS, Declaration, bits_of, group_of
from cockpit.checkpoint.keys import Keys
from cockpit.checkpoint.modules import Place, aliases
from cockpit.checkpoint.patterns import Clock, compile_pattern
from cockpit.checkpoint.types import WeightScheme


def _gptq_scheme(keys: Keys, whole: Keys) -> WeightScheme | None:
    merged = Keys({**whole.data, **{k: v for k, v in keys.data.items() if v is not None}}, keys.origin, keys.path)
    bits = bits_of(merged, "bits", "w_bit")
    if bits >= FULL_BITS:
        return None
    return WeightScheme(
        bits=bits, kind="int", symmetric=merged.flag("sym"), group_size=group_of(merged, "group_size")
    )


def _block_names(keys: Keys) -> tuple[str, ...]:
    """``modules_in_block_to_quantize``: names, or lists of names that were quantized together."""
    key = "modules_in_block_to_quantize"
    names: list[str] = []
    for item in keys.items(key):
        inner = item if isinstance(item, list) else [item]
        if not all(isinstance(name, str) for name in inner):
            raise keys.fail(key, "a list of module names")
        names += inner
    return tuple(names)


class _Gptq:
    def __init__(self, keys: Keys) -> None:
        self.whole = _gptq_scheme(keys, keys)
        self.clock = Clock(keys.origin)
        self.head = keys.flag("lm_head") is True
        self.blocks = _block_names(keys)
        self.dynamic: list[tuple[re.Pattern[str], WeightScheme | None]] = []
        dynamic = keys.mapping("dynamic")
        for text in dynamic.data if dynamic else ():
            assert dynamic is not None
            # "-:" takes what matches out; "+:" or nothing gives it other figures.
            entry = dynamic.mapping(text) or Keys({}, keys.origin)
            scheme = None if text.startswith("-:") else _gptq_scheme(entry, keys)
            self.dynamic.append((compile_pattern(text.removeprefix("-:").removeprefix("+:"), keys.origin), scheme))
        if len(self.dynamic) > MAX_PATTERNS:
            raise keys.fail("dynamic", f"of at most {MAX_PATTERNS:,} patterns")

    def resolve(self, place: Place) -> WeightScheme | None:
        names = aliases(place.name)
        for pattern, scheme in self.dynamic:
            if any(self.clock.search(pattern, name, anchored=True) for name in names):
                return scheme
        if place.kind == "lm_head":
            return self.whole if self.head else None
        if place.kind in ("router", "embedding") or place.part == "vision":
            return None
        if self.blocks and not any(block in place.name for block in self.blocks):
            return None
        return self.whole


def read_gptq(keys: Keys, declared: str) -> Declaration:
    """A GPTQ config. Raises CockpitError naming the key that is wrong."""
    return Declaration(
        method="gptq",
        declared_method=declared,
        resolve=_Gptq(keys).resolve,
        packing_format=keys.word("checkpoint_format"),
    )


def read_awq(keys: Keys, declared: str) -> Declaration:
    """An AWQ config; ``modules_to_not_convert`` are parts of names, as vLLM takes them."""
    zero_point = keys.flag("zero_point")
    bits = bits_of(keys, "bits", "w_bit")
    scheme = WeightScheme(
        bits=bits,
        kind="int",
        symmetric=None if zero_point is None else not zero_point,
        group_size=group_of(keys, keys.first("group_size", "q_group_size")),
    )
    skipped = keys.words("modules_to_not_convert")

    def resolve(place: Place) -> WeightScheme | None:
        outside = place.kind in ("router", "embedding", "lm_head") or place.part == "vision"
        if bits >= FULL_BITS or outside or any(name in place.name for name in skipped):
            return None
        return scheme

    return Declaration(method="awq", declared_method=declared, resolve=resolve, packing_format=keys.word("version"))
