"""What the command asks for and vLLM refuses."""

from __future__ import annotations

from cockpit.supervisor.diagnose.types import Evidence, Fix, Symptom
from cockpit.supervisor.diagnose.words import do, reason, say

_REMOVED = {
    "--enable-reasoning": "It went in 0.10: --reasoning-parser alone turns it on.",
    "--swap-space": "It is gone: vLLM preempts by computing again.",
    "--disable-log-requests": "It is gone: requests are not logged unless --enable-log-requests says so.",
    "--guided-decoding-backend": "It is --structured-outputs-config.backend now.",
    "--num-scheduler-steps": "It is gone: leave it out.",
    "--device": "It is gone: the installed build decides.",
    "--use-v2-block-manager": "It is gone: leave it out.",
    "--max-seq-len-to-capture": "It is gone: leave it out.",
    "--rope-scaling": "It goes into --hf-overrides now.",
    "--rope-theta": "It goes into --hf-overrides now.",
    "--task": "It is --runner now.",
    "--cuda-graph-sizes": "It is --cudagraph-capture-sizes now.",
    "--speculative-model": "It goes into --speculative-config now.",
    "--num-speculative-tokens": "It goes into --speculative-config now.",
    "--preemption-mode": "It is gone: leave it out.",
    "--calculate-kv-scales": "It is gone since 0.33: leave it out.",
    "--max-num-partial-prefills": "It is gone since 0.33: leave it out.",
    "--max-long-partial-prefills": "It is gone since 0.33: leave it out.",
    "--override-attention-dtype": "It is gone since 0.33: leave it out.",
}
"""Flags of older vLLMs, and what became of them."""


def _flag(seen: Evidence) -> str:
    return seen.groups.get("flag", "").split()[0] if seen.groups.get("flag", "").strip() else "a flag"


def _unknown(seen: Evidence) -> str:
    if seen.groups.get("flag", "").startswith("serve"):
        return "The container's entry point is `vllm serve` already, and the command says serve again."
    if not _flag(seen).startswith("-") and "unrecognized" in seen.incident.text:
        return f"The command has {_flag(seen)} where a flag is expected."
    return f"This vLLM does not know {_flag(seen)}."


def _unknown_fixes(seen: Evidence) -> list[Fix]:
    flag = _flag(seen).partition("=")[0].replace("_", "-")
    if flag.startswith("serve"):
        return [Fix(text="Begin the container's command with the model.")]
    if seen.groups.get("flag", "").startswith(("/bin/", "bash", "sh ", "python")):
        return [
            Fix(text="The container's entry point is the server: give its flags only, or replace it (--entrypoint).")
        ]
    known = _REMOVED.get(flag)
    fixes = [] if known is None else [Fix(text=f"{flag}: {known[:1].lower()}{known[1:]}")]
    return [
        *fixes,
        Fix(text="Take it out or correct it; `vllm serve --help=all` lists what the installed version takes."),
    ]


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


def _gpu_fixes(seen: Evidence) -> list[Fix]:
    there = seen.number("there")
    fixes = []
    if there is not None and there >= 1:
        fixes.append(Fix(text=f"Split it over the {int(there)} that are there.", set={"tensor_parallel": int(there)}))
    return [*fixes, Fix(text="Check CUDA_VISIBLE_DEVICES, and `--gpus` of a container: they hide cards.")]


def _batched_fixes(seen: Evidence) -> list[Fix]:
    least = seen.number("least")
    if least is not None:
        off = Fix(text="Or leave the vision part out if you only send text.", set={"vision": "off"})
        return [Fix(text=f"Start it with --max-num-batched-tokens {int(least)} or more."), off]
    tokens = seen.number("tokens")
    if tokens is None or tokens < 1:
        return [Fix(text="Raise --max-num-batched-tokens or lower the sequences.")]
    return [
        Fix(text=f"Run at most {int(tokens)} requests at a time.", set={"max_num_seqs": int(tokens)}),
        Fix(text="Or leave --max-num-batched-tokens out."),
    ]


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        id="flag-value",
        patterns=(
            r"error: argument (?P<flag>-[^\s:]+): (?:invalid|expected|not allowed)[^\n]*",
            r"error: ambiguous option: (?P<flag>\S+) could match",
            r"error: argument (?P<flag>[^:\n]{1,80}):",
        ),
        versions="any",
        explain=lambda seen: f"The value of {_flag(seen)} is not one that this vLLM takes.",
        fixes=do("Use one of the values that the message lists."),
    ),
    Symptom(
        id="unknown-flag",
        patterns=(
            r"error: unrecognized arguments: (?P<flag>[^\n]*)",
            r"error: no such option: (?P<flag>\S+)",
            r"error: the following arguments are required: (?P<flag>[^\n]*)",
            r"unexpected keyword argument '(?P<flag>\w+)'",
            r"\w+: error: [^\n]*",
        ),
        versions="any",
        explain=_unknown,
        fixes=_unknown_fixes,
    ),
    Symptom(
        id="tp-divisibility",
        patterns=(
            r"number of attention heads \((?P<heads>\d+)\) must be divisible by\s+(?:the "
            r")?tensor[- ]parallel[- ]size\s+\((?P<ranks>\d+)\)",
            r"(?P<heads>\d+) is not divisible by (?P<ranks>\d+)",
            r"must be divisible by\s+(?:the )?tensor[- _]parallel",
            r"divisible by tensor-parallel size",
            r"num_(?:key_value_|attention_)?heads[^\n]{0,60}divisible",
        ),
        versions="0.2 to 0.33",
        explain=say(
            "{heads} attention heads (or the layer's size) cannot be cut into {ranks} equal parts, one a GPU.",
            "The model's heads or layers cannot be cut into equal parts, one a GPU.",
        ),
        fixes=_divisor_fixes,
    ),
    Symptom(
        id="too-few-gpus",
        patterns=(
            r"World size \((?P<wanted>\d+)\) is larger than the number of\s+available GPUs \((?P<there>\d+)\)",
            r"[Tt]he number of required (?:GPUs|worker)[^\n]{0,60}exceeds the total number of available",
            r"tensor[- _]parallel[- _]size[^\n]{0,60}(?:larger|greater|exceeds|more) than[^\n]{0,40}GPU",
            r"CUDA error: invalid device ordinal",
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
            r"requires (?:GPU|device)s? with (?:compute )?capability",
        ),
        versions="0.2 to 0.33",
        explain=say(
            "The GPU ({gpu}) is too old for what was asked: bfloat16 needs compute capability 8.0, this "
            "one has {now}.",
            "The GPU is too old for what was asked: bfloat16 and some kernels need compute capability 8.0 or more.",
        ),
        fixes=do("Add --dtype half."),
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
    Symptom(
        id="lora-rank",
        patterns=(r"LoRA rank (?P<rank>\d+) is greater than max_lora_rank (?P<most>\d+)",),
        versions="0.3 to 0.33",
        explain=say(
            "The adapter has rank {rank}, and the server takes up to {most}.",
            "The adapter's rank is above what the server takes.",
        ),
        fixes=lambda seen: [Fix(text=f"Add --max-lora-rank {seen.groups.get('rank', 'N')}.")],
    ),
    Symptom(
        id="lora-missing",
        patterns=(r"No adapter found for (?P<path>\S+)", r"Loading lora (?P<path>\S+) failed"),
        versions="0.3 to 0.33",
        explain=say("The LoRA adapter {path} is not there or cannot be read.", "A LoRA adapter cannot be read."),
        fixes=do("Correct the path in --lora-modules; the folder holds adapter_config.json and its safetensors."),
    ),
    Symptom(
        id="config-refused",
        patterns=(r"validation errors? for (?P<what>\w+Config)\b", r"^Value error, ", r"^Assertion failed, "),
        versions="0.10 to 0.33",
        explain=lambda seen: f"vLLM refuses the command: {reason(seen).rstrip('.')}.",
        fixes=do("Change or leave out what the message names."),
    ),
)
