"""Quantities as text: fixed units, thousands separators, and – for what is not known."""

from __future__ import annotations

UNKNOWN = "–"
GIB = 1024**3
_HARD_TO_READ = 99_999.5
"""More digits than five want separators."""
_SIZES = ((1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T"))


def tokens(count: float | None) -> str:
    """A token count with thousands separators, e.g. ``2,097,152``."""
    return UNKNOWN if count is None else f"{count:,.0f}"


def gib(size_bytes: float | None, digits: int = 1) -> str:
    """Bytes as GiB without the unit, e.g. ``22.1``."""
    return UNKNOWN if size_bytes is None else f"{size_bytes / GIB:.{digits}f}"


def size_text(size_bytes: float, digits: int = 1) -> str:
    """Bytes with their unit: ``8.9 GiB``, and MiB below a tenth of one, as a tiny model has them: ``1.1 MiB``."""
    return f"{gib(size_bytes, digits)} GiB" if size_bytes >= GIB / 10 else f"{size_bytes / 2**20:.1f} MiB"


def rate(per_second: float | None) -> str:
    """Tokens per second: one decimal below 100, none above, e.g. ``88.7`` and ``2,498``."""
    if per_second is None:
        return UNKNOWN
    return f"{per_second:.1f}" if per_second < 100 else f"{per_second:,.0f}"


def short(count: float | None, cells: int) -> str:
    """A count in so many cells, whole or in k, M, G, T with the digits that fit; ``…`` where none do."""
    if count is None:
        return UNKNOWN
    whole = [f"{count:,.0f}", *([f"{count:.0f}"] if abs(count) < _HARD_TO_READ else [])]
    size, letter = next((one for one in _SIZES if abs(count) < 999.5 * one[0]), _SIZES[-1])
    parts = [f"{count / size:.{digits}f}{letter}" for digits in (3, 2, 1, 0)]
    return next((text for text in (*whole, *parts) if len(text) <= cells), "…")


def percent(fraction: float | None, digits: int = 0) -> str:
    """A fraction of 1 as percent, e.g. ``37 %``."""
    return UNKNOWN if fraction is None else f"{fraction * 100:,.{digits}f} %"


def seconds(value: float | None) -> str:
    """A latency: ms below one second, else seconds, e.g. ``11.2 ms`` and ``0.45 s`` never both."""
    if value is None:
        return UNKNOWN
    if value < 0.1:
        return f"{value * 1000:.1f} ms"
    return f"{value:.2f} s" if value < 10 else f"{value:.0f} s"


def duration(value: float | None) -> str:
    """A span of time as ``42 s``, ``4:52`` or ``2 h 14 m``."""
    if value is None:
        return UNKNOWN
    whole = max(0, int(value))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d}"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} m"
