"""Which toggles a plan may use, each with its reason when not."""

from __future__ import annotations

from collections.abc import Callable

from cockpit.rules.context import Context
from cockpit.rules.finding import OFFERED, ToggleState
from cockpit.rules.int8 import int8_state


def _gpu_only(what: str) -> Callable[[Context], ToggleState]:
    def state(ctx: Context) -> ToggleState:
        if ctx.slug.platform != "cpu":
            return OFFERED
        return ToggleState(state="blocked", reason=f"the CPU build has no GPU: {what}", fix="Leave it as it is.")

    return state


def _speculative(ctx: Context) -> ToggleState:
    has_head = ctx.slug.weights.mtp if ctx.checkpoint is None else ctx.checkpoint.mtp_layers > 0
    spec = ctx.slug.speculative
    if has_head or (spec is not None and (spec.method != "mtp" or ctx.checkpoint is None)):
        return OFFERED
    if spec is not None:
        return ToggleState(
            state="blocked",
            reason="the slug drafts with MTP, and the checkpoint has no MTP head",
            fix="Take `speculative` out of the slug, or use a checkpoint that has kept its head.",
        )
    return ToggleState(
        state="blocked",
        reason="the slug names no draft and its checkpoint declares no MTP head",
        fix="Add `speculative: {method: …, tokens: …}` to the slug.",
    )


def _vision(ctx: Context) -> ToggleState:
    if ctx.slug.weights.vision if ctx.checkpoint is None else ctx.checkpoint.vision:
        return OFFERED
    return ToggleState(state="blocked", reason="the checkpoint has no vision tower", fix="Leave it as it is.")


GPU_ONLY = {
    "gpu_memory_utilization": "its KV pool is sized by VLLM_CPU_KVCACHE_SPACE in the slug's env",
    "gpus": "there is nothing to choose",
    "tensor_parallel": "it runs as one worker",
}
"""Toggles that the CPU build does not have, and why."""
STATES: dict[str, Callable[[Context], ToggleState]] = {
    "int8": int8_state,
    "speculative_tokens": _speculative,
    "vision": _vision,
    **{name: _gpu_only(why) for name, why in GPU_ONLY.items()},
}
"""Toggles that are not always allowed; one that is not listed is always offered."""


def toggle_state(toggle: str, ctx: Context) -> ToggleState:
    """Whether the toggle of that id may be used in this plan."""
    rule = STATES.get(toggle)
    return OFFERED if rule is None else rule(ctx)
