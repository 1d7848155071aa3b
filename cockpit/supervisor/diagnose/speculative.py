"""Draft models that do not fit the model or the engine."""

from __future__ import annotations

from cockpit.supervisor.diagnose.types import Evidence, Fix, Symptom
from cockpit.supervisor.diagnose.words import do, no_draft, say

_PAGES = say("The draft's KV layout does not go together with the hybrid model's: their pages have different sizes.")


def _other_draft(_: Evidence) -> list[Fix]:
    return [
        Fix(text="Serve without this draft.", set={"speculative_tokens": 0}),
        Fix(text="Or use the model's own MTP layers (method mtp)."),
    ]


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        id="dflash-no-module",
        patterns=(
            r"There is no module or parameter named '(?P<name>[^']+)' in (?P<model>\w*"
            r"(?:DFlash|Eagle|MTP|Draft|Medusa|DSpark)\w*)",
        ),
        versions="0.26 to 0.33",
        explain=say(
            "The draft model has {name}, for which this vLLM's {model} has no place: the draft is newer "
            "than the engine.",
            "The draft model has a layer that this vLLM has no place for: the draft is newer than the engine.",
        ),
        fixes=lambda seen: [
            Fix(text="Use a vLLM release that knows this draft, or the model's own MTP layers (method mtp)."),
            *no_draft(seen),
        ],
    ),
    Symptom(
        id="dflash-hybrid-page",
        patterns=(r"^(?:AssertionError|NotImplementedError)\b",),
        frames=r":(?:unify_kv_cache_spec_page_size|_resolve_layer_attention|unify_hybrid_kv_cache_specs)$",
        versions="0.20 to 0.33",
        explain=_PAGES,
        fixes=_other_draft,
    ),
    Symptom(
        id="dflash-hybrid-page",
        patterns=(r"unify_kv_cache_spec_page_size", r"\bqwen3_dflash\.py\b"),
        versions="0.20 to 0.33",
        explain=_PAGES,
        fixes=_other_draft,
    ),
    Symptom(
        id="draft-mismatch",
        patterns=(
            r"architectures \['\w*(?:Eagle|Medusa|DFlash|Draft|Speculator|MLPSpec)\w*'\] are not supported",
            r"[Dd]raft model .{0,120}(?:vocab|mismatch|does not match|must)",
            r"[Ss]peculative (?:decoding|method|config)[^\n]{0,80}(?:not supported|not "
            r"(?:valid|compatible)|unsupported|does not support)",
            r"[Uu]nsupported speculative (?:method|decoding)",
        ),
        versions="any",
        explain=say("The draft does not fit the model or this vLLM's speculative decoding."),
        fixes=do(
            Fix(text="Serve without the draft.", set={"speculative_tokens": 0}),
            "Or use the draft that the model's card names.",
        ),
    ),
)
