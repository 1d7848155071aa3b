"""Overlays in a plan: folders with a vLLM plugin that the server finds through PYTHONPATH, and only when needed."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from cockpit.launch.draft import Draft
from cockpit.rules.context import Context
from cockpit.rules.finding import Finding
from cockpit.rules.overlays import (
    AUTOROUND_INT8,
    CPU_AMX,
    QUANTIZED_EMBEDDING,
    amx_findings,
    needs_amx_overlay,
    needs_embedding_overlay,
    needs_int8_overlay,
    overlay_state,
    path_findings,
)

FOLDER = Path(__file__).with_name("overlays")
_COMMON = "common"
_FORCE = "COCKPIT_OVERLAY_FORCE"


class Overlay(msgspec.Struct, frozen=True, kw_only=True):
    """One folder below ``overlays``."""

    id: str
    folder: str
    plugin: str
    """Name of its entry point, by which VLLM_PLUGINS filters."""
    env: dict[str, str] = {}
    """What switches it on, unless a toggle does already."""


OVERLAYS = {
    AUTOROUND_INT8: Overlay(id=AUTOROUND_INT8, folder="autoround_int8", plugin="cockpit_autoround_int8"),
    QUANTIZED_EMBEDDING: Overlay(
        id=QUANTIZED_EMBEDDING,
        folder="quantized_embedding",
        plugin="cockpit_quantized_embedding",
        env={"COCKPIT_QUANTIZED_EMBEDDING": "1"},
    ),
    CPU_AMX: Overlay(id=CPU_AMX, folder="cpu_amx", plugin="cockpit_cpu_amx", env={"COCKPIT_CPU_AMX": "1"}),
}


def needed(ctx: Context, int8: bool) -> tuple[str, ...]:
    """Ids of the overlays that the plan needs; ``int8`` says whether its switch is set."""
    found = []
    if int8 and needs_int8_overlay(ctx):
        found.append(AUTOROUND_INT8)
    if needs_embedding_overlay(ctx):
        found.append(QUANTIZED_EMBEDDING)
    if needs_amx_overlay(ctx):
        found.append(CPU_AMX)
    return tuple(found)


def apply_overlays(draft: Draft, ctx: Context, ids: tuple[str, ...], caller: dict[str, str]) -> None:
    """Bring the overlays into the server's environment, in front of what is there already; none changes nothing."""
    if not ids:
        return
    chosen = [OVERLAYS[name] for name in ids]
    folders = [str(FOLDER / name) for name in (*(overlay.folder for overlay in chosen), _COMMON)]
    draft.env("PYTHONPATH", _joined(folders, draft.value("PYTHONPATH", caller), os.pathsep))
    allowed = draft.value("VLLM_PLUGINS", caller)
    if allowed is not None:
        # Set, it names the only plugins that vLLM loads.
        draft.env("VLLM_PLUGINS", _joined([overlay.plugin for overlay in chosen], allowed, ","))
    for overlay in chosen:
        for name, text in overlay.env.items():
            draft.env(name, text)
    states = [overlay_state(ctx, name) for name in ids]
    if any(state is not None and state.state == "unsupported" for state in states):
        # Such a plan is refused unless the user forces it.
        draft.env(_FORCE, "1")


def overlay_findings(ctx: Context, ids: tuple[str, ...]) -> tuple[Finding, ...]:
    """What stands against bringing the overlays along, whichever they are, and why there is one unasked."""
    return (*path_findings(ctx, ids, str(FOLDER)), *amx_findings(ctx))


def _joined(ours: list[str], theirs: str | None, separator: str) -> str:
    return separator.join([*ours, *([theirs] if theirs else [])])
