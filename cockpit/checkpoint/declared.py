"""What every reader of a quantization config shares: the answer's shape, widths, and matching by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

from cockpit.checkpoint.keys import Keys
from cockpit.checkpoint.modules import Place, aliases
from cockpit.checkpoint.types import Frozen, Method, WeightScheme

Resolver = Callable[[Place], WeightScheme | None]
"""Module → how it is stored; None leaves it in 16 bits."""
MAX_BITS = 32
FULL_BITS = 16
"""From here on a module counts as not quantized."""
MAX_PATTERNS = 1024


class Declaration(Frozen, frozen=True, kw_only=True):
    """A quantization config, read."""

    method: Method
    declared_method: str | None = None
    resolve: Resolver
    packing_format: str | None = None
    kv_cache_dtype: str | None = None
    plain_targets: tuple[str, ...] = ()


def nothing(_place: Place) -> WeightScheme | None:
    """The resolver of an unquantized checkpoint."""
    return None


def bits_of(keys: Keys, *names: str) -> int:
    """The width under the first of ``names`` that is there; one must be."""
    return keys.required(names, 1, MAX_BITS)


def group_of(keys: Keys, key: str) -> int | None:
    """A group size: weights that share a scale, -1 for one scale a channel. Of a block, its width."""
    value = keys.data.get(key)
    if isinstance(value, list):
        sizes = [Keys({key: item}, keys.origin, keys.path).integer(key, -1, 1 << 20) for item in value]
        if not 1 <= len(sizes) <= 2 or None in sizes:
            raise keys.fail(key, "a whole number or two")
        return sizes[-1]
    return keys.integer(key, -1, 1 << 20)


def activation_bits(bits: int | None) -> int | None:
    """Width of activations, None when they stay in 16 bits."""
    return bits if bits is not None and bits < FULL_BITS else None


def kind_of(data_type: str) -> Literal["int", "float"]:
    """Whether a data type is made of integers. An unknown word counts as float, for which nothing is offered."""
    return "int" if data_type.startswith(("int", "uint")) else "float"


def special(text: str) -> bool:
    """Whether a module key is meant as a regular expression: it holds more than letters, figures and dots."""
    return any(letter in r"*+?^$()[]{}|\\" for letter in text)


class Segments:
    """A list of module names; a module is in it when one of them is a run of whole dotted parts of its name."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(name.strip(".") for name in names if name.strip("."))
        self._longest = max((name.count(".") + 1 for name in self._names), default=0)

    def __contains__(self, name: str) -> bool:
        for alias in aliases(name):
            parts = alias.split(".")
            for begin in range(len(parts)):
                for end in range(begin + 1, min(len(parts), begin + self._longest) + 1):
                    if ".".join(parts[begin:end]) in self._names:
                        return True
        return False
