"""One GPU's memory as a stacked bar. Every part has a glyph of its own, so that colour is never needed. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cockpit.planner.forecast_types import GpuForecast, Part
from cockpit.tui.content import Row


class Slice(NamedTuple):
    """How one part of the memory is drawn."""

    name: str
    glyph: str
    style: str


SLICES = (
    Slice("weights", "█", "bar"),
    Slice("KV pool", "▓", "bar2"),
    Slice("activation", "▒", "warn"),
    Slice("graphs", "+", "key"),
    Slice("overhead", "×", "dim"),
    Slice("free", "·", "dim"),
)
"""From left to right."""


def parts_of(gpu: GpuForecast) -> tuple[Part, ...]:
    """The parts that fill it, in the order of SLICES without the free one."""
    return (gpu.weights, gpu.kv, gpu.activation, gpu.graphs, gpu.overhead)


def free_bytes(gpu: GpuForecast) -> int:
    """What nothing of this launch takes; negative when the parts are more than the card holds."""
    return gpu.total_bytes - sum(part.bytes for part in parts_of(gpu))


def cells(sizes: Sequence[int], width: int) -> list[int]:
    """``width`` cells shared out by size: largest remainder, and at least one for what is not nothing.

    ``width`` must hold that one cell for each. All sizes 0 is no cell at all.
    """
    total = sum(sizes)
    if total == 0:
        return [0] * len(sizes)
    exact = [size * width / total for size in sizes]
    counts = [max(1, int(share)) if share > 0 else 0 for share in exact]
    by_remainder = sorted(range(len(sizes)), key=lambda index: counts[index] - exact[index])
    for index in by_remainder[: max(0, width - sum(counts))]:
        counts[index] += 1
    while sum(counts) > width:
        widest = max(range(len(sizes)), key=lambda index: (counts[index], -sizes[index]))
        counts[widest] -= 1
    return counts


def bar(gpu: GpuForecast, width: int) -> Row:
    """The bar of ``width`` cells between its two ends; parts that exceed the card fill it by their shares."""
    sizes = [*(part.bytes for part in parts_of(gpu)), max(0, free_bytes(gpu))]
    drawn = [
        (one.glyph * count, one.style) for one, count in zip(SLICES, cells(sizes, width), strict=True) if count > 0
    ]
    return [("▐", "dim"), *drawn, ("▌", "dim")]
