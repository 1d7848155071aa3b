"""compressed-tensors: groups of targets, each with its own scheme, and a list of what to ignore.

A target is the exact name of a module, a regular expression (``re:``, matched from the start of the name) or a class;
exact beats expression beats class, as in the library itself.
"""

from __future__ import annotations

import re

from cockpit.checkpoint.declared import FULL_BITS, MAX_PATTERNS, Declaration, activation_bits, bits_of, group_of
from cockpit.checkpoint.keys import Keys
from cockpit.checkpoint.modules import Place, aliases
from cockpit.checkpoint.patterns import Clock, compile_pattern
from cockpit.checkpoint.types import WeightScheme

_CLASSES = {
    "Linear": ("linear", "lm_head"),
    "Embedding": ("embedding",),
    "VocabParallelEmbedding": ("embedding",),
    "ParallelLMHead": ("lm_head",),
    "FusedMoE": ("experts",),
}
_MAX_TARGET = 2048


def _weights(group: Keys) -> WeightScheme | None:
    weights = group.mapping("weights")
    if weights is None:
        return None
    bits = bits_of(weights, "num_bits")
    if bits >= FULL_BITS:
        return None
    strategy = weights.word("strategy")
    size = group_of(weights, "group_size")
    if strategy == "channel":
        size = -1
    elif strategy == "block":
        size = group_of(weights, "block_structure")
    activations = group.mapping("input_activations")
    symmetric = weights.flag("symmetric")
    return WeightScheme(
        bits=bits,
        kind="float" if weights.word("type") not in (None, "int") else "int",
        symmetric=symmetric is not False,
        group_size=size,
        activation_bits=activation_bits(activations.integer("num_bits", 1, 32) if activations else None),
    )


def _is_class(target: str) -> bool:
    return target.isidentifier() and target[0].isupper()


class _Targets:
    """Names, expressions and classes of one list."""

    def __init__(self, names: tuple[str, ...], keys: Keys, clock: Clock) -> None:
        self.clock = clock
        self.plain = frozenset(name for name in names if not name.startswith("re:"))
        self.classes = frozenset(kind for name in self.plain for kind in _CLASSES.get(name, ()))
        expressions = [name.removeprefix("re:") for name in names if name.startswith("re:")]
        if len(expressions) > MAX_PATTERNS:
            raise keys.fail("targets", f"a list of at most {MAX_PATTERNS:,} patterns")
        self.patterns: list[re.Pattern[str]] = [compile_pattern(text, keys.origin) for text in expressions]

    def exact(self, place: Place) -> bool:
        return any(name in self.plain for name in aliases(place.name))

    def expression(self, place: Place) -> bool:
        return any(
            self.clock.search(pattern, name, anchored=True)
            for pattern in self.patterns
            for name in aliases(place.name)
        )

    def of_class(self, place: Place) -> bool:
        return place.kind in self.classes


class _Reader:
    def __init__(self, keys: Keys) -> None:
        clock = Clock(keys.origin)
        self.groups: list[tuple[_Targets, WeightScheme | None]] = []
        self.plain: list[str] = []
        for _, group in keys.mappings("config_groups"):
            names = group.words("targets")
            if any(len(name) > _MAX_TARGET or not name.isprintable() for name in names):
                raise group.fail("targets", "a list of module names, patterns or classes")
            self.groups.append((_Targets(names, group, clock), _weights(group)))
            self.plain += [name for name in names if not name.startswith("re:") and not _is_class(name)]
        self.ignored = _Targets(keys.words("ignore"), keys, clock)

    def resolve(self, place: Place) -> WeightScheme | None:
        for matches in (_Targets.exact, _Targets.expression, _Targets.of_class):
            for targets, scheme in self.groups:
                if matches(targets, place):
                    return None if scheme is None or self._is_ignored(place) else scheme
        return None

    def _is_ignored(self, place: Place) -> bool:
        ignored = self.ignored
        return ignored.exact(place) or ignored.of_class(place) or ignored.expression(place)


def read_compressed(keys: Keys, declared: str) -> Declaration:
    """A compressed-tensors config. Raises CockpitError naming the key that is wrong."""
    reader = _Reader(keys)
    return Declaration(
        method="compressed-tensors",
        declared_method=declared,
        resolve=reader.resolve,
        packing_format=keys.word("format"),
        plain_targets=tuple(dict.fromkeys(reader.plain)),
    )
