"""Frames as rows: what an estimate, a bound, a share and a missing figure look like."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cockpit import units
from cockpit.supervisor.boot_pace import Pace
from cockpit.telemetry.frame import Frame, GpuHolder, GpuReading, Kv, Latencies, Latency, Source, Throughput, Totals
from cockpit.telemetry.history import History
from cockpit.tui.content import row_text
from cockpit.tui.present import kv_rows, latency_rows, source_rows, throughput_rows, total_rows, wrapped_notes
from cockpit.tui.present_boot import pace_row
from cockpit.tui.present_gpu import memory_rows
from cockpit.tui.widgets.status_bar import servers_row
from cockpit.units import GIB

from .still_life import cpu_frame, gpu_frame


def gpu_lines(width: int = 120, problem: str | None = None, age: float = 0.0, **changes: object) -> str:
    reading = replace(gpu_frame().gpus[1], **changes)
    frame = Frame(at=0, state="ready", gpus=(reading,), gpu_problem=problem, gpu_age_seconds=age)
    return "\n".join(row_text(row) for row in memory_rows(frame, width))


def test_an_estimated_prefill_and_one_with_cached_tokens_are_marked() -> None:
    def shown(**changes: object) -> str:
        speed = replace(gpu_frame().throughput, **changes)
        return row_text(throughput_rows(replace(gpu_frame(), throughput=speed), History(), 120)[0])

    assert "  2,498 tok/s computed" in shown()
    assert "≈ 2,498 tok/s computed" in shown(prefill_is_estimate=True)
    assert "≤ 2,498 tok/s incl. cached" in shown(prefill_basis="including_cached")


@pytest.mark.parametrize("width", [80, 120])
def test_a_speed_beyond_all_columns_is_shown_all_the_same(width: int) -> None:
    speed = Throughput(prefill_tokens_per_second=1e120, decode_tokens_per_second=1e120, prefill_is_estimate=True)
    rows = throughput_rows(Frame(at=0, state="ready", throughput=speed), History(), width)
    assert all(units.rate(1e120) in row_text(row) for row in rows)
    assert ["≈" in row_text(row) for row in rows] == [True, False]


@pytest.mark.parametrize(
    ("width", "tokens", "line"),
    [
        (80, 1_234_567, "1,234,567 computed · 2,469,134 cached · 1,234 generated · 12 requests"),
        (80, 1_234_567_890, "1.235G computed · 2.469G cached · 1.235M generated · 12,346 requests"),
        (120, 1_234_567_890, "1,234,567,890 computed · 2,469,135,780 cached · 1,234,568 generated · 12,346 requests"),
    ],
)
def test_totals_of_weeks_are_short_where_whole_ones_would_be_cut(width: int, tokens: int, line: str) -> None:
    totals = Totals(
        prompt_computed_tokens=tokens,
        prompt_cached_tokens=2 * tokens,
        generation_tokens=round(tokens / 1000) if tokens > 2e6 else 1234,
        requests_finished=round(tokens / 100_000),
    )
    (row,) = total_rows(Frame(at=0, state="ready", totals=totals), width)
    assert row_text(row).endswith(line) and len(row_text(row)) <= width


def test_a_percentile_beyond_the_last_bucket_reads_as_more_than_its_bound() -> None:
    latencies = Latencies(ttft_seconds=Latency(mean=14.0, p95=10.0, p95_is_lower_bound=True))
    line = row_text(latency_rows(Frame(at=0, state="ready", latency=latencies))[0])
    assert "TTFT 14 s (p95 > 10 s)" in line


def test_a_hybrids_pool_is_a_share_and_not_tokens() -> None:
    pool = Kv(capacity_tokens=263_672, used_fraction=0.37, holds_state_blocks=True)
    line = row_text(kv_rows(Frame(at=0, state="ready", kv=pool), History(), 120)[0])
    assert "37.0 %  of the pool, 263,672 tokens" in line


def test_a_share_by_exclusion_is_at_most_and_leaves_others_unknown() -> None:
    line = gpu_lines(share_basis="exclusion")
    assert "this ≤ 21.1" in line and "other –" in line


@pytest.mark.parametrize("width", [80, 120])
def test_what_holds_a_card_down_and_who_else_is_on_it_is_said_at_any_width(width: int) -> None:
    text = gpu_lines(width, throttle=("heat",), others=(GpuHolder(pid=9, name="blender", used_bytes=3 * GIB),))
    assert "held down: heat" in text and "blender 3.0" in text
    assert ("PCIe 4 x16 ↓1.25 ↑0.40 GB/s" in text) == (width == 120)


def test_traffic_that_was_measured_a_while_ago_says_when() -> None:
    assert "↑0.40 GB/s 42 s ago" in gpu_lines(pcie_age_seconds=42.4)
    assert " ago" not in gpu_lines(pcie_age_seconds=5.0)


@pytest.mark.parametrize("width", [80, 120])
def test_the_widest_card_is_not_cut(width: int) -> None:
    line = gpu_lines(
        width,
        index=15,
        total_bytes=280 * GIB,
        used_bytes=274 * GIB,
        instance_bytes=234 * GIB,
        power_watts=1195.0,
        power_limit_watts=1400.0,
        temperature_celsius=101,
        utilization_fraction=1.0,
    ).splitlines()[0]
    assert len(line) <= width and line.endswith("1195/1400 W" + (" " if width < 110 else "  ") + "101 °C")


def test_more_than_three_others_are_counted() -> None:
    others = tuple(GpuHolder(pid=pid, name=f"job{pid}", used_bytes=GIB) for pid in range(5))
    assert "job0 1.0, job1 1.0, job2 1.0 and 2 more" in gpu_lines(others=others)


def test_a_card_that_says_nothing_shows_dashes_and_a_lost_one_is_lost() -> None:
    frame = Frame(at=0, state="ready", gpus=(GpuReading(index=0, uuid="", name="x"),))
    (line,) = [row_text(row) for row in memory_rows(frame, 80)]
    assert "–/– GiB this – other – – – –" in line
    text = gpu_lines(lost=True, problem="GPU 1 is lost.")
    assert "GPU1     lost" in text and "GPU 1 is lost." in text and "–" not in text


def test_a_card_with_hardly_anything_free_says_so() -> None:
    assert "only 0.25 GiB free" in gpu_lines(80, free_bytes=GIB // 4)
    assert "only" not in gpu_lines(80, free_bytes=GIB)


def test_old_gpu_figures_say_their_age() -> None:
    assert "7 s old" in gpu_lines(age=7.0, problem="NVML has not answered for 6 s: the driver may hang.")


def test_no_row_of_a_gpu_is_wider_than_a_small_screen_for_its_first_line() -> None:
    assert len(row_text(memory_rows(gpu_frame(), 80)[0])) <= 80


def test_without_a_gpu_the_host_says_its_memory_and_cores() -> None:
    text = "\n".join(row_text(row) for row in memory_rows(cpu_frame(), 80))
    assert "no NVIDIA driver" in text and "this 0.4 of 4 cores" in text


def test_sources_say_where_figures_come_from_and_how_old_they_are() -> None:
    sources = (
        Source(figures="decode", origin="vllm:generation_tokens", age_seconds=0.4),
        Source(figures="KV capacity", origin="boot log"),
    )
    rows = source_rows(Frame(at=0, state="ready", sources=sources))
    assert [row_text(row).split(maxsplit=1)[1] for row in rows] == [
        "decode: vllm:generation_tokens, 0.4 s old",
        "KV capacity: boot log",
    ]


def test_nothing_known_is_dashes_and_never_zero() -> None:
    frame = Frame(at=0, state="ready", throughput=Throughput())
    text = "\n".join(row_text(row) for row in [*kv_rows(frame, History(), 80), *latency_rows(frame)])
    assert "0" not in text


@pytest.mark.parametrize(
    ("serving", "starting", "text"),
    [
        (0, 0, "○ 0 serving"),
        (2, 0, "● 2 serving"),
        (0, 1, "◐ 1 starting"),
        (1, 2, "● 1 serving ◐ 2 starting"),
    ],
)
def test_what_is_starting_is_not_said_to_serve(serving: int, starting: int, text: str) -> None:
    assert row_text(servers_row(serving, starting)).strip() == text


@pytest.mark.parametrize("width", [80, 120])
def test_a_note_is_wrapped_and_never_cut(width: int) -> None:
    note = (
        "Not all layers keep every token (sliding windows, cross-attention): use is a share of the pool, not tokens."
    )
    lines = [row_text(row) for row in wrapped_notes(Frame(at=0, state="ready", notes=(note, "Short.")), width)]
    assert all(len(line) <= width for line in lines)
    assert " ".join(line.strip(" ·") for line in lines) == f"{note} Short."
    assert lines[-1] == " · Short."


def test_a_pool_that_does_not_count_in_tokens_is_a_share() -> None:
    pool = Kv(capacity_tokens=73_472, used_fraction=0.07, holds_state_blocks=False, counts_tokens=False)
    line = row_text(kv_rows(Frame(at=0, state="ready", kv=pool), History(), 120)[0])
    assert "7.0 %  of the pool, 73,472 tokens" in line


@pytest.mark.parametrize(
    ("elapsed", "remaining", "says"),
    [
        (10.0, 51.0, "10 s of 1:01  about 51 s left, by 4 boots before"),
        (60.5, 0.0, "any moment now"),
        (127.0, 5.0, "2:07 of 1:01  overdue, 5 s or more left, by"),
        (127.0, 0.0, "overdue by 1:06"),
    ],
)
def test_a_boot_that_takes_longer_than_usual_is_overdue(elapsed: float, remaining: float, says: str) -> None:
    pace = Pace(expected_seconds=61.0, remaining_seconds=remaining, fraction=0.9, boots=4)
    text = row_text(pace_row(pace, elapsed, 80))
    assert says in text and len(text) <= 80
