"""Findings about the slug's own flags: values that vLLM holds against each other, files, types, backends."""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.nearest import nearest
from cockpit.rig.version import version_numbers
from cockpit.rules.context import Context
from cockpit.rules.finding import Finding

_NEEDS = {"enable-auto-tool-choice": "tool-call-parser", "enable-log-outputs": "enable-log-requests"}
"""Flag → the one without which the server ends (validate_parsed_serve_args of vLLM 0.20 to 0.33)."""
_NO_FLOAT16 = frozenset(("gemma2", "gemma3", "gemma3_text", "glm4"))
"""Model types of _FLOAT16_NOT_SUPPORTED_MODELS (vllm/config/model.py, 0.20 to 0.33)."""
_ADA = (8, 9)
_TRITON_REFUSES = (0, 26)
"""First of the releases looked at whose Triton attention refuses fp8 KV below capability 8.9 (triton_attn.py)."""
_FAMILIES = {
    "awq": "awq",
    "awq_marlin": "awq",
    "bitsandbytes": "bitsandbytes",
    "compressed-tensors": "compressed-tensors",
    "fp8": "fp8",
    "gptq": "gptq",
    "gptq_marlin": "gptq",
}
"""Words of --quantization → the quant_method that a checkpoint must declare for them."""
_PACKED = ("awq", "gptq")
"""Those of them that nothing but a checkpoint's own config can describe."""
_STRICT = ("awq", "compressed-tensors", "fp8", "gptq")
"""Methods of checkpoints with which vLLM takes no word of another family. It was asked on 0.32; of others, such as
AutoRound and NVFP4, it overrides whatever the flag says."""


def _whole(value: object) -> int | None:
    """A flag's number, as YAML or a text has it; None when it is none."""
    if isinstance(value, bool):
        return None
    try:
        return int(str(value))
    except ValueError:
        return None


def _block(rule: str, subject: str, message: str, fix: str) -> Finding:
    return Finding(rule=rule, severity="block", subject=subject, message=message, fix=fix, level="usage")


def batched_tokens(ctx: Context) -> Iterator[Finding]:
    """One step must hold a token of every sequence, and without chunks the longest prompt (config/scheduler.py)."""
    flags = ctx.slug.flags
    tokens, sequences = _whole(flags.get("max-num-batched-tokens")), ctx.values.get("max_num_seqs")
    whole_prompts = flags.get("enable-chunked-prefill") is False or flags.get("no-enable-chunked-prefill") is True
    context = ctx.values.get("max_model_len")
    if tokens is None:
        return
    if isinstance(sequences, int) and tokens < sequences:
        message = f"max-num-batched-tokens {tokens:,} is less than the {sequences:,} sequences of the plan"
        yield _block("batched-tokens", "max_num_seqs", message, f"Set max_num_seqs={tokens}, or raise the flag.")
    if whole_prompts and isinstance(context, int) and tokens < context:
        message = f"without chunked prefill max-num-batched-tokens {tokens:,} must hold the context of {context:,}"
        yield _block("batched-tokens", "max_model_len", message, f"Set max_model_len={tokens}, or raise the flag.")


def needed_flags(ctx: Context) -> Iterator[Finding]:
    """Flags that vLLM takes only beside another one."""
    for name, needed in _NEEDS.items():
        if ctx.slug.flags.get(name) is True and not ctx.slug.flags.get(needed):
            yield _block("flag-needs", "flags", f"--{name} needs --{needed}", f"Add {needed} to the slug's flags.")


def float16(ctx: Context) -> Iterator[Finding]:
    """Models that overflow in float16 are refused in it."""
    kind = "" if ctx.checkpoint is None else ctx.checkpoint.model_type
    if kind in _NO_FLOAT16 and ctx.slug.flags.get("dtype") in ("half", "float16"):
        message = f"models of type {kind} overflow in float16, and vLLM refuses it"
        yield _block("float16-refused", "flags", message, "Take dtype out of the slug's flags, or set bfloat16.")


def quantization(ctx: Context) -> Iterator[Finding]:
    """A method that the checkpoint was not made with is refused; without the flag vLLM reads it from the files."""
    named = str(ctx.slug.flags.get("quantization", ""))
    family, method = _FAMILIES.get(named), "" if ctx.checkpoint is None else ctx.checkpoint.quantization.method
    if method == "none" and family in _PACKED:
        message = f"the flag says quantization {named}, and the checkpoint is not quantized"
        yield _block("quantization-differs", "flags", message, "Take quantization out of the slug's flags.")
    if family is None or method not in _STRICT or family == method:
        return
    message = f"the flag says quantization {named}, and the checkpoint was quantized by {method}: vLLM refuses that"
    yield _block("quantization-differs", "flags", message, "Take quantization out of the slug's flags.")


def parsers(ctx: Context) -> Iterator[Finding]:
    """Parsers that the installed vLLM does not have, unless a plugin brings them (validate_api_server_args)."""
    flags, engine = ctx.slug.flags, ctx.engine
    if engine is None:
        return
    kinds = [("reasoning-parser", "reasoning-parser-plugin", engine.reasoning_parsers)]
    if flags.get("enable-auto-tool-choice") is True:
        kinds.append(("tool-call-parser", "tool-parser-plugin", engine.tool_parsers))
    for name, plugin, known in kinds:
        value = flags.get(name)
        if not isinstance(value, str) or not value or not known or value in known or plugin in flags:
            continue
        near = nearest(value, known, most=2)
        fix = f"Set it to {' or '.join(near)}." if near else f"It has: {', '.join(known)}."
        yield Finding(
            rule="parser-unknown",
            severity="block",
            subject="flags",
            message=f"vLLM {engine.version} has no {name} {value[:60]}",
            fix=fix,
            level="rig",
        )


def triton_fp8(ctx: Context) -> Iterator[Finding]:
    """The Triton attention backend reads fp8 KV from compute capability 8.9 on."""
    dtype, engine = str(ctx.values.get("kv_cache_dtype", "auto")), ctx.engine
    old = sorted(capability for capability in ctx.capabilities if capability < _ADA)
    named = str(ctx.slug.flags.get("attention-backend", "")).upper() == "TRITON_ATTN"
    if engine is None or not named or not old or dtype not in ("fp8", "fp8_e4m3"):
        return
    if version_numbers(engine.version) < _TRITON_REFUSES:
        return
    yield Finding(
        rule="kv-fp8-triton",
        severity="block",
        subject="kv_cache_dtype",
        message=f"TRITON_ATTN reads an fp8 KV cache from compute capability 8.9 on, a chosen GPU has "
        f"{old[0][0]}.{old[0][1]}",
        fix="Set kv_cache_dtype=auto, or take attention-backend out of the slug's flags.",
        level="rig",
    )


def named_files(ctx: Context) -> Iterator[Finding]:
    """Templates, adapters, certificates and plugins must be where the flags say."""
    for path in ctx.missing_files:
        yield Finding(
            rule="flag-file",
            severity="block",
            subject="flags",
            message=f"there is no {path}, which the slug's flags name",
            fix="Correct the path, or take the flag out.",
            level="rig",
        )


RULES = (batched_tokens, needed_flags, float16, quantization, parsers, triton_fp8, named_files)
"""In the order in which their findings are shown."""
