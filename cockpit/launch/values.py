"""Kinds of toggle values: how text becomes a value, a value becomes text, and which come next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from cockpit.errors import CockpitError
from cockpit.units import tokens

DEFAULT_WORD = "default"
"""What users write for vLLM's own default."""


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """One of a few words; with ``optional`` also vLLM's default (None)."""

    words: tuple[str, ...]
    optional: bool = False
    also: tuple[tuple[str, str], ...] = ()
    """Other spellings that are understood, each with the word that it means."""

    def parse(self, text: str) -> Any:
        """Text → word. Raises ValueError with what would be right."""
        text = dict(self.also).get(text, text)
        if self.optional and text == DEFAULT_WORD:
            return None
        if text not in self.words:
            allowed = (*self.words, DEFAULT_WORD) if self.optional else self.words
            raise ValueError(f"use one of {', '.join(allowed)}")
        return text

    def show(self, value: Any) -> str:
        """Value → text for the screen."""
        return "vLLM default" if value is None else str(value)

    def step(self, value: Any, direction: int) -> Any:
        """The next (+1) or previous (-1) value, around the corner."""
        ring = [*self.words, None] if self.optional else list(self.words)
        return ring[(ring.index(value) + direction) % len(ring)] if value in ring else ring[0]


class Whole(msgspec.Struct, frozen=True, kw_only=True):
    """A whole number between two bounds; ``k``/``K``/``M`` suffixes are 1000, 1024 and 1024², as vLLM reads them."""

    low: int
    high: int
    optional: bool = False
    doubling: bool = False
    """Steps go by factors of two instead of by one."""
    grouped: bool = True
    """Shown with thousands separators; a port is not."""

    def parse(self, text: str) -> Any:
        """Text → number. Raises ValueError with what would be right."""
        if self.optional and text == DEFAULT_WORD:
            return None
        factor = {"k": 1000, "K": 1024, "m": 10**6, "M": 1024**2}.get(text[-1:], 1)
        digits = text[:-1] if factor != 1 else text
        digits = digits.replace(",", "").replace("_", "")
        if not (digits.isascii() and digits.isdigit()) or len(digits) > 12:
            raise ValueError(self._allowed())
        number = int(digits) * factor
        if not self.low <= number <= self.high:
            raise ValueError(self._allowed())
        return number

    def _allowed(self) -> str:
        low, high = (f"{bound:,}" if self.grouped else str(bound) for bound in (self.low, self.high))
        return f"use a whole number, {low} to {high}" + (f", or {DEFAULT_WORD}" if self.optional else "")

    def show(self, value: Any) -> str:
        """Value → text for the screen."""
        if value is None:
            return "vLLM default"
        return tokens(value) if self.grouped else str(value)

    def step(self, value: Any, direction: int) -> Any:
        """The neighbouring value, kept inside the bounds; from vLLM's default the lowest one."""
        if value is None:
            return self.low
        moved = (value * 2 if direction > 0 else value // 2) if self.doubling else value + direction
        return max(self.low, min(self.high, moved))


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """A fraction above 0 and up to 1, or vLLM's default."""

    def parse(self, text: str) -> Any:
        """Text → fraction. Raises ValueError with what would be right."""
        if text == DEFAULT_WORD:
            return None
        try:
            number = round(float(text), 4)
        except ValueError:
            number = -1.0
        if not 0 < number <= 1:
            raise ValueError(f"use a number above 0 and up to 1, such as 0.92, or {DEFAULT_WORD}")
        return number

    def show(self, value: Any) -> str:
        """Value → text for the screen."""
        return "vLLM default" if value is None else f"{value:g}"

    def step(self, value: Any, direction: int) -> Any:
        """One hundredth up or down, 0.05 to 1."""
        return round(max(0.05, min(1.0, (value or 0.92) + direction * 0.01)), 4)


class Indices(msgspec.Struct, frozen=True, kw_only=True):
    """GPU indices such as ``0,1``."""

    def parse(self, text: str) -> Any:
        """Text → tuple of indices in the order given. Raises ValueError with what would be right."""
        parts = [part.strip() for part in text.split(",")]
        if not all(part.isascii() and part.isdigit() and len(part) <= 3 for part in parts):
            raise ValueError("use GPU indices separated by commas, such as 0,1")
        indices = tuple(int(part) for part in parts)
        if len(set(indices)) != len(indices):
            raise ValueError("name each GPU once")
        return indices

    def show(self, value: Any) -> str:
        """Value → text for the screen."""
        return ",".join(str(index) for index in value) if value else "none"

    def step(self, value: Any, direction: int) -> Any:
        """One GPU more or fewer, counted from the highest index."""
        indices = tuple(value or ())
        if direction > 0:
            return (*indices, max(indices, default=-1) + 1)
        return indices[:-1] if len(indices) > 1 else indices


class Text(msgspec.Struct, frozen=True, kw_only=True):
    """A host name or address."""

    def parse(self, text: str) -> Any:
        """Text → the same text. Raises ValueError with what would be right."""
        allowed = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:_")
        if not text or text.startswith("-") or not set(text) <= allowed:
            raise ValueError("use a host name or address, such as 127.0.0.1")
        return text

    def show(self, value: Any) -> str:
        """Value → text for the screen."""
        return str(value)

    def step(self, value: Any, direction: int) -> Any:
        """Between loopback and every interface."""
        return "127.0.0.1" if value != "127.0.0.1" else "0.0.0.0"


Kind = Choice | Whole | Share | Indices | Text


def parse_value(toggle: str, kind: Kind, text: str) -> Any:
    """Text of ``--set toggle=text`` → value.

    Raises CockpitError that says what would be right.
    """
    parser: Callable[[str], Any] = kind.parse
    try:
        return parser(text.strip())
    except ValueError as error:
        advice = str(error)
        raise CockpitError(f"{toggle}={text[:40]} cannot be used", fix=f"{advice[:1].upper()}{advice[1:]}.") from None
