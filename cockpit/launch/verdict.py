"""The words for a forecast's verdict: the same in lists, on the card and in the shell."""

from __future__ import annotations

from cockpit.planner.forecast_types import Fits

VERDICTS: dict[Fits, tuple[str, str]] = {
    "yes": ("✓", "fits"),
    "tight": ("⚠", "tight"),
    "no": ("✕", "does not fit"),
    "unknown": ("?", "not known whether it fits"),
}
"""Glyph and word, so that colour is never the only signal."""


def verdict_text(fits: Fits) -> str:
    """``⚠ tight``."""
    return " ".join(VERDICTS[fits])
