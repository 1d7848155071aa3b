"""A frame as lines of text, pure: the same rows go to the screen, the clipboard and the tests."""

from __future__ import annotations

from cockpit import units
from cockpit.telemetry import text
from cockpit.telemetry.aging import FRESH_SECONDS
from cockpit.telemetry.frame import Frame
from cockpit.telemetry.history import History, sparkline
from cockpit.tui.content import Row, row_text
from cockpit.tui.gauges import LABEL_WIDTH, bar, label
from cockpit.tui.present_gpu import memory_rows
from cockpit.tui.wrap import wrap


def _spark(history: History, series: str, width: int) -> str:
    return sparkline(history.series(series), max(4, width))


def throughput_rows(frame: Frame, history: History, width: int) -> list[Row]:
    """Prefill and decode with two minutes of sparkline."""
    rates = frame.throughput
    value_width = 47 if width < 110 else 60
    spark_width = max(8, min(60, width - LABEL_WIDTH - value_width - 2))
    prefill = f"{text.prefill_speed(rates):>7} tok/s {text.prefill_kind(rates)}  "
    cached = f"{units.rate(rates.cached_prefill_tokens_per_second):>7} cached"
    decode = f"{units.rate(rates.decode_tokens_per_second):>7} tok/s"
    stream = f"  {units.rate(rates.decode_tokens_per_second_per_request):>14} a stream"
    return [
        [
            label("prefill"),
            (prefill, "bold"),
            (cached.ljust(value_width - len(prefill)), ""),
            (_spark(history, "prefill", spark_width), "bar"),
        ],
        [
            label("decode"),
            (decode, "bold"),
            (stream.ljust(value_width - len(decode)), ""),
            (_spark(history, "decode", spark_width), "bar2"),
        ],
    ]


def kv_rows(frame: Frame, history: History, width: int) -> list[Row]:
    """The KV pool and the requests in it."""
    kv, requests = frame.kv, frame.requests
    bar_width = 18 if width < 110 else 30
    used = units.percent(kv.used_fraction, 1)
    at_once = concurrency(kv.max_concurrency)
    preempted = (
        units.UNKNOWN if requests.preemptions_per_second is None else f"{requests.preemptions_per_second:.1f}/s"
    )
    return [
        [
            label("KV pool"),
            (bar(kv.used_fraction, bar_width), "bar"),
            (f" {used:>7}  ", "bold"),
            (text.pool_amount(kv), ""),
        ],
        [
            label("requests"),
            (f"running {units.tokens(requests.running)}   waiting {units.tokens(requests.waiting)}", "bold"),
            (f"   preempted {preempted}   {at_once} fit at full context", ""),
        ],
    ]


def concurrency(requests: float | None) -> str:
    """``2.38`` decides whether a third request fits; hundredths of a thousand say nothing."""
    if requests is None:
        return units.UNKNOWN
    return f"{requests:,.2f}" if requests < 100 else f"{requests:,.0f}"


def latency_rows(frame: Frame) -> list[Row]:
    """Latencies, prefix cache, draft."""
    latency, prefix = frame.latency, frame.prefix_cache
    rows: list[Row] = [
        [
            label("latency"),
            (f"TTFT {text.latency(latency.ttft_seconds)}   ", ""),
            (text.between_tokens(latency.inter_token_seconds, frame.speculative), ""),
        ],
        [
            label("prefix"),
            (text.prefix_hits(prefix), ""),
            (f" (all time {units.percent(prefix.hit_fraction_lifetime)})", "dim"),
        ],
    ]
    draft = frame.speculative
    if draft is not None:
        rows.append([label("draft"), (text.draft(draft), "")])
    return rows


def total_rows(frame: Frame, width: int) -> list[Row]:
    """What the server has done since it began, in short figures where whole ones are too wide."""
    totals = frame.totals
    figures = {
        " computed · ": totals.prompt_computed_tokens,
        " cached · ": totals.prompt_cached_tokens,
        " generated · ": totals.generation_tokens,
        " requests": totals.requests_finished,
    }
    room = width - len(row_text([label("total"), *((what, "") for what in figures)]))
    shown = [units.tokens(figure) for figure in figures.values()]
    for cells in range(12, 5, -1):
        if sum(map(len, shown)) > room:
            shown = [units.short(figure, cells) for figure in figures.values()]
    return [[label("total"), *((text + what, "") for text, what in zip(shown, figures, strict=True))]]


def int8_row(frame: Frame) -> list[Row]:
    """int8 activations, only where they were asked for: requested is not the same as active."""
    int8 = frame.int8
    if not int8.requested:
        return []
    style = {True: "good", False: "bad", None: "warn"}[int8.active]
    return [[label("int8"), (text.int8(int8), style)]]


def note_rows(frame: Frame) -> list[Row]:
    """What the reader should know about the figures, and their age when they are not fresh."""
    rows: list[Row] = []
    if frame.age_seconds is not None and frame.age_seconds > FRESH_SECONDS:
        rows.append([(f" ⚠ these figures are {frame.age_seconds:.0f} s old", "warn")])
    rows.extend([(" · ", "dim"), (note, "dim")] for note in frame.notes)
    return rows


def wrapped_notes(frame: Frame, width: int) -> list[Row]:
    """The same in lines of ``width`` cells: a note that is cut says nothing."""
    return [line for row in note_rows(frame) for line in wrap(row, max(10, width))]


def live_rows(frame: Frame, history: History, width: int) -> list[Row]:
    """The whole live panel for a screen of ``width`` cells."""
    return [
        *throughput_rows(frame, history, width),
        *kv_rows(frame, history, width),
        *latency_rows(frame),
        *memory_rows(frame, width),
        *total_rows(frame, width),
        *int8_row(frame),
        *wrapped_notes(frame, width),
    ]


def source_rows(frame: Frame) -> list[Row]:
    """Where each group of figures comes from and how old it is: for what is copied, as the screen has no room."""
    return [
        [
            label("source"),
            (f"{one.figures}: {one.origin}", ""),
            ("" if one.age_seconds is None else f", {one.age_seconds:.1f} s old", ""),
        ]
        for one in frame.sources
    ]


def is_stale(frame: Frame) -> bool:
    """Whether the figures are no longer live and must be greyed."""
    return frame.stale
