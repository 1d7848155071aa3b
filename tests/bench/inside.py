"""Costs that need no terminal: one page parsed, and a day of ticks through everything that remembers."""

from __future__ import annotations

import statistics
import time

import psutil
from homes import PAGE
from msgspec.structs import replace

from cockpit.telemetry.figures import figures
from cockpit.telemetry.frame import Frame
from cockpit.telemetry.history import History
from cockpit.telemetry.timeline import Timeline
from cockpit.telemetry.vllm import parse_scrape
from cockpit.telemetry.window import Window, extend
from cockpit.tui.present import live_rows
from cockpit.tui.present_charts import SPANS, chart_rows

DAY = 86_400
_DRAW_EVERY = 60
_WINDOW_SECONDS = 10.0
_PAGE_BYTES = 50_000


def page_of(size: int = _PAGE_BYTES) -> str:
    """A recorded page, once for each of so many engines that it has ``size`` bytes."""
    one = PAGE.read_text(encoding="utf-8")
    pages = [one]
    while sum(map(len, pages)) < size:
        pages.append(one.replace('engine="0"', f'engine="{len(pages)}"'))
    return "".join(pages)


def parse_times(runs: int = 60) -> tuple[int, float, float]:
    """Bytes of the page, and the least and median seconds to parse it."""
    page = page_of()
    times = []
    for _ in range(runs):
        began = time.process_time()
        parse_scrape(page, at=0.0, clock=0.0)
        times.append(time.process_time() - began)
    return len(page), min(times), statistics.median(times)


def day_of_ticks(ticks: int = DAY) -> tuple[float, float, float]:
    """RSS in bytes after a tenth of the ticks and after all, and seconds of CPU a tick; each minute is drawn."""
    scrape = parse_scrape(PAGE.read_text(encoding="utf-8"), at=0.0, clock=0.0)
    window, history, timeline = Window(), History(), Timeline()
    process, early = psutil.Process(), 0
    began = time.process_time()
    for tick in range(ticks):
        window = extend(window, replace(scrape, at=float(tick), clock=float(tick)), _WINDOW_SECONDS)
        shown = figures(window, _WINDOW_SECONDS, None, expects_draft=False)
        frame = Frame(
            at=float(tick),
            state="ready",
            window_seconds=shown.window_seconds,
            age_seconds=0.0,
            engines=shown.engines,
            throughput=shown.throughput,
            kv=shown.kv,
            requests=shown.requests,
            latency=shown.latency,
            prefix_cache=shown.prefix_cache,
            totals=shown.totals,
        )
        history.push(frame)
        timeline.push(frame)
        if tick % _DRAW_EVERY == 0:
            live_rows(frame, history, 120)
            for span in SPANS:
                chart_rows(timeline, span, 120)
        if tick == ticks // 10:
            early = process.memory_info().rss
    return early, process.memory_info().rss, (time.process_time() - began) / ticks
