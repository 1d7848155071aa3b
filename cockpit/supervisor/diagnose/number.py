"""Numbers of a log, which may hold anything in their place."""

from __future__ import annotations

_MOST = 1e15
"""No figure of a server comes near; whole numbers below it are exact."""


def number_of(text: str) -> float | None:
    """Thousands separators and a full stop behind it dropped; None for what is no number, or none of a server."""
    try:
        value = float(text.replace(",", "").rstrip("."))
    except ValueError:
        return None
    return value if -_MOST < value < _MOST else None
