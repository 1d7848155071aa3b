"""Formats, kernels and KV types that a checkpoint, a card or a vLLM does not go with."""

from __future__ import annotations

import re

from cockpit.supervisor.diagnose.types import Evidence, Fix, Symptom
from cockpit.supervisor.diagnose.words import added, do, nearest, say, without

_NO_INT8 = Fix(
    text="Turn int8 activations off: VLLM_MARLIN_INPUT_DTYPE must not be set for this checkpoint.",
    set={"int8": "off"},
    env={"VLLM_MARLIN_INPUT_DTYPE": None},
)


_OF_QUANTIZED = r"quant|gptq|awq|marlin|auto_?round|inc|wna16|moe|linear"
"""What frames of quantized layers have in their names."""


def _tensor_parallel_fixes(seen: Evidence) -> list[Fix]:
    ranks = int(seen.arguments.number("tensor_parallel_size") or 1)
    fixes = []
    if ranks > 1:
        fixes.append(Fix(text=f"Split it over {ranks // 2} GPUs.", set={"tensor_parallel": ranks // 2}))
    version = re.match(r"0\.(\d+)", seen.boot.facts.vllm_version or "")
    pads = "" if version and int(version[1]) >= 24 else ", or vLLM 0.24 or later, which pads the shards"
    if "Exllama only supports float16" in seen.incident.text:
        fixes.append(added("dtype=half", "Or add --dtype half: the Exllama kernel takes such layers in float16."))
    if ranks == 1 and "not aligned with the quantized" in seen.incident.text:
        return [Fix(text="Nothing is split here: use weights in 4 or 8 bits, which these kernels are made for.")]
    return [*fixes, Fix(text=f"Use a checkpoint with another group size{pads}.")]


_NO_CARD = (
    r"(?:not supported (?:on|by|for)|unsupported (?:on|by|for)"
    r"|requires (?:a |an )?(?:Blackwell|SM ?\d|sm_?\d|compute|CUDA|GPU|device))"
)
"""How a kernel says that it is not for this card."""


def _no_number(seen: Evidence) -> str:
    value = seen.groups.get("value")
    names = [name for name, told in seen.arguments.environment.items() if value and told == value]
    if value is None:
        return "A VLLM_ variable of the environment must be a number, and is none."
    return f"{names[0] if names else 'A VLLM_ variable of the environment'} is {value[:60]}, and must be a number."


def _moe_backend(seen: Evidence) -> str:
    kind, named = seen.groups.get("format", "").strip(), seen.groups.get("backend")
    if named is not None:
        return f"The backend {named} does not run the {kind} experts of this model on this card."
    return f"No kernel of this vLLM runs the {kind} experts of this model on this card."


def _moe_backend_fixes(seen: Evidence) -> list[Fix]:
    other = Fix(
        text="Use a checkpoint whose experts are in a format that this card has kernels for (AutoRound, FP8)."
    )
    free = Fix(text="Let vLLM choose the backend: remove VLLM_USE_FLASHINFER_MOE_… from the environment.")
    return [*([without("moe_backend"), free] if "backend" in seen.groups else []), Fix(text="Upgrade vLLM."), other]


_FLASHINFER_REFUSES = (r"FlashInfer kernels unavailable for", r"Failed to initialize cutlass TMA")


def _fp4_fixes(seen: Evidence) -> list[Fix]:
    experts = Fix(text="Or let FlashInfer do the experts.", env={"VLLM_USE_FLASHINFER_MOE_FP4": "1"})
    if any(words in seen.incident.text for words in _FLASHINFER_REFUSES):
        experts = Fix(
            text="Or do without FlashInfer's kernels for the experts; newer releases take --moe-backend marlin.",
            env={"VLLM_USE_FLASHINFER_MOE_FP4": "0"},
        )
    if re.search(r"FP4 [Gg]emm|cutlass FP4 gemm", seen.incident.text):
        experts = Fix(text="Or let Marlin multiply the weights: --linear-backend marlin, where this vLLM has it.")
    if not re.search(r"moe|expert|fp4", seen.incident.text, re.IGNORECASE):
        return [Fix(text="Upgrade vLLM."), Fix(text="Or use an AutoRound or GPTQ 4-bit checkpoint.")]
    return [Fix(text="Upgrade vLLM."), experts, Fix(text="Or use an AutoRound or GPTQ 4-bit checkpoint.")]


def _capability_fixes(seen: Evidence) -> list[Fix]:
    other = Fix(
        text="Use a checkpoint in a format that this card has kernels for, such as AutoRound or GPTQ in 4 bits."
    )
    newer = Fix(text="Upgrade vLLM: from 0.11 on Marlin runs MXFP4 (gpt-oss) on cards of capability 8.0 and more.")
    least, now = seen.number("least"), seen.number("now")
    old = "mxfp4" in seen.incident.text and least is not None and least > 80 and now is not None and now >= 80
    return [newer, other] if old else [other]


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        id="marlin-w8a8",
        patterns=(
            r"Marlin W8A8 is not supported",
            r"W8A8 is not supported by marlin kernel",
            r"(?P<format>\w*FP[48]) weight \+ (?P<acts>[\w/]+) activation is not supported",
            r"INT8 weight \+ FP8 activation is not supported",
            r"Marlin W4A8-FP8 only support",
        ),
        versions="0.20 to 0.33",
        explain=say("VLLM_MARLIN_INPUT_DTYPE asks Marlin for 8-bit activations, which these weights do not allow."),
        fixes=do(_NO_INT8),
    ),
    Symptom(
        id="marlin-input-dtype",
        patterns=(
            r"Invalid value '(?P<value>[^']*)' for (?P<name>VLLM_MARLIN_INPUT_DTYPE)",
            r"input_global_scale.{0,80}NoneType",
        ),
        versions="0.20 to 0.33",
        explain=say(
            "VLLM_MARLIN_INPUT_DTYPE is {value}; vLLM takes int8 or fp8 in small letters, and no empty text.",
            "VLLM_MARLIN_INPUT_DTYPE has a value that vLLM does not take: int8 or fp8 in small letters, or unset.",
        ),
        fixes=do(_NO_INT8),
    ),
    Symptom(
        id="invalid-variable",
        patterns=(
            r"Invalid value '(?P<value>[^']*)' for (?P<name>VLLM_\w+)\. Valid options: (?P<options>\[[^\]]*\])",
        ),
        versions="0.10 to 0.33",
        explain=say(
            "The variable {name} is {value}; vLLM takes one of {options}.",
            "A VLLM_ variable has a value that vLLM does not take.",
        ),
        fixes=lambda seen: [
            Fix(text=f"Remove {seen.groups.get('name', 'it')} from the environment.", env={seen.groups["name"]: None})
            if "name" in seen.groups
            else Fix(text="Remove it from the environment.")
        ],
    ),
    Symptom(
        id="invalid-variable",
        patterns=(r"(?P<name>VLLM_\w+) '(?P<value>[^'\n]{1,200})' appears to be a URI",),
        versions="0.9 to 0.33",
        explain=say(
            "{name} is {value}: Kubernetes sets it for a service that is named vllm.",
            "A VLLM_ variable has a value that Kubernetes gave it for a service that is named vllm.",
        ),
        fixes=do(
            "Give the service another name, or set enableServiceLinks: false in the pod.",
            Fix(text="Or remove it from the environment.", env={"VLLM_PORT": None}),
        ),
    ),
    Symptom(
        id="invalid-variable",
        patterns=(
            r"^ValueError: (?:invalid literal for int\(\)|could not convert string to float)[^\n]*?: "
            r"'(?P<value>[^'\n]*)'",
        ),
        frames=r"^envs\.py:",
        versions="0.6 to 0.33",
        explain=_no_number,
        fixes=do("Correct it or remove it: `env | grep VLLM_` lists them."),
    ),
    Symptom(
        id="invalid-variable",
        patterns=(
            r"validation errors? for \w+Config\b.{0,60}"
            r"(?:invalid literal for int\(\)|could not convert string to float)[^\n]*?: '(?P<value>[^'\n]*)'",
        ),
        versions="0.10 to 0.33",
        explain=_no_number,
        fixes=do("Correct it or remove it: `env | grep VLLM_` lists them."),
    ),
    Symptom(
        id="compile-cache-stale",
        patterns=(r"KeyError: '(?:input_global_scale)'", r"assert_size_stride", r"expected size \d+==\d+"),
        versions="0.20 to 0.33",
        explain=say("A graph that torch.compile kept was built for other settings than this boot's."),
        fixes=do(
            Fix(text="Compile anew once.", env={"VLLM_DISABLE_COMPILE_CACHE": "1"}),
            "Or delete ~/.cache/vllm/torch_compile_cache.",
        ),
    ),
    Symptom(
        id="compile-cache-stale",
        patterns=(r"^(?:AssertionError|KeyError|IndexError|AttributeError)\b",),
        frames=r"^(?:caching\.py:optimized_call|aot_compile\.py:\w+)$",
        when=lambda seen: seen.incident.modules.rpartition("\n")[2].startswith(("torch/_inductor", "torch/_dynamo")),
        versions="0.11 to 0.33",
        explain=say(
            "A compiled graph, most likely one that torch.compile kept, does not fit what this boot gives it."
        ),
        fixes=do(
            Fix(text="Compile anew once.", env={"VLLM_DISABLE_COMPILE_CACHE": "1"}),
            "Or delete ~/.cache/vllm/torch_compile_cache.",
        ),
    ),
    Symptom(
        id="marlin-not-divisible",
        patterns=(
            r"(?:in|out)put_size_per_partition\s*=\s*(?P<size>\d+).{0,40}is\s+not divisible\s+by",
            r"min_thread_[nk]\b",
            r"prob_[mnk] = \d+ is not divisible by thread_[mnk]",
            r"size_[nk] (?:= ?\d+,? )?(?:must|is not) (?:be )?divisible by",
            r"Invalid thread config: thread_m_blocks",
            r"[Gg]roup size should be a multiple of",
            r"GPTQ_MARLIN_MIN_THREAD_[NK]",
            r"not aligned with the quantized\s+weight shape",
            r"is not divisible by weight quantization block_",
            r"Consider reducing tensor_parallel_size",
            r"shards that are not a whole number of quant groups",
        ),
        versions="0.5 to 0.33",
        explain=say("A layer's share on each GPU is no multiple of what the quantized kernel takes."),
        fixes=_tensor_parallel_fixes,
    ),
    Symptom(
        id="awq-bf16",
        patterns=(
            r"torch\.(?P<dtype>bfloat16|float16|float32) is not supported for quantization\s+method "
            r"(?P<method>[\w-]+)\."
            r" Supported dtypes: \[(?P<supported>[^\]]*)\]",
            r"is not supported for quantization\s+method",
            r"marlin_gemm only supports bfloat16 and float16",
        ),
        versions="0.2 to 0.33",
        explain=say(
            "The {method} kernels compute in {supported}, not in {dtype}.",
            "The quantized kernels do not compute in the type that was asked for.",
        ),
        fixes=do(
            added("dtype=half"),
            without("quantization", ", so that vLLM picks the Marlin kernel, which takes bfloat16"),
        ),
    ),
    Symptom(
        id="quantization-capability",
        patterns=(
            r"quantization method (?P<method>[\w-]+) is not supported for the current GPU.*?[Cc]apability: "
            r"(?P<least>\d+)\..*?(?P<now>\d+)",
            r"Quantization scheme is not supported for\W{1,8}the current GPU\..*?capability: "
            r"(?P<least>\d+)\..*?(?P<now>\d+)",
            r"is not supported for the current GPU",
        ),
        versions="0.2 to 0.33",
        explain=say(
            "The weights' format needs a GPU of compute capability {least}; this one has {now} (tenfold).",
            "The weights' format needs a newer GPU than this one.",
        ),
        fixes=_capability_fixes,
    ),
    Symptom(
        id="quantization-unknown",
        patterns=(
            r"(?:Unknown|Invalid) quantization method: (?P<method>[\w-]+)",
            r"Quantization method specified in the model config \((?P<method>[\w.-]+)\) does not match",
            r"quantization=?['\"]?(?P<method>[\w-]+)['\"]? .{0,40}is not (?:a )?(?:valid|supported)",
            r"Cannot find the config file for (?P<method>[\w-]+)",
            r"Unsupported (?:quantization|scheme|bits|num_bits)",
            r"No compressed-tensors compatible scheme was found",
        ),
        versions="0.2 to 0.33",
        explain=say(
            "This vLLM cannot read the checkpoint with the quantization method {method}.",
            "This vLLM cannot read the checkpoint's quantization.",
        ),
        fixes=lambda seen: [
            *nearest(seen, "method"),
            without("quantization", ": what config.json names counts"),
            Fix(
                text="Use a vLLM that has the method, or a checkpoint in another format (AutoRound, AWQ, GPTQ, FP8)."
            ),
        ],
    ),
    Symptom(
        id="humming-nvml",
        patterns=(r"NVMLError\w*: Not Supported", r"NVRTC_ERROR_COMPILATION"),
        frames=r"(?:device\.py:calculate_gpu_bandwidth|:calculate_gpu_bandwidth)$",
        versions="0.23 to 0.33",
        explain=say("The humming kernels ask the driver for the memory clock, which this GPU does not tell."),
        fixes=do("Use another backend: --moe-backend marlin or triton, --linear-backend marlin."),
    ),
    Symptom(
        id="humming-nvml",
        patterns=(r"calculate_gpu_bandwidth", r"NVMLError_NotSupported"),
        versions="0.23 to 0.33",
        explain=say(
            "A kernel library asks the driver for something that this GPU does not tell (NVML: not supported)."
        ),
        fixes=do("Use another backend: --moe-backend marlin or triton, --linear-backend marlin."),
    ),
    Symptom(
        id="autoround-sm75",
        patterns=(
            r"cannot access local variable '(?P<name>\w+)' where it is not associated",
            r"local variable '(?P<name>\w+)' referenced before assignment",
        ),
        when=lambda seen: not seen.incident.frames or seen.in_frames(_OF_QUANTIZED),
        versions="0.9 to 0.33",
        explain=say(
            "This vLLM has a faulty path for this checkpoint on this card: {name} is used before it is set.",
            "This vLLM has a faulty path for this checkpoint on this card.",
        ),
        fixes=do(
            "Upgrade vLLM; until then use a checkpoint in another format or a card that Marlin runs on "
            "(7.5 and later)."
        ),
    ),
    Symptom(
        id="fp4-sm120",
        patterns=(
            r"No compiled (?P<kernel>\w+).{0,80}for CUDA device capability: ?(?P<capability>\d+)",
            r"no cutlass_scaled_mm kernel",
            r"Failed to (?:run|initialize) cutlass FP[48]",
            r"FP4 gemm Runner",
            r"cutlass_gemm_caller[^\n]{0,160}Error Internal",
            r"cutlass_\w+_sm\d+\w*: Error",
            rf"FP4[^\n]{{0,80}}{_NO_CARD}",
            rf"nvfp4[^\n]{{0,80}}{_NO_CARD}",
            r"No compiled \w*(?:moe|fp4|cutlass)\w*",
            *_FLASHINFER_REFUSES,
        ),
        versions="0.10 to 0.33",
        explain=say(
            "This vLLM build has no {kernel} kernel for this card (capability {capability}).",
            "This vLLM build has no FP4 or FP8 kernel that runs on this card.",
        ),
        fixes=_fp4_fixes,
    ),
    Symptom(
        id="moe-backend",
        patterns=(
            r"(?P<format>[\w ]{2,20}) MoE backend '?(?P<backend>\w+)'? does not support the deployment",
            r"No (?P<format>[\w ]{2,20}) MoE backend supports the deployment",
        ),
        versions="0.14 to 0.33",
        explain=_moe_backend,
        fixes=_moe_backend_fixes,
    ),
    Symptom(
        id="no-wna16-kernel",
        patterns=(
            r"Failed to find a kernel that can implement the\s+(?P<kind>\w+) linear layer",
            r"No (?:suitable|supported) (?:\w+ )?(?:MoE|moe) backend",
        ),
        versions="0.20 to 0.33",
        explain=say(
            "No kernel of this vLLM does the checkpoint's {kind} layers on this card.",
            "No kernel of this vLLM does the checkpoint's layers on this card.",
        ),
        fixes=do("See the reasons in the log: often humming-kernels is missing or the width needs a newer vLLM."),
    ),
)
