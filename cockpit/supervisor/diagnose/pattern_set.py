"""Many patterns held against one text at once: only those are tried of whose literal the text has a piece."""

from __future__ import annotations

from collections.abc import Iterable, KeysView

from cockpit.supervisor.diagnose.pattern import Pattern

_PIECE = 5
"""Characters of a piece."""
_STEP = 2
"""A text's pieces begin at every second place: it has one of any two in a row of a literal that it has."""
_Index = tuple[dict[str, tuple[Pattern, ...]], tuple[tuple[str, Pattern], ...]]
"""The patterns by the pieces of their literals, and those whose literal is too short for them, with it."""


class PatternSet:
    """Tells which of many patterns a text may have, without looking for each of their literals in it."""

    __slots__ = ("_index", "_patterns")

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        self._patterns = tuple(patterns)
        self._index: _Index | None = None
        """Made when it is first needed: most commands read no log."""

    def candidates(self, text: str) -> list[Pattern]:
        """Every pattern that is in the text and a few that are not, in no order; one may come twice."""
        if self._index is None:
            self._index = _indexed(self._patterns)
        by_piece, short = self._index
        places = range(0, len(text) - _PIECE + 1, _STEP)
        seen = by_piece.keys() & [text[at : at + _PIECE] for at in places]
        found = [pattern for literal, pattern in short if literal in text]
        return found + [pattern for piece in seen for pattern in by_piece[piece]]


def _indexed(patterns: Iterable[Pattern]) -> _Index:
    alike: dict[str, tuple[Pattern, ...]] = {}
    for pattern in patterns:
        alike[pattern.literal] = (*alike.get(pattern.literal, ()), pattern)
    by_piece: dict[str, tuple[Pattern, ...]] = {}
    short: list[tuple[str, Pattern]] = []
    for literal, those in alike.items():
        pieces = _pieces_of(literal, by_piece.keys())
        for piece in pieces:
            by_piece[piece] = (*by_piece[piece], *those) if piece in by_piece else those
        if not pieces:
            short += ((literal, one) for one in those)
    return by_piece, tuple(short)


def _pieces_of(literal: str, taken: KeysView[str]) -> set[str]:
    """Pieces at as many places in a row as a step has, the first such as no other literal has if there are any."""
    pieces: set[str] = set()
    for start in range(len(literal) - _PIECE - _STEP + 2):
        pieces = {literal[at : at + _PIECE] for at in range(start, start + _STEP)}
        if taken.isdisjoint(pieces):
            break
    return pieces
