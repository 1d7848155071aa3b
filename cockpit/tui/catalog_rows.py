"""Catalog entries as table cells and as detail text. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from cockpit import units
from cockpit.catalog.load import Entry, Problem
from cockpit.catalog.quality import quality_key, quality_text
from cockpit.catalog.slug import Speculative
from cockpit.launch.toggles import BY_ID
from cockpit.tui.content import Row

if TYPE_CHECKING:
    from cockpit.launch.best import Candidate
    from cockpit.rules.finding import ToggleState
    from cockpit.telemetry.frame import State

STATE_CELLS: dict[str, tuple[str, str]] = {
    "ready": ("● ready", "good"),
    "starting": ("◐ starting", "warn"),
    "stopping": ("◌ stopping", "warn"),
    "dead": ("✕ dead", "bad"),
    "foreign": ("◇ foreign", ""),
    "idle": ("○", "dim"),
    "broken": ("✕ broken", "bad"),
}
"""Glyph and word, so that colour is never the only signal."""

_DRAFT_CELLS, _FIT_CELLS = 6, 20
COLUMNS: tuple[tuple[str, str, int, int], ...] = (
    ("state", "state", 10, 0),
    ("slug", "slug", 27, 0),
    ("weights", "weights", 16, 0),
    ("bpw", " bpw", 4, 110),
    ("size", "  GiB", 5, 110),
    ("tp", "TP", 2, 100),
    ("context", "context", 9, 90),
    ("kv", "KV", 6, 120),
    ("draft", "draft", _DRAFT_CELLS, 120),
    ("int8", "int8", 4, 96),
    ("fits", "fits", _FIT_CELLS, 0),
)
"""Key, title, width in cells, and the narrowest terminal that shows it."""

BY_FITS = "fits, quality"
SORTS = ("name", BY_FITS, "size", "context")
_FIT_STYLES = {"yes": "good", "tight": "warn", "no": "bad", "unknown": "dim"}


def visible_columns(width: int) -> list[tuple[str, str, int]]:
    """The columns for a terminal of ``width`` cells."""
    return [(key, title, cells) for key, title, cells, needs in COLUMNS if width >= needs]


def fit_cell(judged: Candidate | None) -> tuple[str, str]:
    """Whether it fits; dots until that is computed."""
    if judged is None:
        return "…", "dim"
    from cockpit.launch.slug_fit import fit_text

    style = "bad" if judged.declared.blocked is not None else _FIT_STYLES[judged.declared.fits]
    return fit_text(judged.declared, _FIT_CELLS), style


def cells(
    entry: Entry, state: State | None, int8: tuple[ToggleState, str] | None, judged: Candidate | None
) -> dict[str, tuple[str, str]]:
    """Text and style of every cell of one slug, by column key; ``int8`` is None until the rig is known."""
    slug, weights = entry.slug, entry.slug.weights
    bpw = units.UNKNOWN if weights.bits_per_weight is None else f"{weights.bits_per_weight:.1f}"
    return {
        "state": STATE_CELLS[state or "idle"],
        "slug": (slug.name, "bold"),
        "weights": (weights.label, ""),
        "bpw": (f"{bpw:>4}", ""),
        "size": (f"{units.gib(weights.size_bytes):>5}", ""),
        "tp": (f"{slug.tensor_parallel:>2}", ""),
        "context": (f"{units.tokens(slug.max_model_len):>9}", ""),
        "kv": (slug.kv_cache_dtype.removesuffix("_e4m3"), ""),
        "draft": (_draft_text(slug.speculative), ""),
        "int8": _int8_cell(int8),
        "fits": fit_cell(judged),
    }


def _draft_text(draft: Speculative | None) -> str:
    """``mtp 3``; the method alone where both have no room."""
    if draft is None:
        return units.UNKNOWN
    texts = (f"{draft.method} {draft.tokens}", f"{draft.method}{draft.tokens}")
    return next((text for text in texts if len(text) <= _DRAFT_CELLS), draft.method)


def _int8_cell(int8: tuple[ToggleState, str] | None) -> tuple[str, str]:
    if int8 is None:
        return "…", "dim"
    state, value = int8
    text = value if state.state == "offered" else units.UNKNOWN
    return text, "good" if text == "on" else ""


def problem_cells(problem: Problem) -> dict[str, tuple[str, str]]:
    """Cells of a slug file that cannot be used."""
    blank = {key: ("", "") for key, *_ in COLUMNS}
    return {**blank, "state": STATE_CELLS["broken"], "slug": (problem.name, "bad")}


def problem_rows(problem: Problem) -> list[Row]:
    """What is wrong in a slug file, and the keys that lead out of it."""
    fix = "" if problem.fix.endswith(" the command again.") else problem.fix  # advice for the shell
    said = " ".join(filter(None, (f"{problem.title}.", problem.detail, fix)))
    return [[(f" {said}", "")], [(" e edits the file, r reads it again.", "dim")]]


def detail_rows(entry: Entry, states: dict[str, ToggleState], judged: Candidate | None) -> list[Row]:
    """The detail pane: what it is, whether it fits, its quality, every blocked toggle with its reason."""
    slug, weights = entry.slug, entry.slug.weights
    size = "" if weights.size_bytes is None else f" · {units.gib(weights.size_bytes)} GiB"
    bpw = "" if weights.bits_per_weight is None else f" · {weights.bits_per_weight:g} bits a weight"
    kind = "mixture of experts" if weights.moe else "dense"
    rows: list[Row] = [
        [(" ", ""), (slug.model, "title"), (f" · {kind} · {weights.label}{size}{bpw}", "")],
    ]
    if slug.description:
        rows.append([(f" {slug.description}", "")])
    if judged is not None:
        rows += _fit_rows(judged)
    if slug.quality is not None:
        rows.append([(f" {'quality':<16}", "dim"), (quality_text(slug), ""), (f" ({slug.quality.source})", "dim")])
    rows += _blocked_rows(states)
    rows.append([(f" {entry.model_source}", "dim")])
    if slug.aliases:
        rows.append([(f" also {', '.join(slug.aliases)}", "dim")])
    return rows


def _blocked_rows(states: dict[str, ToggleState]) -> list[Row]:
    """Every blocked toggle with its reason; those that one thing blocks stand in one line."""
    reasons: dict[str, list[tuple[str, str]]] = {}
    for name, state in states.items():
        if state.state == "blocked":
            reason = state.reason or ""
            reasons.setdefault(reason.partition(":")[0], []).append((BY_ID[name].label, reason))
    rows: list[Row] = []
    for found in reasons.values():
        labels, reason = ", ".join(label for label, _ in found), found[0][1]
        head = f" {labels:<16}" if len(found) == 1 else f" {labels} "
        rows.append([(head, "warn"), (f"blocked: {reason}", "")])
    return rows


def _fit_rows(judged: Candidate) -> list[Row]:
    from cockpit.launch.slug_fit import fit_sentence

    fit, sentence = judged.declared, fit_sentence(judged.declared)
    rows: list[Row] = [[(f" {'memory':<16}", _FIT_STYLES[fit.fits]), (sentence, "")]]
    said = [sentence, fit_sentence(judged.fit)]
    if fit.blocked is not None and fit.needs_gpus is None:
        message = fit.blocked.message.rstrip(".")
        rows.insert(0, [(f" {'blocked':<16}", "bad"), (message, "")])
        said.append(message)
    if judged.why not in said:
        rows.append([(f" {'':<16}", ""), (judged.why, "dim")])
    return rows


def sort_entries(entries: Iterable[Entry], order: str, judged: Mapping[str, Candidate]) -> list[Entry]:
    """By name, by size (smallest first, unknown last), by context (longest first), or the best that fits a model."""
    if order == BY_FITS:
        return _by_fits(list(entries), judged)
    if order == "size":
        return sorted(entries, key=lambda entry: (entry.slug.weights.size_gib or float("inf"), entry.slug.name))
    if order == "context":
        return sorted(entries, key=lambda entry: (-entry.slug.max_model_len, entry.slug.name))
    return sorted(entries, key=lambda entry: entry.slug.name)


def _by_fits(entries: list[Entry], judged: Mapping[str, Candidate]) -> list[Entry]:
    """Model by model, those first of which anything can start and fits; within one as `cockpit best` ranks; what is
    blocked after that, the unknown last."""
    from cockpit.launch.best import rank_key

    def rank(entry: Entry) -> tuple[Any, ...]:
        candidate = judged.get(entry.slug.name)
        if candidate is None:
            return 2, 0, quality_key(entry.slug)
        return int(candidate.declared.blocked is not None), *rank_key(candidate)

    best: dict[str, tuple[Any, ...]] = {}
    for entry in entries:
        here = rank(entry)[:2]
        best[entry.slug.model] = min(best.get(entry.slug.model, here), here)
    return sorted(entries, key=lambda entry: (best[entry.slug.model], entry.slug.model, rank(entry)))
