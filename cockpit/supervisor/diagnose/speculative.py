"""Draft models that do not fit the model or the engine."""

from __future__ import annotations

from cockpit.supervisor.diagnose.settings import in_use
from cockpit.supervisor.diagnose.types import Evidence, Fix, Symptom
from cockpit.supervisor.diagnose.words import do, no_draft, say

_PAGES = say("The draft's KV layout does not go together with the hybrid model's: their pages have different sizes.")


def _other_draft(_: Evidence) -> list[Fix]:
    return [
        Fix(text="Serve without this draft.", set={"speculative_tokens": 0}),
        Fix(text="Or use the model's own MTP layers (method mtp)."),
    ]


def _plain_kv(seen: Evidence) -> list[Fix]:
    now = str(seen.arguments.get("kv_cache_dtype") or "auto")
    return [] if now == "auto" else [Fix(text="Let the model choose the KV type.", set={"kv_cache_dtype": "auto"})]


_NO_TOKENS = say("The command asks for a draft, and does not say how many tokens it shall draft.")
_SOME_TOKENS = do(
    Fix(text="Draft one token a step.", set={"speculative_tokens": 1}),
    "Or add num_speculative_tokens to --speculative-config.",
)


def _depth(seen: Evidence) -> str:
    step, most = seen.groups.get("step"), seen.groups.get("most")
    if step is None and most is None:
        return "The draft does not draft the number of tokens that the command asks for."
    if step is not None:
        return f"The draft's layers draft {step} tokens at a time: {seen.groups['tokens']} is no multiple of it."
    return (
        f"This draft drafts {most} token{'' if most == '1' else 's'} a step, and the command asks for another number."
    )


def _depth_fixes(seen: Evidence) -> list[Fix]:
    step, asked = seen.number("step"), seen.number("tokens")
    wanted = seen.number("most") if not step else (max(int((asked or step) // step), 1) * step)
    fixes = [Fix(text=f"Draft {int(wanted)}.", set={"speculative_tokens": int(wanted)})] if wanted else []
    return [*fixes, *no_draft(seen)]


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
        id="draft-mismatch",
        patterns=(
            r"not initialized from\s+checkpoint: \{[^}\n]{0,200}(?:mtp|nextn|eagle|draft)",
            r"weights were not initialized from",
        ),
        when=lambda seen: "/spec_decode/" in seen.incident.modules or "mtp" in seen.incident.text,
        versions="0.8 to 0.33",
        explain=say("The checkpoint does not have all tensors of the draft that the command asks for (MTP, EAGLE)."),
        fixes=do(
            Fix(text="Serve without the draft.", set={"speculative_tokens": 0}),
            "Or use a checkpoint that keeps the MTP layers: many quantized and fine-tuned ones leave them out.",
        ),
    ),
    Symptom(
        id="dflash-hybrid-page",
        patterns=(r"^(?:AssertionError|NotImplementedError)\b",),
        frames=r":(?:unify_kv_cache_spec_page_size|_resolve_layer_attention|unify_hybrid_kv_cache_specs)$",
        when=lambda seen: in_use("speculative_tokens", seen) != 0,
        versions="0.20 to 0.33",
        explain=_PAGES,
        fixes=_other_draft,
    ),
    Symptom(
        id="kv-page-sizes",
        patterns=(r"Cannot unify by adjusting block_size", r"page size of the layer is not divisible by"),
        versions="0.11 to 0.33",
        explain=say(
            "The layers of this hybrid model, and of its draft, have KV pages of sizes that this vLLM cannot bring "
            "together."
        ),
        fixes=lambda seen: [
            *no_draft(seen),
            *_plain_kv(seen),
            Fix(text="Or upgrade vLLM."),
        ],
    ),
    Symptom(
        id="draft-tokens-missing",
        patterns=(
            r"num_speculative_tokens must be provided",
            r"`num_speculative_tokens` was not provided",
        ),
        versions="0.8 to 0.33",
        explain=_NO_TOKENS,
        fixes=_SOME_TOKENS,
    ),
    Symptom(
        id="draft-tokens-missing",
        patterns=(r"^TypeError: .*'NoneType' and 'int'", r"^TypeError: .*'int' and 'NoneType'"),
        frames=r"^speculative\.py:",
        versions="0.28 to 0.33",
        explain=_NO_TOKENS,
        fixes=_SOME_TOKENS,
    ),
    Symptom(
        id="draft-mismatch",
        patterns=(
            r"num_speculative_tokens: ?(?P<tokens>\d+) must be divisible by n_predict=(?P<step>\d+)",
            r"only supports? num_speculative_tokens ?=+ ?(?P<most>\d+)",
            r"requires num_speculative_tokens to (?:match|be) [^\n]{0,60}?\(?(?P<most>\d+)\)?(?:;|\.|$)",
        ),
        versions="0.8 to 0.33",
        explain=_depth,
        fixes=_depth_fixes,
    ),
    Symptom(
        id="draft-mismatch",
        patterns=(
            r"^AssertionError\b",
            r"^KeyError\b",
            r"The (?:size of tensor|expanded size of the tensor)",
            r"[Aa]ttempted to load weight",
            r"mat1 and mat2 shapes cannot be multiplied",
            r"size mismatch",
        ),
        frames=r"^\w*(?:eagle|medusa|dflash|dspark|mtp|draft)\w*\.py:",
        versions="0.8 to 0.33",
        explain=say("The draft does not fit the model or this vLLM: its tensors have other names or shapes."),
        fixes=do(
            Fix(text="Serve without the draft.", set={"speculative_tokens": 0}),
            "Or use the draft that the model's card names, with the vLLM release that it names.",
        ),
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
        patterns=(r"Speculative decoding with draft model is not supported yet",),
        versions="0.9 to 0.13",
        explain=say("This vLLM drafts with no model of its own: only with ngram, EAGLE, Medusa or the model's MTP."),
        fixes=do(
            "Upgrade vLLM: later releases draft with a smaller model again (method draft_model).",
            "Or give --speculative-config a method that this one has: ngram needs no second model.",
            Fix(text="Or serve without the draft.", set={"speculative_tokens": 0}),
        ),
    ),
    Symptom(
        id="draft-mismatch",
        patterns=(
            r"architectures \['\w*(?:Eagle|Medusa|DFlash|Draft|Speculator|MLPSpec)\w*'\] are not supported",
            r"[Dd]raft model .{0,120}(?:vocab|mismatch|does not match|must)",
            r"[Ss]peculative (?:decoding|method|config)[^\n]{0,80}(?:not supported|not "
            r"(?:valid|compatible)|unsupported|does not support)",
            r"[Uu]nsupported speculative (?:method|decoding)",
            r"Target and draft model should have the same vocabulary size",
            r"does not support EAGLE3 interface",
            r"draft_tensor_parallel_size[^\n]{0,80}(?:must be the same|cannot be other)",
        ),
        versions="any",
        explain=say("The draft does not fit the model or this vLLM's speculative decoding."),
        fixes=do(
            Fix(text="Serve without the draft.", set={"speculative_tokens": 0}),
            "Or use the draft that the model's card names.",
        ),
    ),
)
