"""Servers side by side: one row each, and what there is to say about one of them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cockpit import units
from cockpit.fleet_watch import Look, Target
from cockpit.telemetry import text
from cockpit.telemetry.frame import Frame
from cockpit.telemetry.history import History
from cockpit.tui.catalog_rows import STATE_CELLS
from cockpit.tui.content import Row, Segment, fit
from cockpit.tui.gauges import label
from cockpit.tui.present import kv_rows, latency_rows, note_rows

if TYPE_CHECKING:
    from cockpit.fleet import InstanceView
    from cockpit.supervisor.others import Other

COLUMNS: tuple[tuple[str, str, int, int], ...] = (
    ("state", "state", 10, 0),
    ("server", "server", 17, 0),
    ("model", "model", 14, 118),
    ("prefill", "  prefill", 9, 0),
    ("decode", "  decode", 8, 0),
    ("running", " run", 4, 0),
    ("waiting", " wait", 5, 0),
    ("used", "   KV", 5, 0),
    ("capacity", " KV tokens", 10, 104),
    ("hits", " hits", 5, 92),
    ("draft", "draft", 5, 98),
    ("ttft", "TTFT p95", 8, 0),
    ("age", " age", 4, 0),
)
"""Key, title, width in cells, and the narrowest terminal that shows it."""
_SERVING = ("ready", "foreign")
_SILENT: Segment = ("✕ silent", "bad")
_ASKING: Segment = ("… asking", "dim")


def targets_of(instances: Sequence[InstanceView], others: Sequence[Other]) -> list[Target]:
    """The servers of this host: instances by age, then what no cockpit started by name; orphans serve nothing."""
    own = [
        Target(
            name=view.record.name,
            url=view.record.url,
            state=view.state,
            model=view.record.served_model_name,
            log=view.record.log,
            started_at=view.record.created_at,
        )
        for view in instances
    ]
    found = [
        Target(name=one.name, url=one.url, state="foreign", model=one.model or "", gets_key=one.kind == "adopted")
        for one in sorted(others, key=lambda one: one.name)
        if one.kind != "orphans"
    ]
    return [*own, *found]


def visible_columns(width: int) -> list[tuple[str, str, int]]:
    """The columns for a terminal of ``width`` cells; the server's takes what is left."""
    shown = [(key, title, cells) for key, title, cells, needs in COLUMNS if width >= needs]
    spare = max(0, width - sum(cells + 1 for _, _, cells in shown))
    return [(key, title, cells + spare if key == "server" else cells) for key, title, cells in shown]


def cells(look: Look) -> dict[str, Segment]:
    """Text and style of every cell of one server, by column key; figures that are not of now are dim."""
    frame = look.frame or Frame(at=0.0, state=look.target.state)
    style = "dim" if frame.stale else ""
    return {
        "state": _state(look),
        "server": (look.target.name, "bold"),
        "model": (frame.model or look.target.model or units.UNKNOWN, ""),
        "age": _age(frame),
        **{key: (figure, style) for key, figure in _figures(frame).items()},
    }


def _figures(frame: Frame) -> dict[str, str]:
    """Right-aligned, each as wide as its column."""
    speed, requests, kv, ttft = frame.throughput, frame.requests, frame.kv, frame.latency.ttft_seconds
    draft = None if frame.speculative is None else frame.speculative.acceptance_length
    widths = {key: width for key, _, width, _ in COLUMNS}
    found = {
        "prefill": text.prefill_speed(speed, widths["prefill"]),
        "decode": text.rate(speed.decode_tokens_per_second, widths["decode"]),
        "running": units.short(requests.running, widths["running"]),
        "waiting": units.short(requests.waiting, widths["waiting"]),
        "used": units.percent(kv.used_fraction),
        "capacity": units.short(kv.capacity_tokens, widths["capacity"]),
        "hits": units.percent(frame.prefix_cache.hit_fraction_window),
        "draft": units.UNKNOWN if draft is None else f"{draft:.2f}",
        "ttft": f"{'> ' if ttft.p95_is_lower_bound else ''}{units.seconds(ttft.p95)}",
    }
    return {key: f"{figure:>{widths[key]}}" for key, figure in found.items()}


def _state(look: Look) -> Segment:
    state, frame = look.target.state, look.frame
    if state not in _SERVING:
        return STATE_CELLS[state]
    if look.problem is not None:
        return _SILENT
    if frame is None:
        return _ASKING
    return _SILENT if frame.stale and frame.window_seconds is None else STATE_CELLS[state]


def _age(frame: Frame) -> Segment:
    """Of the figures, in whole seconds; unknown once there are none."""
    if frame.age_seconds is None or (frame.stale and frame.engines is None):
        return f"{units.UNKNOWN:>4}", "dim"
    return f"{frame.age_seconds:.0f} s".rjust(4), "warn" if frame.stale else "dim"


def title_row(looks: Sequence[Look], width: int) -> Row:
    """How many there are, and how many of them give figures now."""
    live = sum(1 for look in looks if look.frame is not None and not look.frame.stale and look.frame.engines)
    title = f"── fleet · {len(looks)} server{'' if len(looks) == 1 else 's'}, {live} with live figures "
    return [(title, "title"), ("─" * max(0, width - len(title)), "dim")]


def detail_rows(look: Look, width: int) -> list[Row]:
    """What has no room in the row of one server."""
    target, frame = look.target, look.frame
    model = (frame.model if frame is not None else None) or target.model
    rows: list[Row] = [[label("server"), (target.name, "bold"), (f"  {model}", ""), (f"  {_address(target)}", "dim")]]
    if look.problem is not None:
        rows.append([(f" · {look.problem}", "warn")])
    elif frame is None:
        rows.append([(" · no answer yet", "dim")])
    elif frame.engines is not None:
        figures = [*kv_rows(frame, History(), width), *latency_rows(frame)]
        rows += [*(fit(row, max(10, width)) for row in figures), *note_rows(frame)]
    elif target.state in _SERVING:
        rows += [[(f" · {note}", "warn")] for note in frame.notes]
    return rows


def _address(target: Target) -> str:
    """The URL without a user and password; nothing where the name says it all."""
    if target.url is None or not target.is_listed:
        return ""
    scheme, _, rest = target.url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


def plain_lines(looks: Sequence[Look]) -> list[str]:
    """The whole table as text, all columns."""
    rows = [{key: title for key, title, _, _ in COLUMNS}]
    rows += [{key: cell for key, (cell, _) in cells(look).items()} for look in looks]
    widths = {key: max(len(row[key]) for row in rows) for key in rows[0]}
    return ["  ".join(f"{row[key]:<{widths[key]}}" for key in widths).rstrip() for row in rows]
