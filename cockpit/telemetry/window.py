"""The scrapes that rates are taken over, what became of the server in them, and how much its figures grew."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from cockpit.telemetry.histogram import Histogram, delta, together
from cockpit.telemetry.pool import LogPool
from cockpit.telemetry.scrape import EngineScrape, Scrape
from cockpit.telemetry.uncredited import Uncredited, follow

_SLACK = 1e-6
"""Relative. Sums of seconds that several API servers add up may differ in the last digits."""
_STARTS = 8
"""Processes that are remembered, to tell several behind one address from one that restarted."""


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """The scrapes that rates are taken over, oldest first."""

    scrapes: tuple[Scrape, ...] = ()
    uncredited: tuple[Uncredited, ...] = ()
    """What running prefills had computed without credit, one a scrape."""
    restarted_clock: float | None = None
    """Monotonic time of the scrape that last showed a restart."""
    moved_clock: float | None = None
    """Monotonic time of the scrape that last differed from the one before."""
    restarted_engines: tuple[str, ...] = ()
    """Those that then began anew, by their label; empty when the whole server did."""
    lost_engines: tuple[str, ...] = ()
    """Engines that were there and are no longer, by their label."""
    came_clock: float | None = None
    """Monotonic time of the scrape that last showed engines which the one before did not."""
    came_engines: tuple[str, ...] = ()
    earlier_starts: tuple[float, ...] = ()
    """Process starts (Unix time) before the last restart."""
    by_turns: bool = False
    """The process that began last is one that was there before: several share the address."""

    @property
    def newest(self) -> Scrape | None:
        """The last scrape, if any."""
        return self.scrapes[-1] if self.scrapes else None

    @property
    def change(self) -> Change | None:
        """Newest less oldest; None until two scrapes exist."""
        if len(self.scrapes) < 2 or self.scrapes[-1].clock <= self.scrapes[0].clock:
            return None
        return Change(self.scrapes[0], self.scrapes[-1])


def extend(window: Window, scrape: Scrape, seconds: float, log: LogPool | None = None) -> Window:
    """The window with one scrape more, cut to about ``seconds``; the two newest always stay.

    A restart of the server or of an engine (see ``restarted``), an engine that came or came back, and an answer
    without vLLM figures drop all earlier scrapes; when one is lost, the others' rates go on. 5 % of slack keeps a
    10 s window at 10 s when ticks come a little late. ``log`` is the pool of one engine by the boot log.
    """
    newest = window.newest
    fresh = Window(scrapes=(scrape,), uncredited=(Uncredited(),), moved_clock=scrape.clock)
    if newest is None or not scrape.engines or not newest.engines:
        return fresh
    if _started_apart(newest.process_started_at, scrape.process_started_at):
        return _with_another_process(window, fresh, scrape)
    lost = tuple(sorted({*window.lost_engines, *newest.engines} - scrape.engines.keys()))
    anew = restarted(newest, scrape)
    if anew:
        some = () if anew == newest.engines.keys() else tuple(sorted(anew))
        return replace(fresh, restarted_clock=scrape.clock, restarted_engines=some, lost_engines=lost)
    if not newest.engines.keys() & scrape.engines.keys():
        # Named otherwise, as by a proxy that adds labels: none of them is lost.
        return fresh
    if came := scrape.engines.keys() - newest.engines.keys():
        return replace(fresh, lost_engines=lost, came_clock=scrape.clock, came_engines=tuple(sorted(came)))
    kept = _recent(window.scrapes, scrape.clock - seconds * 1.05)
    uncredited = follow(window.uncredited[-1], newest, scrape, log)
    return Window(
        scrapes=(*kept, scrape),
        uncredited=(*window.uncredited[-len(kept) :], uncredited),
        restarted_clock=window.restarted_clock,
        restarted_engines=window.restarted_engines,
        moved_clock=window.moved_clock if scrape.engines == newest.engines else scrape.clock,
        lost_engines=lost,
        came_clock=window.came_clock,
        came_engines=window.came_engines,
        earlier_starts=window.earlier_starts,
        by_turns=window.by_turns,
    )


def _with_another_process(window: Window, fresh: Window, scrape: Scrape) -> Window:
    """A window that begins with another process: a new one, or one that answered before the one before it."""
    newest, now = window.newest, scrape.process_started_at
    before = newest.process_started_at if newest is not None else None
    seen = window.earlier_starts if before is None else (*window.earlier_starts, before)
    by_turns = any(not _started_apart(start, now) for start in seen)
    return replace(fresh, restarted_clock=scrape.clock, earlier_starts=seen[-_STARTS:], by_turns=by_turns)


def _recent(scrapes: tuple[Scrape, ...], oldest_clock: float) -> tuple[Scrape, ...]:
    """Those that are young enough, and the last one in any case."""
    return tuple(scrape for scrape in scrapes[:-1] if scrape.clock >= oldest_clock) + scrapes[-1:]


def restarted(old: Scrape, new: Scrape) -> set[str]:
    """Engines of ``old`` that began anew: counters made at another time, or one that went backwards."""
    both = new.engines.keys() & old.engines.keys()
    return {name for name in both if _began_anew(old.engines[name], new.engines[name])}


def _began_anew(old: EngineScrape, new: EngineScrape) -> bool:
    return _started_apart(old.created_at, new.created_at) or _went_back(old, new)


def _started_apart(old: float | None, new: float | None) -> bool:
    """Whether two starts (Unix time) are those of two processes; unknown ones are not."""
    return old is not None and new is not None and abs(new - old) > 1.0


def _went_back(old: EngineScrape, new: EngineScrape) -> bool:
    return any(
        new.counters[key] < before - abs(before) * _SLACK
        for key, before in old.counters.items()
        if key in new.counters
    )


class Change:
    """Newest less oldest scrape of a window, summed over engines; every figure is None when its family is absent."""

    def __init__(self, old: Scrape, new: Scrape) -> None:
        self.seconds = new.clock - old.clock
        self._pairs = [(old.engines[name], new.engines[name]) for name in new.engines if name in old.engines]
        self.keys = {key for pair in self._pairs for engine in pair for key in engine.counters}

    def counter(self, key: str) -> float | None:
        """Growth of a counter, never negative; None unless every engine shows it at both ends."""
        grown = [_growth(old, new, key) for old, new in self._pairs]
        return sum(one for one in grown if one is not None) if grown and None not in grown else None

    def counters(self, keys: Iterable[str]) -> float | None:
        """Growth of several counters together; None when none is there."""
        known = [grown for key in keys if (grown := self.counter(key)) is not None]
        return sum(known) if known else None

    def rate(self, growth: float | None) -> float | None:
        """Growth a second."""
        return None if growth is None else growth / self.seconds

    def histogram(self, *keys: str) -> Histogram | None:
        """Observations of the first of ``keys`` that each engine has, all together; None unless all have one."""
        parts = [_observed(old, new, keys) for old, new in self._pairs]
        return together(parts) if parts else None


def _observed(old: EngineScrape, new: EngineScrape, keys: Sequence[str]) -> Histogram | None:
    key = next((key for key in keys if key in old.histograms and key in new.histograms), None)
    return None if key is None else delta(old.histograms[key], new.histograms[key])


def _growth(old: EngineScrape, new: EngineScrape, key: str) -> float | None:
    """Of one engine's counter; a label that its family was there without had counted nothing."""
    before = old.counters.get(key, _unlabelled(old, key))
    now = new.counters.get(key, None if key in old.counters else _unlabelled(new, key))
    return None if before is None or now is None else max(0.0, now - before)


def _unlabelled(engine: EngineScrape, key: str) -> float | None:
    """0 for a label that is not there of a family that is, else None."""
    family, colon, _ = key.partition(":")
    return 0.0 if colon and any(other.startswith(f"{family}:") for other in engine.counters) else None
