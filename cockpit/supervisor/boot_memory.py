"""What a boot log says about memory: rows of the table of `boot_rules`, formats of vLLM 0.20 to 0.33."""

from __future__ import annotations

import re
from collections.abc import Callable

from cockpit.planner.calibration import BootMemory
from cockpit.supervisor.boot_state import BootDraft, BootFacts, extreme

_NUMBER = r"-?\d{1,9}(?:\.\d+)?"
_GIB = f"({_NUMBER})"
_Act = Callable[[BootDraft, re.Match[str], float], None]


def _most(draft: BootDraft, **figures: float) -> None:
    """Take figures of one rank; the largest of all ranks stays."""
    draft.learn(**{name: extreme(max, getattr(draft.facts, name), value) for name, value in figures.items()})


def _account(draft: BootDraft, match: re.Match[str], _: float) -> None:
    """The account at the end of a boot, one line a rank: to 0.26 weights and the rest apart, later as consumed."""
    total, first, kind, peak, other, graphs = match.groups()
    draft.learn(total_gib=extreme(min, draft.facts.total_gib, float(total)))
    _most(draft, activation_gib=float(peak), graphs_gib=float(graphs))
    if kind != "weight":
        _most(draft, consumed_gib=float(first))
    elif other is not None:
        _most(draft, non_torch_gib=float(other))


def _graph_pool(draft: BootDraft, match: re.Match[str], _: float) -> None:
    _most(draft, graphs_gib=float(match[1]), graphs_estimate_gib=float(match[2]))


TABLE: tuple[tuple[str, _Act], ...] = (
    (
        rf"Free memory on device \({_NUMBER}/{_GIB} GiB\) on startup\. "
        rf"Desired GPU memory utilization is \({_NUMBER}, {_NUMBER} GiB\)\. "
        rf"Actual usage is {_GIB} GiB for (weight|consumed memory \(weights \+ non-torch\)), "
        rf"{_GIB} GiB for peak activation, (?:{_GIB} GiB for non-torch memory, )?"
        rf"and {_GIB} GiB for CUDAGraph memory",
        _account,
    ),
    (rf"CUDA graph pool memory: {_GIB} GiB \(actual\), {_GIB} GiB \(estimated\)", _graph_pool),
)
OPENINGS = r"Free memory on device|CUDA graph pool memory"
"""How their texts begin."""


def memory_of(facts: BootFacts) -> BootMemory:
    """The figures that a forecast learns from."""
    return BootMemory(**{name: getattr(facts, name) for name in BootMemory.__struct_fields__})
