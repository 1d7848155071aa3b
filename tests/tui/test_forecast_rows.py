"""A forecast as text: what every row says, that nothing is drawn as nothing, and that no row is too wide."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.planner.forecast_types import Forecast, LearnedFrom
from cockpit.tui.content import STYLES, row_text
from cockpit.tui.forecast_rows import bar_rows, brief_rows, change_rows, forecast_rows, suggestion
from cockpit.tui.memory_bar import SLICES, bar, cells, free_bytes
from cockpit.units import GIB

from .forecasts import FITS, TIGHT, TOO_BIG, UNKNOWN, gpu, kv, part


@given(st.lists(st.integers(0, 200 * GIB), min_size=1, max_size=8), st.integers(8, 120))
def test_cells_share_out_the_whole_width_by_size(sizes: list[int], width: int) -> None:
    counts = cells(sizes, width)
    if sum(sizes) == 0:
        assert counts == [0] * len(sizes)
        return
    assert sum(counts) == width
    for size, count in zip(sizes, counts, strict=True):
        assert (count > 0) == (size > 0)
    by_size = sorted(zip(sizes, counts, strict=True))
    assert all(one[1] <= other[1] for one, other in itertools.pairwise(by_size) if one[0] < other[0])


def test_every_part_has_its_own_glyph_and_a_known_style() -> None:
    assert len({one.glyph for one in SLICES}) == len(SLICES) == 6
    assert {one.style for one in SLICES} <= set(STYLES)


def test_a_bar_shows_every_part_without_colour() -> None:
    text = row_text(bar(gpu(), 40))
    assert len(text) == 42
    for one in SLICES:
        assert one.glyph in text, one.name
    assert text.count("▓") > text.count("█") > text.count("▒")


def test_parts_larger_than_the_card_are_said_to_be_over() -> None:
    over = gpu(weights=part(29.0), kv=part(0.0))
    assert free_bytes(over) < 0
    text = "\n".join(map(row_text, forecast_rows(msgspec.structs.replace(TOO_BIG, per_gpu=(over,)), 46, {})))
    assert "! over        6.93" in text and "·" not in text.split("! over")[0].split("▐")[1].split("▌")[0]


@dataclass
class Case:
    forecast: Forecast
    texts: tuple[str, ...]


CASES = {
    "fits": Case(
        FITS,
        (
            "✓ fits",
            "█ weights     9.10       headers",
            "▓ KV pool    11.05 ±0.80 estimated",
            "pool      623,873 ±5,655 tokens",
            "requests  2.38 at full context",
            "headroom  +361,729 tokens (138 %)",
            "error     ±0.10 GiB/GPU, estimated",
            "learned from the boot of ",
        ),
    ),
    "tight": Case(TIGHT, ("⚠ tight: 1,528 tokens", "headroom  +1,528 tokens (1 %)", "longest   262,144 tokens fit")),
    "too_big": Case(
        TOO_BIG,
        (
            "✕ does not fit: one request of 262,144",
            "1 [k] KV cache fp8_e4m3 → pool 342,000",
            "3 [g] 0,1,2,3 [t] 4 → pool 900,000",
            "headroom  -91,144 tokens (-35 %)",
            "longest   170,000 tokens fit",
        ),
    ),
    "unknown": Case(UNKNOWN, ("? not known whether it fits: the size of the",)),
}


@pytest.mark.parametrize("name", CASES)
def test_the_rows_say_the_figures(name: str) -> None:
    text = "\n".join(row_text(row) for row in forecast_rows(CASES[name].forecast, 46, {}))
    for wanted in CASES[name].texts:
        assert wanted in text


@pytest.mark.parametrize("width", range(30, 61))
@pytest.mark.parametrize("name", CASES)
def test_no_row_is_wider_than_its_column(name: str, width: int) -> None:
    assert all(len(row_text(row)) <= width for row in forecast_rows(CASES[name].forecast, width, {}))


def test_what_was_learned_from_another_boot_is_said() -> None:
    near = msgspec.structs.replace(FITS, learned_from=LearnedFrom(slug="vllm/minimal", at=0.0, exact=False))
    text = "\n".join(row_text(row) for row in forecast_rows(near, 46, {}))
    assert "of vllm/minimal, with other flags" in text


def test_like_gpus_share_a_bar_and_unlike_ones_do_not() -> None:
    assert len(bar_rows([gpu(0), gpu(1)], 46)) == 2
    eight = [gpu(index, free_bytes=index) for index in range(8)]
    assert [row_text(row)[:9] for row in bar_rows(eight, 46)] == [" GPU0–7 ▐"]
    mixed = [gpu(0), gpu(1, kv=part(5)), gpu(2)]
    assert [row_text(row).split("▐")[0] for row in bar_rows(mixed, 46)] == [" GPU0,2 ", " GPU1   "]
    text = "\n".join(
        row_text(row) for row in forecast_rows(msgspec.structs.replace(FITS, per_gpu=tuple(mixed)), 46, {})
    )
    assert "GPU1, the tightest:" in text and "▓ KV pool     5.00" in text


def test_unknown_figures_are_left_out_and_never_zero() -> None:
    bare = Forecast(fits="yes")
    assert [row_text(row) for row in forecast_rows(bare, 46, {})] == [" ✓ fits"]
    assert bare.error_tokens is None


def test_a_suggestion_is_of_one_toggle_alone() -> None:
    assert suggestion(TOO_BIG, "kv_cache_dtype") == "fp8_e4m3"
    assert suggestion(TOO_BIG, "max_model_len") == 170_000
    assert suggestion(TOO_BIG, "gpus") is None
    assert suggestion(None, "gpus") is None
    tight = msgspec.structs.replace(TOO_BIG, fits="tight")
    assert suggestion(tight, "kv_cache_dtype") is None, "what fits is not steered"
    assert len(change_rows(TOO_BIG.changes * 2, 46, {})) == 4


def test_a_pool_without_a_gpu_is_one_line() -> None:
    cpu = Forecast(fits="yes", kv=kv(2_097_152, 1024.0))
    assert [row_text(row) for row in brief_rows(cpu, 78)] == [" ✓ fits: 2,097,152 tokens, 1,024 at full context"]
    assert [row_text(row) for row in brief_rows(UNKNOWN, 78)] == [
        " ? not known whether it fits: the size of the weights is not known"
    ]
