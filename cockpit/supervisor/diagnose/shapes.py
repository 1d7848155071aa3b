"""Shapes, types and indices that a kernel was not made for, or was given by mistake."""

from __future__ import annotations

from cockpit.supervisor.diagnose.types import Evidence, Fix, Symptom
from cockpit.supervisor.diagnose.words import added, do, joined, no_draft, say, without

_PACKED = r"(?:signed char|unsigned char|Char|Byte|Float8\w*|Int|int)\b"


def _own_context(seen: Evidence) -> list[Fix]:
    name = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"
    longer = seen.arguments.environment.get(name) is not None
    return [Fix(text="Keep the context within the model's own.", env={name: None})] if longer else []


def _fewer_ranks(seen: Evidence) -> list[Fix]:
    ranks = int(seen.arguments.number("tensor_parallel_size") or 1)
    if ranks < 2:
        return []
    return [Fix(text=f"Split it over {ranks // 2} GPUs.", set={"tensor_parallel": ranks // 2})]


def _other_kernel(seen: Evidence) -> list[Fix]:
    named = [without("moe_backend", " and let vLLM choose"), without("linear_backend", " and let vLLM choose")]
    return [*named, Fix(text="Or choose kernels that take any width: --moe-backend triton, --linear-backend triton.")]


def _whole_experts(seen: Evidence) -> list[Fix]:
    ranks = int(seen.arguments.number("tensor_parallel_size") or 1)
    return (
        [added("enable_expert_parallel", "Or add --enable-expert-parallel: experts stay whole.")] if ranks > 1 else []
    )


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        id="index-out-of-range",
        patterns=(
            r"Assertion `(?:-?srcIndex < srcSelectDimSize|-sizes\[i\] <= index|idx_dim >= 0 && idx_dim < index_size"
            r"|ind >= 0 && ind < ind_dim_size|t >= 0 && t < n_classes)",
            r"vectorized_gather_kernel[^\n]{0,120}Assertion",
        ),
        versions="any",
        explain=say(
            "A token or a position lies beyond the model's tables: token ids of another tokenizer (added tokens, ids "
            "sent in a request), or a context beyond the model's positions."
        ),
        fixes=joined(
            do(
                without("tokenizer", ": the checkpoint's own goes with its embeddings"),
                "Check that the tokenizer is the model's: its ids must stay below vocab_size of config.json, and so "
                "must the ids that clients send.",
            ),
            _own_context,
            no_draft,
        ),
    ),
    Symptom(
        id="index-out-of-range",
        patterns=(r"device-side assert triggered",),
        frames=r":(?:_merge_multimodal_embeddings|embed_input_ids|get_input_embeddings|embed_multimodal)$",
        versions="0.6 to 0.33",
        explain=say(
            "A token lies beyond the model's embeddings, or the prompt has not as many places for images as "
            "the processor made: tokenizer, processor and model are not of one release."
        ),
        fixes=do(
            "Take the tokenizer's and the processor's files from the original model, of the same release.",
            "Install the transformers that this vLLM asks for (`pip check`).",
        ),
    ),
    Symptom(
        id="weights-not-unpacked",
        patterns=(r"Hidden size mismatch (?P<a>\d+) != (?P<b>\d+)",),
        versions="0.8 to 0.33",
        explain=say(
            "The experts' weights are {b} wide and the model {a}: they are packed, and the chosen kernel takes them "
            "as they are.",
            "The experts' weights are packed, and the chosen kernel takes them as they are.",
        ),
        fixes=do(
            without("moe_backend", " and let vLLM choose"),
            "Upgrade vLLM, or use the experts in a format that its card names for this GPU.",
        ),
    ),
    Symptom(
        id="weights-not-unpacked",
        patterns=(
            rf"same dtype, but got: (?:c10::)?(?:B?Float16|BFloat16|Half|float) != (?:c10::)?{_PACKED}",
            rf"same dtype, but got: (?:c10::)?{_PACKED} != (?:c10::)?(?:BFloat16|Half|float)",
        ),
        versions="any",
        explain=say(
            "A layer has packed weights (8 bits or fewer), and vLLM computes with it as if it were not quantized: "
            "the checkpoint's config does not name that layer, or this vLLM's model class does not read it so."
        ),
        fixes=do(
            "Use a newer vLLM, or another export of the checkpoint.",
            without("quantization", ": what config.json names counts"),
        ),
    ),
    Symptom(
        id="dtype-mixed",
        patterns=(
            r"same dtype, but got: (?:c10::)?(?:BFloat16|Half|float) != (?:c10::)?(?:BFloat16|Half|float)",
            r"expected scalar type (?:Half|BFloat16|Float) but found (?:Half|BFloat16|Float)",
            r"Input type \([\w:.]+\) and (?:bias|weight) type \([\w:.]+\) should be the same",
        ),
        versions="any",
        explain=say(
            "Two parts of the model compute in different types: a part of this vLLM's class does not follow --dtype."
        ),
        fixes=do(
            without("dtype", ": the type of the checkpoint is the one that was tried"),
            "Or give the other one: --dtype bfloat16, or --dtype half.",
            "Or upgrade vLLM.",
        ),
    ),
    Symptom(
        id="kernel-shape",
        patterns=(
            r"no (?:\w+ )?kernel (?:\w+ )?for (?:this|the) (?:shape|problem|configuration)",
            r"(?:Unsupported|Invalid) (?:head|hidden|top_?k|num_heads)\w*[^\n]{0,60} for (?:this|the) kernel",
        ),
        versions="any",
        explain=say("The library has no kernel for the shape that this model has on each GPU."),
        fixes=joined(
            do("Upgrade vLLM, and the kernel library with it: shapes are added one by one."),
            lambda seen: [
                Fix(text="Or try another tensor parallel size: it changes the number of heads on each GPU."),
                without("attention_backend", " and let vLLM choose"),
            ],
        ),
    ),
    Symptom(
        id="kernel-divides",
        patterns=(
            r"\b[KNM] must be divisible by (?:block|tile)\w*",
            r"(?:intermediate|hidden)_?size\w* (?:must be|is not|should be) (?:divisible by|a multiple of)",
        ),
        frames=r"^(?:\w*moe\w*|unquantized|\w*gemm\w*|\w*experts\w*)\.py:|:convert_to_block_layout$",
        versions="0.8 to 0.33",
        explain=say("A part's share on each GPU is no multiple of what the chosen kernel works in."),
        fixes=joined(_fewer_ranks, _other_kernel, _whole_experts),
    ),
    Symptom(
        id="kernel-divides",
        patterns=(r"^AssertionError\s*$",),
        frames=r"^fused_moe\.py:(?:invoke_\w+|fused_experts\w*)$",
        when=lambda seen: (seen.arguments.number("tensor_parallel_size") or 1) > 1,
        versions="0.5 to 0.33",
        explain=say(
            "The experts' kernel refuses their shape without a word: most likely a GPU's share of an expert is no "
            "whole number of quantization groups."
        ),
        fixes=joined(_fewer_ranks, _whole_experts, do("Or use a checkpoint with smaller groups.")),
    ),
    Symptom(
        id="mamba-states",
        patterns=(r"shape mismatch: value tensor", r"cannot be broadcast to indexing result", r"index out of range"),
        frames=r"mamba|gdn|linear_attn|short_conv",
        versions="0.10 to 0.33",
        explain=say(
            "The states of a hybrid model were looked for where they are not: their blocks and those of the "
            "attention do not go together as they were set."
        ),
        fixes=lambda seen: [
            without("mamba_block_size", ", so that vLLM chooses"),
            without("block_size", ", so that vLLM chooses"),
            *(
                [Fix(text="Or do without the prefix cache.", set={"prefix_caching": "off"})]
                if seen.arguments.get("enable_prefix_caching") is not False
                else []
            ),
            Fix(text="Or upgrade vLLM."),
        ],
    ),
)
