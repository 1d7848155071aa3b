"""What the overlay for int8 activations says in a boot log: one line a rank and model, or why it does nothing."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from cockpit.supervisor.boot_state import BootDraft, Int8Facts

Match = re.Match[str]


def _layers(draft: BootDraft, match: Match, _: float) -> None:
    rank, switched, folded, groups, clamped = (int(figure) for figure in match.groups()[:5])
    known = draft.facts.int8 or Int8Facts()
    draft.learn(
        int8=msgspec.structs.replace(
            known,
            layers={**known.layers, rank: known.layers.get(rank, 0) + switched},
            groups=known.groups + groups,
            folded=known.folded + folded,
            clamped=known.clamped + clamped,
            kept_why=known.kept_why or match[6],
        )
    )


def _word(draft: BootDraft, match: Match, _: float) -> None:
    known = draft.facts.int8 or Int8Facts()
    if match[1] == "needless":
        draft.learn(int8=msgspec.structs.replace(known, needless=True))
    else:
        draft.learn(int8=msgspec.structs.replace(known, refused=known.refused or match[2]))


_SAYS = "cockpit overlay autoround-int8"
_COUNT = r"(\d{1,12})"
TABLE: tuple[tuple[str, Callable[[BootDraft, Match, float], None]], ...] = (
    (
        rf"{_SAYS} rank (\d{{1,5}}): {_COUNT} layers switched to int8 activations, "
        rf"{_COUNT} of {_COUNT} groups folded, {_COUNT} codes clamped"
        r"(?:; \d{1,9} kept at 16 bits: ([^;]{1,200}))?",
        _layers,
    ),
    (rf"{_SAYS}: (refused|needless): (.{{1,300}})", _word),
)
"""Rows as in boot_rules."""
OPENINGS = _SAYS
