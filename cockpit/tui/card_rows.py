"""The serve card's text: toggles, command, findings. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from cockpit import units
from cockpit.catalog.load import Entry
from cockpit.launch.plan import Facts
from cockpit.launch.render import environment_words, shell_words
from cockpit.launch.toggles import TOGGLES, Toggle
from cockpit.launch.types import LaunchPlan
from cockpit.launch.verdict import VERDICTS
from cockpit.rules.finding import Finding, ToggleState
from cockpit.tui.content import Row, Segment, row_text
from cockpit.tui.forecast_rows import brief_rows
from cockpit.tui.keymap import Keymap, shown_key, toggle_key
from cockpit.tui.wrap import cut, wrap

if TYPE_CHECKING:
    from cockpit.fleet import InstanceView

_VALUE_WIDTH = 13
_WORDS = {"on": "ON", "off": "OFF"}
_GLYPHS: dict[str, Segment] = {"block": (" ✕ ", "bad"), "warn": (" ⚠ ", "warn"), "note": (" · ", "dim")}
_TOO_FEW_GPUS = ("gpu-missing", "gpu-index", "tensor-parallel-gpus")
TOLD_BY_FORECAST = ("kv-one-request", "kv-headroom", "memory-hardly-free")
"""Rules whose findings are the verdict of the forecast in other words."""


def offered(states: dict[str, ToggleState]) -> list[Toggle]:
    """The toggles that the card shows, in the table's order."""
    return [toggle for toggle in TOGGLES if toggle.id in states and states[toggle.id].state == "offered"]


def blocked(states: dict[str, ToggleState]) -> list[Toggle]:
    """The toggles whose key only says why not."""
    return [toggle for toggle in TOGGLES if toggle.id in states and states[toggle.id].state == "blocked"]


def _shown(toggle: Toggle, value: object) -> str:
    text = toggle.kind.show(value)
    return _WORDS.get(text, text)


def toggle_row(toggle: Toggle, key: str, value: object, default: object, marked: bool, width: int) -> Row:
    """``▸ [a] int8 acts        ON           was OFF; prefill about …``, as many clauses of it as ``width`` holds.

    ``key`` is the one in force. What has no room stands in `effect_row`.
    """
    shown, before = _shown(toggle, value), _shown(toggle, default)
    row: Row = [
        (" ▸" if marked else "  ", "key"),
        (f"[{key}] ", "key"),
        (f"{toggle.label:<16}", "bold" if marked else ""),
        (f"{shown:<{_VALUE_WIDTH}} ", "bold" if shown == before else "good"),
    ]
    return [*row, (_clauses(_effect(toggle, value, default), width - len(row_text(row))), "dim")]


def _effect(toggle: Toggle, value: object, default: object) -> str:
    before = _shown(toggle, default)
    was = "" if _shown(toggle, value) == before else f"was {before}; "
    return was + toggle.effect(value)


def _clauses(text: str, width: int) -> str:
    """The text up to the last of its clauses that ends within ``width`` cells; nothing where the first does not."""
    ends = [match.start() for match in re.finditer(r"[;,:] |$", text)]
    return text[: max((end for end in ends if end <= width), default=0)]


def effect_row(toggle: Toggle, value: object, default: object) -> Row:
    """The marked toggle in words: `` int8 acts: was OFF; prefill about …``."""
    return [(f" {toggle.label}: ", "dim"), (_effect(toggle, value, default), "")]


def blocked_row(toggles: list[Toggle], keymap: Keymap) -> Row:
    """The keys that are not offered here."""
    names = " ".join(f"[{toggle_key(toggle, keymap)}] {toggle.label.split()[0]}" for toggle in toggles)
    return [("  not here: ", "dim"), (names, "dim"), (" · a key says why", "dim")]


def served_row(views: Iterable[InstanceView], slug: str, keymap: Keymap) -> Row | None:
    """That the slug is being served, and by which keys; None when it is not."""
    names = [view.record.name for view in views if view.record.slug == slug and view.state in ("starting", "ready")]
    if not names:
        return None
    start, stop = shown_key("card.start", "S", keymap).split()[0], shown_key("card.stop", "K", keymap)
    said = (
        f"{names[-1]} is being served: {stop} stops it, so that {start} starts it anew; {start} alone starts another"
    )
    return [(" ● ", "good"), (said, "")]


def command_rows(plan: LaunchPlan) -> list[Row]:
    """The exact command: environment first, then argv, for a widget that wraps."""
    environment = " ".join(environment_words(plan))
    command, *rest = shell_words(plan)
    rows: list[Row] = [[(" env ", "dim"), (environment, "dim")]] if environment else []
    rows.append([(" ", ""), (command, "bold"), (" " + " ".join(rest), "")])
    return rows


def findings_rows(findings: tuple[Finding, ...]) -> list[Row]:
    """One line a finding, blocks first; none is one line too."""
    if not findings:
        return [[(" ✓ nothing stands against it", "good")]]
    return [[_GLYPHS[one.severity], (f"{one.message.rstrip('.')}. {one.fix}", "")] for one in findings]


def unfit_rows(plan: LaunchPlan, width: int) -> list[Row]:
    """The verdict where it has no column; none where a finding says that there are too few GPUs."""
    too_few = any(one.rule in _TOO_FEW_GPUS and one.severity == "block" for one in plan.findings)
    return [] if plan.forecast is None or too_few else brief_rows(plan.forecast, width)


def _without_the_forecasts(plan: LaunchPlan) -> tuple[list[Row], list[Row]]:
    """One row for all that a forecast of GPUs says itself, in whole words there; and the other findings."""
    told = [one for one in plan.findings if one.rule in TOLD_BY_FORECAST]
    rest = [one for one in plan.findings if one not in told]
    if plan.forecast is None or not plan.forecast.per_gpu or not told:
        return [], findings_rows(plan.findings)
    digits = ", and its digits what would fit" if plan.forecast.changes else ""
    text = f"{VERDICTS[plan.forecast.fits][1]}: the forecast says why{digits}"
    return [[_GLYPHS[told[0].severity], (text, "")]], findings_rows(tuple(rest)) if rest else []


def lower_rows(said: list[Row], plan: LaunchPlan, width: int, height: int, beside: bool = False) -> list[Row]:
    """What is said, findings and command; ``beside`` is whether the forecast has a column.

    Where they are more than ``height`` lines, warnings and notes have a line each above the command, so that it stays
    in sight, and all words of those that were cut below it.
    """
    pointer, findings = _without_the_forecasts(plan) if beside else ([], findings_rows(plan.findings))
    command = [_title("command", width), *command_rows(plan)]
    whole = [*said, *pointer, *findings, *command]
    if sum(len(wrap(row, width)) for row in whole) <= height:
        return whole
    brief = [row if row[0] == _GLYPHS["block"] else cut(row, width) for row in findings]
    more = [row for row, short in zip(findings, brief, strict=True) if short != row]
    return [*said, *pointer, *brief, *command, *([_title("findings", width), *more] if more else [])]


def _title(text: str, width: int) -> Row:
    return [(f"── {text} ", "title"), ("─" * max(0, width - len(text) - 4), "dim")]


def rig_rows(entry: Entry, facts: Facts) -> list[Row]:
    """What it would run on: engine, GPUs with free memory, host."""
    engine, rig = facts.engine, facts.rig
    rows: list[Row] = []
    if engine is not None:
        rows.append(
            [(" engine  ", "dim"), (f"vLLM {engine.version} {engine.platform}", "bold"), (f" ({engine.id})", "dim")]
        )
    else:
        rows.append([(" engine  ", "dim"), (facts.engine_problem or "none", "bad")])
    for gpu in rig.gpus:
        free = None if gpu.total_bytes is None or gpu.used_bytes is None else gpu.total_bytes - gpu.used_bytes
        rows.append(
            [
                (f" GPU{gpu.index}    ", "dim"),
                (gpu.name.removeprefix("NVIDIA ").removeprefix("GeForce "), ""),
                (f"  {units.gib(free)} of {units.gib(gpu.total_bytes)} GiB free", "bold"),
            ]
        )
    if not rig.gpus:
        rows.append([(" GPU     ", "dim"), (rig.gpu_problem or "none", "dim")])
        memory = f"{units.gib(rig.memory_available_bytes)} of {units.gib(rig.memory_total_bytes)} GiB free"
        rows.append([(" host    ", "dim"), (f"{rig.cpu_count} cores · {memory}", "")])
    size = entry.slug.weights.size_bytes
    rows.append([(" weights ", "dim"), (f"{units.gib(size)} GiB on disk" if size else "size not declared", "")])
    rows.append([(" model   ", "dim"), (entry.model_source, "")])
    return rows
