"""A forecast as lines of text: verdict, what would make it fit, a bar a GPU, its parts, the KV pool. Pure."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from cockpit import units
from cockpit.launch.toggles import BY_ID
from cockpit.launch.verdict import verdict_text
from cockpit.planner.forecast_types import Change, Forecast, GpuForecast, Part
from cockpit.tui.content import Row, row_text
from cockpit.tui.keymap import Keymap, shown_key, toggle_key
from cockpit.tui.memory_bar import SLICES, bar, free_bytes, parts_of
from cockpit.tui.present import concurrency
from cockpit.tui.wrap import wrap

_STYLES = {"yes": "good", "tight": "warn", "no": "bad", "unknown": "warn"}
_BARS_APART = 2
"""So many GPUs have a bar each whatever they hold; of more, like ones share a bar."""
_NAME_CELLS = 10
MOST_CHANGES = 4
"""So many are offered, each on a digit."""


def verdict_rows(forecast: Forecast, width: int) -> list[Row]:
    """``✓ fits`` or why not, over as many lines as it takes."""
    word, style = verdict_text(forecast.fits), _STYLES[forecast.fits]
    if not forecast.reason:
        return [[(f" {word}", style)]]
    lines = textwrap.wrap(f"{word}: {forecast.reason}", width, initial_indent=" ", subsequent_indent="   ")
    head = f" {word}"[:width]
    return [[(head, style), (lines[0][len(head) :], "")], *([(line, "")] for line in lines[1:])]


def value_of(change: Change, toggle_id: str) -> Any:
    """The value that a change gives a toggle, as toggles have it: JSON knows no tuples."""
    value = change.set[toggle_id]
    return tuple(value) if isinstance(value, list) else value


def suggestion(forecast: Forecast | None, toggle_id: str) -> Any:
    """The value with which this toggle alone makes fit what does not; None when there is none."""
    for change in forecast.changes if forecast is not None and forecast.fits == "no" else ():
        if set(change.set) == {toggle_id}:
            return value_of(change, toggle_id)
    return None


def change_rows(changes: Sequence[Change], width: int, keymap: Keymap) -> list[Row]:
    """``1 [u] GPU utilization 0.97 → pool 263,672``: the digit applies it, the letters lead to the toggles."""
    rows = []
    for number, change in enumerate(changes[:MOST_CHANGES], start=1):
        named, short = (_change_row(number, change, labels, keymap) for labels in (True, False))
        rows.append(named if len(row_text(named)) <= width else short)
    return rows


def _change_row(number: int, change: Change, labels: bool, keymap: Keymap) -> Row:
    row: Row = [(f" {shown_key(f'card.apply{number}', str(number), keymap)} ", "key")]
    for name in change.set:
        toggle = BY_ID[name]
        shown = toggle.kind.show(value_of(change, name))
        row += [
            (f"[{toggle_key(toggle, keymap)}] ", "key"),
            (f"{toggle.label} " if labels else "", ""),
            (f"{shown} ", "good"),
        ]
    return [*row, (f"→ pool {units.tokens(change.capacity_tokens)}", "dim")]


def _alike(gpu: GpuForecast) -> GpuForecast:
    """The GPU without what tells it from others of the same use."""
    return msgspec.structs.replace(gpu, gpu=0, free_bytes=None)


def _groups(gpus: Sequence[GpuForecast]) -> list[list[GpuForecast]]:
    if len(gpus) <= _BARS_APART:
        return [[gpu] for gpu in gpus]
    groups: list[list[GpuForecast]] = []
    for gpu in gpus:
        like = next((group for group in groups if _alike(group[0]) == _alike(gpu)), None)
        if like is None:
            groups.append([gpu])
        else:
            like.append(gpu)
    return groups


def _indices(group: Sequence[GpuForecast]) -> str:
    numbers = [gpu.gpu for gpu in group]
    if len(numbers) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]}–{numbers[-1]}"
    return ",".join(map(str, numbers))


def bar_rows(gpus: Sequence[GpuForecast], width: int) -> list[Row]:
    """One stacked bar a GPU; of more than two, like ones share one."""
    groups = _groups(gpus)
    names = [f" GPU{_indices(group)} " for group in groups]
    name_cells = max(map(len, names), default=0)
    rows: list[Row] = []
    for name, group in zip(names, groups, strict=True):
        total = f" {units.gib(group[0].total_bytes)} GiB"
        bar_cells = max(len(SLICES), width - name_cells - len(total) - 2)
        rows.append([(f"{name:<{name_cells}}", "dim"), *bar(group[0], bar_cells), (total, "bold")])
    return rows


def tightest(gpus: Iterable[GpuForecast]) -> GpuForecast:
    """The GPU with the smallest KV pool, which all of them get."""
    return min(gpus, key=lambda gpu: (gpu.kv.bytes, free_bytes(gpu)))


def _error(part: Part) -> str:
    return f" ±{units.gib(part.error_bytes, 2)}" if part.error_bytes else " " * 6


def legend_rows(gpu: GpuForecast) -> list[Row]:
    """Glyph, name, GiB, error and source of every part: the bar in figures."""
    rows: list[Row] = []
    for one, part in zip(SLICES, parts_of(gpu), strict=False):
        rows.append(
            [
                (f" {one.glyph} ", one.style),
                (f"{one.name:<{_NAME_CELLS}}", ""),
                (f"{units.gib(part.bytes, 2):>6}", "bold"),
                (f"{_error(part)} {part.basis}", "dim"),
            ]
        )
    free = SLICES[-1]
    left = free_bytes(gpu)
    used = None if gpu.free_bytes is None else gpu.total_bytes - gpu.free_bytes
    now = "" if used is None else f"; {units.gib(used)} in use now"
    over = left < 0
    rows.append(
        [
            (f" {'!' if over else free.glyph} ", "bad" if over else free.style),
            (f"{'over' if over else free.name:<{_NAME_CELLS}}", ""),
            (f"{units.gib(abs(left), 2):>6}", "bad" if over else "bold"),
            (now, "dim"),
        ]
    )
    return rows


def signed_tokens(count: int) -> str:
    """``+361,729`` or ``-12,288``."""
    return f"{count:+,}"


def brief_rows(forecast: Forecast, width: int) -> list[Row]:
    """Verdict and pool without bars: what there is to say where no GPU is filled."""
    rows = verdict_rows(forecast, width)
    kv = forecast.kv
    if kv is not None:
        pool = f": {units.tokens(kv.capacity_tokens)} tokens, {concurrency(kv.max_concurrency)} at full context"
        rows[-1] = [*rows[-1], (pool, "")]
    return rows


def pool_rows(forecast: Forecast) -> list[Row]:
    """Tokens, requests at full context, headroom and error of the KV pool."""
    rows: list[Row] = []
    kv = forecast.kv
    if kv is not None:
        error = forecast.error_tokens
        band = "" if error is None else f" ±{units.tokens(error)}"
        rows.append([_name("pool"), (f"{units.tokens(kv.capacity_tokens)}", "bold"), (f"{band} tokens", "")])
        rows.append([_name("requests"), (concurrency(kv.max_concurrency), "bold"), (" at full context", "")])
    if forecast.headroom_tokens is not None:
        share = "" if forecast.headroom_fraction is None else f" ({units.percent(forecast.headroom_fraction)})"
        style = "bold" if forecast.headroom_tokens >= 0 else "bad"
        rows.append([_name("headroom"), (signed_tokens(forecast.headroom_tokens), style), (f" tokens{share}", "")])
    if forecast.fits in ("no", "tight") and forecast.largest_max_model_len:
        longest = units.tokens(forecast.largest_max_model_len)
        rows.append([_name("longest"), (longest, "bold"), (" tokens fit", "")])
    if forecast.error_bytes is not None:
        basis, each = f", {forecast.basis}" if forecast.basis else "", "/GPU" if forecast.per_gpu else ""
        rows.append([_name("error"), (f"±{units.gib(forecast.error_bytes, 2)} GiB{each}{basis}", "")])
    return rows


def _name(text: str) -> tuple[str, str]:
    return f" {text:<9} ", "dim"


def learned_rows(forecast: Forecast, width: int) -> list[Row]:
    """Which boot the forecast was corrected by."""
    learned = forecast.learned_from
    if learned is None:
        return []
    when = time.strftime("%m-%d %H:%M", time.localtime(learned.at))
    text = f" learned from the boot of {when}"
    if len(text) > width:
        text = f" learned from boot of {when}"
    rows: list[Row] = [[(text, "dim")]]
    if not learned.exact:
        rows.append([(f"   of {learned.slug}, with other flags", "dim")])
    return rows


def forecast_rows(forecast: Forecast, width: int, keymap: Keymap) -> list[Row]:
    """The whole forecast for a column of ``width`` cells."""
    rows = [*verdict_rows(forecast, width), *change_rows(forecast.changes, width, keymap)]
    if forecast.per_gpu:
        rows += bar_rows(forecast.per_gpu, width)
        least = tightest(forecast.per_gpu)
        if len({_alike(gpu) for gpu in forecast.per_gpu}) > 1:
            rows.append([(f" GPU{least.gpu}, the tightest:", "dim")])
        rows += legend_rows(least)
    rows += [*pool_rows(forecast), *learned_rows(forecast, width)]
    return [line for row in rows for line in wrap(row, width)]
