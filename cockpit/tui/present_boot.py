"""A boot, or a death at boot, as lines of text. Pure."""

from __future__ import annotations

import re
import textwrap

import msgspec

from cockpit.supervisor.boot_pace import Pace
from cockpit.supervisor.boot_state import STAGE_NAMES, STAGES, BootStage, BootState
from cockpit.supervisor.ending import ending, likely_cause
from cockpit.supervisor.silence import Silence
from cockpit.tui.content import Row
from cockpit.tui.gauges import bar
from cockpit.tui.wrap import wrap
from cockpit.units import duration

_PREFIX = re.compile(
    r"^\((?P<process>\S{1,40}) pid=\d+\) (?:(?P<level>[A-Z]+) \d\d-\d\d (?P<time>\d\d:\d\d:\d\d) \[[^\]]*\] ?)?"
)
_LIBRARY = re.compile(r"^(?:\w+\.)*_\w+\.")
"""Where an exception's class lies inside its library: ``pydantic_core._pydantic_core.``"""
_EXCEPTION_LINES = 4
_SHOWN_SECONDS = 1.0
"""A stage that is to come is listed when it usually takes at least as long."""


class Death(msgspec.Struct, frozen=True, kw_only=True):
    """How a server ended."""

    exit_code: int | None
    was_ready: bool
    first_exception: str | None
    survivors: int = 0
    explanation: str | None = None
    """Why, as one or two sentences; None is not known."""
    fix: str | None = None
    """What f sets: ``--max-model-len 188416``; None when no new start helps by itself."""
    advice: tuple[str, ...] = ()
    """What else helps, in words."""


def _stage_row(stage: BootStage, current: bool, now_seconds: float, dead: bool, usual: float | None = None) -> Row:
    if stage.ended is not None or (stage.id == "ready" and not current):
        glyph, style = "✓", "good"
    elif dead:
        glyph, style = "✕", "bad"
    else:
        glyph, style = ("◐", "warn") if current else ("·", "dim")
    elapsed = stage.seconds if stage.ended is not None else max(0.0, now_seconds - stage.started)
    took = "" if stage.id == "ready" and not current else f"{elapsed:6.1f} s"
    return [
        (f" {glyph} ", style),
        (f"{STAGE_NAMES[stage.id]:<12}", "bold" if current else ""),
        (f"{took:>9}", ""),
        (f"  {stage.progress}" + (f"  usually {usual:.0f} s" if usual and current and not dead else ""), "dim"),
    ]


def pace_row(pace: Pace, elapsed_seconds: float, width: int) -> Row:
    """How far the boot is and when it should be over, by earlier boots."""
    of = "1 boot" if pace.boots == 1 else f"{pace.boots} boots"
    return [
        (" ", ""),
        (bar(pace.fraction, max(10, min(40, width - 60))), "bar"),
        (f" {duration(elapsed_seconds)} of {duration(pace.expected_seconds)}", "bold"),
        (f"  {_left_text(pace, elapsed_seconds)}, by {of} before", "dim"),
    ]


def _left_text(pace: Pace, elapsed_seconds: float) -> str:
    """What is left of a boot; of one that took longer than usual already, at least so much."""
    overdue = elapsed_seconds - pace.expected_seconds
    if overdue > 1:
        least = pace.remaining_seconds
        return f"overdue, {duration(least)} or more left" if least >= 1 else f"overdue by {duration(overdue)}"
    return f"about {duration(pace.remaining_seconds)} left" if pace.remaining_seconds >= 1 else "any moment now"


def silence_rows(silence: Silence, width: int) -> list[Row]:
    """Why nothing is written, and what to do when that is not usual."""
    glyph, style = ("⚠", "warn") if silence.alarm else ("·", "dim")
    text = f"silent for {duration(silence.seconds)}: {silence.sentence}. {silence.fix}".rstrip()
    first, *more = textwrap.wrap(text, max(20, width - 4)) or [""]
    return [[(f" {glyph} ", style), (first, style)], *([("   ", ""), (line, style)] for line in more)]


def boot_rows(boot: BootState, elapsed_seconds: float, dead: bool = False, pace: Pace | None = None) -> list[Row]:
    """The stages so far, each with its time; the running one counts on, and earlier boots say what is to come."""
    usual = {} if pace is None else pace.usual
    rows = [
        _stage_row(stage, stage.id == boot.current, elapsed_seconds, dead, usual.get(stage.id))
        for stage in boot.stages
    ]
    if boot.current is not None and not dead:
        rows += [
            [(f" · {STAGE_NAMES[stage]:<12}", "dim"), (f"{f'({usual[stage]:.0f} s)':>9}", "dim")]
            for stage in STAGES[STAGES.index(boot.current) + 1 :]
            if usual.get(stage, 0.0) >= _SHOWN_SECONDS
        ]
    if not rows:
        rows.append([(" ◐ ", "warn"), ("environment ", "bold"), (f"{elapsed_seconds:6.1f} s", "")])
    return rows


def death_rows(seen: Death, width: int) -> list[Row]:
    """What died, how, what of it still runs, and the first exception of its log, wrapped to ``width`` cells."""
    when = "after it was ready" if seen.was_ready else "while it started"
    rows = wrap([(" ✕ ", "bad"), (f"the server died {when}, {ending(seen.exit_code)}", "bad")], width)
    cause = likely_cause(seen.exit_code)
    if cause is not None and not seen.first_exception and not seen.explanation:
        rows += _wrapped(cause, width, "warn", _EXCEPTION_LINES)
    if seen.survivors:
        what = "1 process" if seen.survivors == 1 else f"{seen.survivors} processes"
        rows.append([(" ⚠ ", "warn"), (f"{what} of it still run and hold memory: K ends them", "warn")])
    if seen.explanation:
        rows += _wrapped(seen.explanation, width, "bold", _EXCEPTION_LINES)
    if seen.first_exception:
        lines = 2 if seen.explanation else _EXCEPTION_LINES
        rows += _wrapped(_LIBRARY.sub("", seen.first_exception), width, "warn", lines)
    if seen.fix:
        rows.append([("   [f] ", "key"), (f"start again with {seen.fix}", "good")])
    elif seen.advice:
        rows += _wrapped(seen.advice[0], width, "good", 3)
    rows.append([("   The end of its log is below. S opens its card to start again.", "dim")])
    return rows


def by_hand(seen: Death, card_key: str, log_key: str) -> str:
    """Why there is nothing to set for a server that died, and what to do instead; one or two sentences."""
    card = f"{card_key} opens its card to start it again."
    if seen.advice:
        return f"There is no value to set that is known to help. By hand: {seen.advice[0].rstrip('.')}; then {card}"
    cause = None if seen.first_exception else likely_cause(seen.exit_code)
    if cause is not None:
        return f"Nothing is known to be wrong with its settings: {cause}. {card}"
    return f"Why it died is not known, so there is nothing to set. {log_key} shows its whole log; {card}"


def _wrapped(text: str, width: int, style: str, most: int) -> list[Row]:
    lines = textwrap.wrap(text, max(20, width - 4), max_lines=most, placeholder=" …")
    return [[("   ", ""), (line, style)] for line in lines]


def short_log_line(line: str) -> str:
    """A log line for a narrow panel: vLLM's 60-cell prefix becomes time and process; the message stays whole."""
    found = _PREFIX.match(line)
    if found is None:
        return line
    process, level, time = found.groups("")
    mark = "" if level in ("", "INFO") else f"{level} "
    when = f"{time} " if time else ""
    return f"{when}{process}: {mark}{line[found.end() :].rstrip()}"
