"""All figures that one window of scrapes gives."""

from __future__ import annotations

from msgspec.structs import replace

from cockpit.telemetry import pool, rates
from cockpit.telemetry.frame import Latencies, Requests, SleepState
from cockpit.telemetry.notes import Figures, Subject, no_figures, notes_of
from cockpit.telemetry.pool import LogPool
from cockpit.telemetry.scrape import Scrape
from cockpit.telemetry.window import Change, Window


def figures(window: Window, seconds: float, log: LogPool | None = None, *, expects_draft: bool = False) -> Figures:
    """Figures of a window; rates and latencies are None until it holds two scrapes.

    ``seconds`` is the wanted length of the window, ``log`` what the boot log said of one engine's pool,
    ``expects_draft`` whether speculation was asked for.
    """
    newest = window.newest
    if newest is None:
        return Figures()
    if not newest.engines:
        return Figures(notes=(no_figures(newest.other_server),))
    change = window.change
    made = Figures(
        window_seconds=None if change is None else change.seconds,
        model=", ".join(newest.models[:4]) or None,
        engines=len(newest.engines),
        throughput=rates.throughput(window),
        kv=pool.kv(newest, log),
        requests=_requests(newest, change),
        latency=Latencies() if change is None else rates.latencies(change),
        prefix_cache=rates.prefix_cache(newest, change),
        speculative=rates.speculative(newest, change),
        sleep_state=_sleep_state(newest),
        totals=rates.totals(newest),
    )
    subject = Subject(made=made, window=window, newest=newest, seconds=seconds, expects_draft=expects_draft)
    return replace(made, notes=notes_of(subject))


def _requests(newest: Scrape, change: Change | None) -> Requests:
    return Requests(
        running=_whole(newest.gauge("running")),
        waiting=_whole(newest.gauge("waiting")),
        preemptions_per_second=None if change is None else change.rate(change.counter("preemptions")),
    )


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _sleep_state(newest: Scrape) -> SleepState | None:
    """The state of the deepest sleeper, None where no engine says one."""
    states = {engine.sleep_state for engine in newest.engines.values()}
    order: tuple[SleepState, ...] = ("discard_all", "weights_offloaded", "paused", "awake")
    return next((state for state in order if state in states), None)
