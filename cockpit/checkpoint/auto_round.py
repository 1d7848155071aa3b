"""AutoRound: one scheme for all blocks, and ``extra_config`` with exceptions by name or regular expression.

The order of precedence is vLLM's (its inc config parser): the exact name, a name that ends in the key, the first
regular expression that is found in the name, else the scheme of the whole, for modules in the quantized blocks.
"""

from __future__ import annotations

import re

from cockpit.checkpoint.declared import (
    FULL_BITS,
    MAX_PATTERNS,
    Declaration,
    activation_bits,
    bits_of,
    group_of,
    kind_of,
    special,
)
from cockpit.checkpoint.keys import Keys
from cockpit.checkpoint.modules import Place, aliases
from cockpit.checkpoint.patterns import Clock, compile_pattern
from cockpit.checkpoint.types import WeightScheme


def _scheme(keys: Keys, whole: Keys) -> WeightScheme | None:
    """The scheme of one entry; what it leaves out is as in ``whole``."""
    merged = Keys({**whole.data, **{k: v for k, v in keys.data.items() if v is not None}}, keys.origin, keys.path)
    bits = bits_of(merged, "bits")
    if bits >= FULL_BITS:
        return None
    data_type = merged.word("data_type") or "int"
    symmetric = merged.flag("sym")
    return WeightScheme(
        bits=bits,
        kind=kind_of(data_type),
        # vLLM takes a missing ``sym`` as true; the data types with zero points say so in their name.
        symmetric=False if "asym" in data_type else symmetric is not False,
        group_size=group_of(merged, "group_size"),
        activation_bits=activation_bits(merged.integer("act_bits", 1, 32)),
    )


class _Reader:
    def __init__(self, keys: Keys) -> None:
        self.whole = _scheme(keys, keys)
        self.clock = Clock(keys.origin)
        self.exact: dict[str, WeightScheme | None] = {}
        self.patterns: list[tuple[re.Pattern[str], WeightScheme | None]] = []
        for name, entry in keys.mappings("extra_config"):
            scheme = _scheme(entry, keys)
            self.exact[name] = scheme
            if special(name):
                self.patterns.append((compile_pattern(name, keys.origin), scheme))
        if len(self.patterns) > MAX_PATTERNS:
            raise keys.fail("extra_config", f"of at most {MAX_PATTERNS:,} patterns")
        names = keys.words(keys.first("block_name_to_quantize", "to_quant_block_names"))
        self.blocks = tuple(part.strip() for name in names for part in name.split(",") if part.strip())
        self.head = bool(keys.flag("lm_head")) or bool(keys.flag("quant_lm_head"))

    def _in_blocks(self, place: Place) -> bool:
        if place.kind == "router":
            return False
        if self.blocks:
            return any(name.startswith(self.blocks) for name in aliases(place.name))
        if place.kind == "lm_head":
            return self.head
        return place.kind != "embedding" and place.part != "vision"

    def _by_name(self, name: str) -> tuple[bool, WeightScheme | None]:
        while name:
            if name in self.exact:
                return True, self.exact[name]
            name = name.partition(".")[2]
        return False, None

    def resolve(self, place: Place) -> WeightScheme | None:
        names = aliases(place.name)
        for name in names:
            found, scheme = self._by_name(name)
            if found:
                return scheme
        for pattern, scheme in self.patterns:
            if any(self.clock.search(pattern, name) for name in names):
                return scheme
        return self.whole if self._in_blocks(place) else None


def read_auto_round(keys: Keys, declared: str) -> Declaration:
    """AutoRound's quantization_config. Raises CockpitError naming the key that is wrong."""
    reader = _Reader(keys)
    return Declaration(
        method="auto-round",
        declared_method=declared,
        resolve=reader.resolve,
        packing_format=keys.word("packing_format"),
    )
