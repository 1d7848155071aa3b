"""What the command asks for and vLLM refuses."""

from __future__ import annotations

from cockpit.supervisor.diagnose.refusals import refused
from cockpit.supervisor.diagnose.settings import in_use
from cockpit.supervisor.diagnose.types import Evidence, Fix, Symptom
from cockpit.supervisor.diagnose.words import added, do, reason, say, without


def _ranks(seen: Evidence) -> list[int]:
    heads, now = seen.number("heads"), seen.number("ranks")
    if heads is None or now is None:
        return []
    return [ranks for ranks in (8, 4, 2, 1) if ranks < now and heads % ranks == 0]


def _divisor_fixes(seen: Evidence) -> list[Fix]:
    fitting = _ranks(seen)
    fixes = [
        Fix(
            text=f"Split it over {ranks} GPUs." if ranks > 1 else "Serve it from one GPU.",
            set={"tensor_parallel": ranks},
        )
        for ranks in fitting[:1]
    ]
    return [*fixes, Fix(text="An odd number of cards works with --pipeline-parallel-size instead.")]


def _expert_fixes(seen: Evidence) -> list[Fix]:
    experts, now = seen.number("experts"), seen.number("ranks")
    fitting = [ranks for ranks in (8, 4, 2) if experts and now and ranks < now and experts % ranks == 0]
    fixes = [Fix(text=f"Serve it from {ranks} GPUs.", set={"tensor_parallel": ranks}) for ranks in fitting[:1]]
    return [
        *fixes,
        without("enable_expert_parallel"),
        Fix(text="Or add redundant experts (--eplb-config) that fill the rest."),
    ]


def _gpu_fixes(seen: Evidence) -> list[Fix]:
    there = seen.number("there")
    fixes = []
    if there is not None and there >= 1:
        fixes.append(Fix(text=f"Split it over the {int(there)} that are there.", set={"tensor_parallel": int(there)}))
    return [*fixes, Fix(text="Check CUDA_VISIBLE_DEVICES, and `--gpus` of a container: they hide cards.")]


def _old_card_fixes(seen: Evidence) -> list[Fix]:
    if "FlashAttention" in seen.incident.text:
        return [without("attention_backend", " and let vLLM choose"), added("attention_backend=TRITON_ATTN")]
    if str(seen.arguments.get("dtype")).removeprefix("torch.") in ("half", "float16"):
        return [Fix(text="Part of the model asks for bfloat16 all the same: use a newer vLLM or card.")]
    return [added("dtype=half")]


def _batched_fixes(seen: Evidence) -> list[Fix]:
    least = seen.number("least")
    if least is not None:
        off = Fix(text="Or leave the vision part out if you only send text.", set={"vision": "off"})
        return [Fix(text=f"Start it with --max-num-batched-tokens {int(least)} or more."), off]
    block = seen.number("block")
    if block is not None:
        cached = Fix(text="Or do without the prefix cache of a hybrid model.", set={"prefix_caching": "off"})
        return [Fix(text=f"Start it with --max-num-batched-tokens {int(block)} or more."), cached]
    tokens = seen.number("tokens")
    if tokens is None or tokens < 1:
        return [Fix(text="Raise --max-num-batched-tokens or lower the sequences.")]
    return [
        Fix(text=f"Run at most {int(tokens)} requests at a time.", set={"max_num_seqs": int(tokens)}),
        without("max_num_batched_tokens"),
    ]


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        id="tp-divisibility",
        patterns=(
            r"number of attention heads \((?P<heads>\d+)\) must be divisible by\s+(?:the "
            r")?tensor[- ]parallel[- ]size\s+\((?P<ranks>\d+)\)",
            r"^AssertionError: (?P<heads>\d+) is not divisible by (?P<ranks>\d+)$",
            r"must be divisible by\s+(?:the )?tensor[- _]parallel",
            r"divisible by tensor-parallel size",
            r"must be divisible by\s+(?:the )?(?:tp[_ ]?size|TP)\b",
            r"num_(?:key_value_|attention_)?heads[^\n]{0,60}divisible",
        ),
        when=lambda seen: seen.number("ranks") not in (None, 1) or in_use("tensor_parallel", seen) != 1,
        versions="0.2 to 0.33",
        explain=say(
            "{heads} attention heads (or the layer's size) cannot be cut into {ranks} equal parts, one a GPU.",
            "The model's heads or layers cannot be cut into equal parts, one a GPU.",
        ),
        fixes=_divisor_fixes,
    ),
    Symptom(
        id="ep-divisibility",
        patterns=(
            r"n_physical_experts=(?P<experts>\d+) must be divisible by ep_size=(?P<ranks>\d+)",
            r"experts[^\n]{0,60} must be divisible by[^\n]{0,40}(?:ep_size|expert[- _]parallel)",
        ),
        versions="0.9 to 0.33",
        explain=say(
            "{experts} experts cannot be shared evenly by {ranks} GPUs.",
            "The experts cannot be shared evenly by the GPUs.",
        ),
        fixes=_expert_fixes,
    ),
    Symptom(
        id="config-file",
        patterns=(
            r"yaml\.(?:scanner|parser|constructor)\.\w+Error: (?P<what>[^\n]{1,120})",
            r"Config file must be of a yaml/yml type\. (?P<what>[^\n]{1,60})",
        ),
        versions="0.6 to 0.33",
        explain=say("The file of --config is no valid YAML: {what}.", "The file of --config is no valid YAML."),
        fixes=do(
            "Write it as YAML, in a file that ends in .yaml: flags stand there without dashes, one a line.",
            "Correct the line that the message names.",
        ),
    ),
    Symptom(
        id="load-format",
        patterns=(r"only pre-sharded checkpoints are currently supported",),
        versions="0.6 to 0.33",
        explain=say(
            "--load-format sharded_state reads weights that vLLM saved by rank, and the folder has plain ones."
        ),
        fixes=do(without("load_format", ": the plain loader reads them")),
    ),
    Symptom(
        id="flag-value",
        patterns=(r"dictionary update sequence element #\d+ has length \d+; 2 is required",),
        versions="0.6 to 0.33",
        explain=say("A flag that takes a JSON object got a text (--override-generation-config, --hf-overrides, …)."),
        fixes=do("Give it as one JSON object in single quotes: '{{\"temperature\": 0.6}}', quoted only once."),
    ),
    Symptom(
        id="load-format",
        patterns=(
            r"Load format `(?P<value>[^`\n]{1,60})` is not supported",
            r"[Uu]nknown load[_ ]format:? '?(?P<value>\w+)",
        ),
        versions="0.6 to 0.33",
        explain=say("This vLLM has no load format {value}.", "This vLLM has no such load format."),
        fixes=do(without("load_format", ": vLLM sees what the files are"), "Or use the plugin that brings it."),
    ),
    Symptom(
        id="microbatching",
        patterns=(r"Microbatching currently only supports",),
        versions="0.11 to 0.33",
        explain=say("--enable-dbo works with the experts' transfers of DeepEP or NIXL only, which were not chosen."),
        fixes=do(
            without("enable_dbo"),
            "Or install those kernels and name them: --all2all-backend deepep_low_latency.",
        ),
    ),
    Symptom(
        id="not-multimodal",
        patterns=(r"is only supported for multimodal models", r"The model is not multimodal"),
        versions="0.6 to 0.33",
        explain=say("The command limits images or videos, and this vLLM reads the model as text only."),
        fixes=do(
            without("limit_mm_per_prompt", ", and other flags for images"),
            "If the model does read images, its architecture is newer than this vLLM: upgrade it.",
        ),
    ),
    Symptom(
        id="too-few-gpus",
        patterns=(
            r"World size \((?P<wanted>\d+)\) is larger than the number of\s+available GPUs \((?P<there>\d+)\)",
            r"[Tt]he number of required (?:GPUs|worker)[^\n]{0,60}exceeds the total number of available",
            r"tensor[- _]parallel[- _]size[^\n]{0,60}(?:larger|greater|exceeds|more) than[^\n]{0,40}GPU",
            r"CUDA error: invalid device ordinal",
            r"local rank \d+ is out of bounds",
        ),
        versions="0.2 to 0.33",
        explain=say(
            "The command asks for {wanted} GPUs, and vLLM sees {there}.",
            "The command asks for more GPUs than vLLM sees.",
        ),
        fixes=_gpu_fixes,
    ),
    Symptom(
        id="batched-tokens",
        patterns=(
            r"max_num_batched_tokens \((?P<tokens>[\d,]+)\) (?:must be greater than or equal to|is smaller "
            r"than) max_num_seqs",
            r"max_num_batched_tokens \([\d,]+\) is smaller than max_model_len",
            r"max_tokens_per_mm_item \((?P<least>[\d,]+)\) is larger than max_num_batched_tokens",
            r"block_size \((?P<block>[\d,]+)\) must be <= max_num_batched_tokens",
            r"max_num_scheduled_tokens is set to",
            r"does not have enough slots to schedule a token",
        ),
        versions="0.3 to 0.33",
        explain=say(
            "One image or video takes {least} tokens, and --max-num-batched-tokens is smaller.",
            "--max-num-batched-tokens is too small for the sequences, the draft or the context of the command.",
        ),
        fixes=_batched_fixes,
    ),
    Symptom(
        id="fa3-or-cc",
        patterns=(
            r"Bfloat16 is only supported on GPUs.*?Your (?P<gpu>[^\n]{1,60}?) GPU (?:has compute capability "
            r"(?P<now>[\d.]+))?",
            r"Bfloat16 is only supported on GPUs",
            r"FlashAttention[- ]?3? (?:only supports|requires)[^\n]{0,80}",
            r"compute capability (?:of )?(?:at least|>=) ?(?P<least>[\d.]+)",
            r"Unsupported FA version",
            r"requires (?:GPU|device)s? with (?:compute )?capability",
            r"only supported on (?:GPU|device|card)s with compute capability",
        ),
        versions="0.2 to 0.33",
        explain=say(
            "The GPU ({gpu}) is too old for what was asked: bfloat16 needs compute capability 8.0, this "
            "one has {now}.",
            "The GPU is too old for what was asked: bfloat16 and some kernels need compute capability 8.0 or more.",
        ),
        fixes=_old_card_fixes,
    ),
    Symptom(
        id="fp16-not-supported",
        patterns=(r"model type '?(?P<type>[\w.-]+)'? does not support float16",),
        versions="0.9 to 0.33",
        explain=say(
            "Models of type {type} overflow in float16, and vLLM refuses it.",
            "The model overflows in float16, and vLLM refuses it.",
        ),
        fixes=do(
            without("dtype", ", or give bfloat16"),
            "A card before Ampere needs float32 (twice the memory).",
        ),
    ),
    Symptom(
        id="windows-in-some-layers",
        patterns=(r"Sliding window for some but all layers is not supported",),
        versions="0.4 to 0.33",
        explain=say(
            "The config has sliding windows in some layers only, which vLLM's class for the model cannot do."
        ),
        fixes=do("Set use_sliding_window to false in config.json, or by --hf-overrides: every layer then sees all."),
    ),
)
REFUSED: tuple[Symptom, ...] = (
    Symptom(
        id="config-refused",
        patterns=(r"validation errors? for (?P<what>\w+Config)\b", r"^Value error, ", r"^Assertion failed, "),
        versions="0.10 to 0.33",
        explain=lambda seen: f"vLLM refuses the command: {reason(seen).rstrip('.')}.",
        fixes=refused(do("Change or leave out what the message names.")),
    ),
)
"""What the configuration refuses for a reason that no other row knows."""
