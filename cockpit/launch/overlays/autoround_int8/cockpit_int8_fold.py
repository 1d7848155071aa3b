"""The sign of a negative group scale, folded into the 4-bit codes: exact where the kernel takes zero points.

A code q of a group of scale s stands for (q - 8)·s. Marlin's int8 kernel reads scales as unsigned, so s < 0 has to
go: (q - 8)·s = ((15 - q) - 7)·|s|, which is the same weight in the code 15 - q with zero point 7 instead of 8.
Without zero points it would be the code 16 - q, and 16 does not fit 4 bits: the largest weight of the group would
shrink by 1/8.

Eight codes share an int32, the lowest bits first. Every function works on Python's integers as on int32 tensors.
"""

from __future__ import annotations

from typing import Any

_ONES = 0x11111111
ZERO_POINT = 8
FOLDED_ZERO_POINT = 7


def mirrored(word: Any) -> Any:
    """Every code q as 15 - q, which is its complement."""
    return ~word


def zero_codes(word: Any) -> Any:
    """Bit 4i is set where code i is 0."""
    return ~(word | (word >> 1) | (word >> 2) | (word >> 3)) & _ONES


def count_zero_codes(word: Any) -> Any:
    """How many of the eight codes are 0."""
    marks = zero_codes(word)
    return sum((marks >> (4 * place)) & 1 for place in range(8))


def clamped(word: Any) -> Any:
    """Every code q as 16 - q, and as 15 where that is 16."""
    return ~word + (_ONES & ~zero_codes(word))


def fold(words: Any, scales: Any, exact: bool) -> tuple[Any, Any, Any, int, int]:
    """Fold a layer's signs: (words, scales, zero points, groups folded, codes clamped).

    ``words`` is an int32 tensor [inputs / 8, outputs], ``scales`` [groups, outputs]. Zero points are an int32 tensor
    of the scales' shape, None unless ``exact``.
    """
    import torch

    negative = scales < 0
    rows = negative.repeat_interleave(words.shape[0] // scales.shape[0], dim=0)
    folded = int(negative.sum())
    if exact:
        new, lost = torch.where(rows, mirrored(words), words), 0
        zero_points = torch.where(negative, FOLDED_ZERO_POINT, ZERO_POINT).to(torch.int32)
    else:
        new = torch.where(rows, clamped(words), words)
        lost = int((count_zero_codes(words) * rows).sum())
        zero_points = None
    return new, scales.abs(), zero_points, folded, lost
