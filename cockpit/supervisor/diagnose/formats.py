"""What a vLLM reads of a checkpoint's format, and what it does not: schemes, experts, GGUF files, bitsandbytes."""

from __future__ import annotations

import re

from cockpit.supervisor.diagnose.types import Evidence, Fix, Symptom
from cockpit.supervisor.diagnose.words import added, do, reason, say, without

_OTHER_FORMAT = "Or use the model in another format: AutoRound, AWQ or GPTQ in 4 bits, FP8."
_SAFETENSORS = "Use a safetensors checkpoint: AutoRound, AWQ or GPTQ for 4 bits, FP8 for 8."
_NO_CLASS = re.compile(r"\b(?P<name>\w+?)Config\b")
_METHOD_OF = {
    "INC": "AutoRound",
    "AutoRound": "AutoRound",
    "CompressedTensors": "compressed-tensors",
    "BitsAndBytes": "bitsandbytes",
    "Fp8": "FP8",
    "AWQ": "AWQ",
    "GPTQ": "GPTQ",
    "ModelOptFp8": "ModelOpt FP8",
    "ModelOptNvFp4": "ModelOpt NVFP4",
    "Mxfp4": "MXFP4",
}


def _minor(seen: Evidence) -> int | None:
    version = re.match(r"0\.(\d+)", seen.boot.facts.vllm_version or "")
    return None if version is None else int(version[1])


def _model_without(seen: Evidence) -> str:
    what = seen.groups.get("what", "")
    told = _NO_CLASS.search(what)
    name = _METHOD_OF.get(what) if told is None else _METHOD_OF.get(told["name"], told["name"])
    method = "the checkpoint's quantization" if name is None else f"weights that are quantized with {name}"
    return (
        f"This vLLM's class for the model, or for its experts, has no path for {method}: {reason(seen).rstrip('. ')}."
    )


def _model_without_fixes(seen: Evidence) -> list[Fix]:
    only = re.search(r"only (?:for|on|with) (?P<what>[^.\n]{3,120})", seen.incident.text)
    named = "" if only is None else f" that it names ({only['what'].strip()})"
    return [
        *([without("quantization", ": the model itself may not be quantized")]),
        Fix(text=f"Use the model in a format{named or ' that its card names for vLLM'}."),
        Fix(text="Or use a newer vLLM: each release reads more of them."),
    ]


def _gguf_fixes(seen: Evidence) -> list[Fix]:
    minor = _minor(seen)
    plugin = Fix(text="From 0.26 on vLLM reads GGUF by a plugin: `uv pip install vllm-gguf-plugin`.")
    upgrade = Fix(text="Upgrade vLLM: this release does not read GGUF.")
    newer = [plugin] if minor is None or minor >= 26 else [upgrade] if minor < 6 else []
    model = Fix(text="Or name the original model's files: --tokenizer REPO and --hf-config-path REPO.")
    return [*newer, model, Fix(text=f"Or {_SAFETENSORS[0].lower()}{_SAFETENSORS[1:]}")]


def _parallel_bnb_fixes(seen: Evidence) -> list[Fix]:
    one = Fix(text="Serve it on one GPU.", set={"tensor_parallel": 1})
    layers = Fix(text="Or cut it by layers: --pipeline-parallel-size in place of --tensor-parallel-size.")
    prequantized = "requant" in seen.incident.text
    rest = Fix(text="Or upgrade vLLM: later releases split bitsandbytes weights.")
    return [one, *([layers] if prequantized else []), rest, Fix(text=_OTHER_FORMAT)]


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        id="gguf",
        patterns=(r"config file at '(?P<path>[^'\n]{1,300}\.gguf)' is not a valid JSON file",),
        versions="0.2 to 0.33",
        explain=say("The model is a GGUF file, and this vLLM looks for a config.json: it does not read GGUF here."),
        fixes=_gguf_fixes,
    ),
    Symptom(
        id="gguf",
        patterns=(r"[Ff]ailed to map GGUF parameters(?: \((?P<count>\d+)\))?",),
        versions="0.12 to 0.33",
        explain=say(
            "vLLM has no names for {count} tensors of this GGUF file: it does not read GGUF of this kind of model.",
            "vLLM has no names for tensors of this GGUF file: it does not read GGUF of this kind of model.",
        ),
        fixes=do(_SAFETENSORS, "Or try a newer vLLM (vllm-gguf-plugin from 0.26 on), or serve it with llama.cpp."),
    ),
    Symptom(
        id="gguf",
        patterns=(r"cannot reshape array of size \d+", r"is not a valid GGMLQuantizationType", r"GGUF magic invalid"),
        frames=r"^gguf_reader\.py:",
        versions="0.6 to 0.33",
        explain=say(
            "The GGUF file is not whole: one part of several (…-00001-of-00002.gguf), cut off, or of a type that the "
            "gguf package here is too old for."
        ),
        fixes=do(
            "Merge its parts: `llama-gguf-split --merge FIRST-PART OUT.gguf`, and serve the one file.",
            "Or upgrade the gguf package, or download the file again.",
        ),
    ),
    Symptom(
        id="bitsandbytes-parallel",
        patterns=(
            r"Prequant BitsAndBytes models with (?:TP|tensor parallelism) is not supported",
            r"Bit(?:s)?AndBytes quantization with (?:TP|PP|tensor)[^\n]{0,40}is not supported",
        ),
        versions="0.5 to 0.7",
        explain=say("This vLLM does not split weights that bitsandbytes has packed over several GPUs."),
        fixes=_parallel_bnb_fixes,
    ),
    Symptom(
        id="quantization-faulty-release",
        patterns=(r"not initialized from\s+checkpoint: \{[^}]*(?:weight_g_idx|g_idx_sort_indices|weight_shape)'",),
        versions="0.16",
        explain=say(
            "This vLLM asks for tensors (g_idx) that a checkpoint without activation order never has: a fault of "
            "this release, not of the checkpoint."
        ),
        fixes=do("Use a newer vLLM, or the release before it."),
    ),
    Symptom(
        id="quantization-scheme",
        patterns=(r"only per-tensor scales ?for weights and activations are supported",),
        versions="0.6 to 0.8",
        explain=say(
            "This vLLM reads FP8 experts with one scale for each tensor only, and the checkpoint has finer ones "
            "(channel or token)."
        ),
        fixes=do("Upgrade vLLM: 0.8.4 and later read them.", "Or quantize the experts with one scale each."),
    ),
    Symptom(
        id="quantization-scheme",
        patterns=(
            r"Unsupported (?P<what>\w+ )?scheme: num_bits=(?P<bits>\d+) type='(?P<type>\w+)'",
            r"Unsupported FusedMoe scheme",
        ),
        versions="0.6 to 0.33",
        explain=say(
            "This vLLM has no kernel for layers that are packed as the checkpoint's are ({bits} bits {type}, with "
            "these activations).",
            "This vLLM has no kernel for layers that are packed as the checkpoint's are.",
        ),
        fixes=do("Use a newer vLLM: each release runs more schemes, for experts most of all.", _OTHER_FORMAT),
    ),
    Symptom(
        id="quantization-scheme",
        patterns=(r"ModelOpt currently only supports:? (?P<list>\[[^\]]*\])",),
        versions="0.6 to 0.33",
        explain=say(
            "The checkpoint was made by ModelOpt in a way that this vLLM does not read: it knows {list}.",
            "The checkpoint was made by ModelOpt in a way that this vLLM does not read.",
        ),
        fixes=do(
            "Use a newer vLLM: MIXED_PRECISION and other ways came with later releases.",
            "Or use another export of the model (FP8, NVFP4 for all layers).",
        ),
    ),
    Symptom(
        id="quantization-scheme",
        patterns=(r"requires the following fields in (?P<file>[\w.]+): (?P<fields>[^\n]{2,120})",),
        versions="0.7 to 0.33",
        explain=say(
            "The checkpoint's {file} lacks what vLLM must know of its quantization: {fields}.",
            "The checkpoint's configuration lacks what vLLM must know of its quantization.",
        ),
        fixes=do(
            "Take config.json and hf_quant_config.json of the original export: `cockpit inspect FOLDER` shows them.",
            _OTHER_FORMAT,
        ),
    ),
    Symptom(
        id="quantization-scale",
        patterns=(r"KeyError: '(?P<name>[^']*\.(?:[kvq]|kv|attn|attn_q|prob)_scale(?:_inv)?)'",),
        versions="0.5 to 0.33",
        explain=say(
            "The checkpoint has scales for an 8-bit KV cache ({name}) under a name that this vLLM's class for the "
            "model does not know.",
            "The checkpoint has scales for an 8-bit KV cache that this vLLM's class for the model does not know.",
        ),
        fixes=do("Upgrade vLLM: later releases map such names.", "Or use an export of the model without KV scales."),
    ),
    Symptom(
        id="marlin-types",
        patterns=(r"Marlin does not support weight_bits = (?P<type>\w+)\. Only types = (?P<types>\[[^\]]*\])",),
        versions="0.5 to 0.33",
        explain=say(
            "Marlin does not run weights of type {type} here; it takes {types} (empty: this card has none).",
            "Marlin does not run weights of this type on this card.",
        ),
        fixes=lambda seen: [
            added("quantization=gptq", "Choose the plain kernel: --quantization gptq (awq for AWQ) --dtype half."),
            Fix(text="Make sure that vLLM sees the card: a CPU or ROCm build has no Marlin, nor a card below 7.5."),
            Fix(text=_OTHER_FORMAT),
        ],
    ),
    Symptom(
        id="quantization-scheme",
        patterns=(r"^AssertionError\s*$",),
        frames=r"^compressed_tensors\w*\.py:(?:__init__|create_weights|get_\w*(?:method|scheme)\w*|_get_\w+)$",
        versions="0.6 to 0.33",
        explain=say(
            "This vLLM's reader of compressed-tensors refuses how the weights are packed (bits, group size or order "
            "of a layer) without saying so: releases differ in what they read, for experts most of all."
        ),
        fixes=do("Try a newer vLLM, else the one that the checkpoint was tried with.", _OTHER_FORMAT),
    ),
    Symptom(
        id="quantization-deprecated",
        patterns=(r"quantization method .{1,60}? ?is deprecated and will be removed",),
        versions="0.13 to 0.33",
        explain=say("vLLM gives the checkpoint's quantization method up, and refuses it unless it is asked for."),
        fixes=do(added("allow_deprecated_quantization"), _OTHER_FORMAT),
    ),
    Symptom(
        id="int8-card",
        patterns=(r"[Ii]nt8 not supported (?:for|on) this architecture",),
        versions="0.9 to 0.33",
        explain=say(
            "CUTLASS has no int8 kernel for cards of compute capability 10 and 12 (RTX 50, B200), which W8A8 INT8 "
            "weights need."
        ),
        fixes=do(
            "Use the model in FP8 or NVFP4, or with 4-bit weights (AutoRound, AWQ, GPTQ).",
            "Or choose another kernel, where this vLLM has it: --linear-backend triton.",
        ),
    ),
    Symptom(
        id="mxfp4-experts",
        patterns=(r"Supports only mxfp4_w4a16", r"Incompatible Mxfp4 backend for EP batched experts"),
        versions="0.10 to 0.13",
        explain=say(
            "The MXFP4 kernel that was chosen does not go with data and expert parallel: how the experts exchange "
            "tokens, or a VLLM_USE_FLASHINFER_MOE_MXFP4_… variable, asks for another one."
        ),
        fixes=do(
            without("all2all_backend", ", and VLLM_ALL2ALL_BACKEND out of the environment"),
            Fix(text="Let Marlin do the experts.", env={"VLLM_MXFP4_USE_MARLIN": "1"}),
            without("enable_expert_parallel", ": tensor parallel alone does without the exchange"),
        ),
    ),
    Symptom(
        id="quantization-of-model",
        patterns=(
            r"does not (?:yet )?support (?:the )?quantization (?:config|method) (?P<what>\w+)",
            r"does not (?:yet )?support (?P<what>\w+) quantization",
            r"^\w+Error: (?P<what>[^\n]{1,120}? (?:is|are) (?:currently )?(?:supported )?only (?:supported )?for "
            r"unquantized[^\n]*)",
        ),
        versions="any",
        explain=_model_without,
        fixes=_model_without_fixes,
    ),
)
