"""Which overlays a plan needs: patches of a stock vLLM that the cockpit brings along, each for one of its faults."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from cockpit.rig.types import OverlayState
from cockpit.rules.context import Context
from cockpit.rules.finding import Finding, Level, Severity

AUTOROUND_INT8 = "autoround-int8"
QUANTIZED_EMBEDDING = "quantized-embedding"
CPU_AMX = "cpu-amx"


def overlay_state(ctx: Context, overlay: str) -> OverlayState | None:
    """Whether the overlay fits the plan's vLLM; None while that is not known."""
    return None if ctx.engine is None else ctx.engine.overlays.get(overlay)


def embedding_packing(ctx: Context) -> str | None:
    """Quantization method of a packed embed_tokens that Qwen3.5's code has to read and, as far as is known, does not;
    None when there is none."""
    checkpoint, engine = ctx.checkpoint, ctx.engine
    bits = ctx.slug.weights.embedding_bits if checkpoint is None else checkpoint.quantization.embed_tokens_bits
    concerned = checkpoint is None or checkpoint.architecture.startswith("Qwen3_5")
    read = engine is not None and engine.quantized_embedding
    if ctx.slug.platform != "cuda" or not concerned or read or bits is None or bits >= 16:
        return None
    return ctx.slug.weights.format if checkpoint is None else checkpoint.quantization.method


def needs_embedding_overlay(ctx: Context) -> bool:
    """Whether the overlay lets this vLLM read a packed embedding: it acts on compressed-tensors checkpoints only."""
    return embedding_packing(ctx) == "compressed-tensors"


def needs_amx_overlay(ctx: Context) -> bool:
    """Whether vLLM's CPU build would use AMX tiles of this host, which nothing in it asks the kernel for."""
    return ctx.slug.platform == "cpu" and ctx.host is not None and ctx.host.amx and ctx.rig.described is None


def amx_findings(ctx: Context) -> Iterator[Finding]:
    """Why the command holds an overlay that nobody switched on."""
    if needs_amx_overlay(ctx):
        yield Finding(
            rule="cpu-amx",
            severity="note",
            subject="engine",
            message="this processor has AMX, which vLLM's CPU build uses without asking Linux for it and dies of at "
            f"its first request: the command loads the overlay {CPU_AMX}, which asks",
        )


def needs_int8_overlay(ctx: Context) -> bool:
    """Whether int8 activations that are on need the overlay: a vLLM that hands the switch on may still have the other
    fault, which lies in compiled code."""
    state = overlay_state(ctx, AUTOROUND_INT8)
    return ctx.slug.platform == "cuda" and (state is None or state.state != "needless")


def unchecked(ctx: Context, overlay: str, fault: str) -> tuple[str, str]:
    """The message and fix about an overlay that is in the command while nobody knows whether it fits."""
    when = "as soon as a vLLM is found, and at its boot" if ctx.engine is None else "at the boot"
    message = f"{fault}: the command loads the overlay {overlay} for that, and whether it fits is checked {when}"
    return message, "Where it does not fit, the boot ends with the reason."


def overlay_finding(ctx: Context, overlay: str, subject: str, rule: str, fault: str) -> Finding:
    """One finding about an overlay that a plan needs: that it fits, that it does not, or that nobody knows."""
    state = overlay_state(ctx, overlay)
    severity: Severity = "warn"
    level: Level = "checkpoint"
    message, fix = unchecked(ctx, overlay, fault)
    if state is not None and state.state == "available":
        severity, fix = "note", "Nothing is to be done: it is loaded with the server."
        message = f"needs overlay ✓ {overlay} fits {state.reason}: {fault}"
    elif state is not None:
        severity, level = "block", "rig"
        message = f"{fault}, and the overlay {overlay} does not fit: {state.reason}"
        fix = "Use a vLLM that carries the fix, or one that the overlay fits: `cockpit engines --json`."
    return Finding(rule=rule, severity=severity, subject=subject, message=message, fix=fix, level=level)


def path_findings(ctx: Context, overlays: Sequence[str], folder: str) -> Iterator[Finding]:
    """PYTHONPATH has no way to quote its separator: below a folder with one in its name no overlay is found."""
    if not overlays or os.pathsep not in folder or ctx.rig.described is not None:
        return
    without = "set int8=off" if overlays == (AUTOROUND_INT8,) else "use a vLLM that needs no overlay"
    yield Finding(
        rule="overlay-path",
        severity="block",
        subject="engine",
        message=f"the server could not find the overlay {' and '.join(overlays)}: the cockpit is installed in "
        f"{folder}, and PYTHONPATH ends a folder at each {os.pathsep!r}",
        fix=f"Install the cockpit in a folder without {os.pathsep!r} in its path, or {without}.",
        level="usage",
    )
