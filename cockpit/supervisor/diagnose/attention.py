"""Attention backends and the KV types that they read."""

from __future__ import annotations

import re

from cockpit.supervisor.diagnose.settings import in_use
from cockpit.supervisor.diagnose.types import Evidence, Fix, Symptom
from cockpit.supervisor.diagnose.words import added, do, nearest, plain_kv, say, without


def _kv_type_fixes(seen: Evidence) -> list[Fix]:
    now = str(seen.arguments.get("kv_cache_dtype") or "auto")
    fixes = [Fix(text="Let the model choose the KV type.", set={"kv_cache_dtype": "auto"})]
    if now != "auto" and not now.startswith("fp8"):
        fixes.append(Fix(text="Or store the KV cache as fp8.", set={"kv_cache_dtype": "fp8_e4m3"}))
    return [*nearest(seen, "value"), *fixes]


def _card_fixes(seen: Evidence) -> list[Fix]:
    now = str(seen.arguments.get("kv_cache_dtype") or "auto")
    plain = [Fix(text="Let the model choose the KV type.", set={"kv_cache_dtype": "auto"})]
    return [
        *(plain if now != "auto" else []),
        Fix(text="Or choose --attention-backend FLASHINFER: it reads fp8 KV on such cards, TRITON_ATTN does not."),
        without("quantization", ": FP8 weights need Marlin here"),
        without("linear_backend", ": FP8 weights need Marlin here"),
    ]


def _sink_fixes(seen: Evidence) -> list[Fix]:
    version = re.match(r"0\.(\d+)", seen.boot.facts.vllm_version or "")
    minor = None if version is None else int(version[1])
    upgrade = Fix(text="Upgrade vLLM to 0.11 or later.")
    by_variable = Fix(text="Or name the Triton backend.", env={"VLLM_ATTENTION_BACKEND": "TRITON_ATTN"})
    by_flag = Fix(text="Or choose --attention-backend TRITON_ATTN, which has sinks on every card.")
    return [
        *([upgrade] if minor is None or minor < 11 else []),
        without("attention_backend"),
        *plain_kv(seen),
        *([by_variable] if minor is None or minor < 20 else []),
        *([by_flag] if minor is None or minor >= 14 else []),
    ]


def _no_backend_fixes(seen: Evidence) -> list[Fix]:
    own = [*_with_sinks(seen), without("attention_backend", " and let vLLM choose"), *_kv_type_fixes(seen)[:1]]
    if "sparse not supported" in seen.incident.text and "compute capability" in seen.incident.text:
        own.insert(
            0, Fix(text="Upgrade vLLM: sparse attention on RTX 50, RTX PRO and GB10 came with later releases.")
        )
    return [*own, Fix(text="Use a vLLM release that the model's card names, or a checkpoint for this card.")]


def _with_sinks(seen: Evidence) -> list[Fix]:
    if "sink setting not supported" not in seen.incident.text:
        return []
    return [Fix(text="Upgrade vLLM: TRITON_ATTN has the sinks of gpt-oss on every card in later releases.")]


def _before_ampere(seen: Evidence) -> list[Fix]:
    version = re.match(r"0\.(\d+)", seen.boot.facts.vllm_version or "")
    minor = None if version is None else int(version[1])
    old = Fix(text="Use the old engine, which has xformers.", env={"VLLM_USE_V1": "0"})
    new = Fix(text="Upgrade vLLM: later releases take TRITON_ATTN or FLEX_ATTENTION on such cards by themselves.")
    named = Fix(text="Choose --attention-backend TRITON_ATTN or FLEX_ATTENTION.")
    is_v0 = seen.in_frames(r"^xformers\.py:")
    return [new] if is_v0 else [old, new] if minor is not None and minor < 11 else [named, new]


def _head_size_fixes(seen: Evidence) -> list[Fix]:
    own = Fix(text="Uninstall the flash-attn package: it is used where it is there, and vLLM brings its own.")
    vision = added(
        "mm_encoder_attn_backend=TORCH_SDPA", "Or add --mm-encoder-attn-backend TORCH_SDPA for the images."
    )
    return [
        *([own, vision] if seen.in_frames(r"^flash_attn_interface\.py:") else []),
        without("attention_backend", " and let vLLM choose"),
        Fix(text="Or choose --attention-backend TRITON_ATTN or FLEX_ATTENTION (VLLM_ATTENTION_BACKEND before 0.20)."),
    ]


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        id="turboquant-hybrid",
        patterns=(
            r"TurboQuant KV cache is not supported",
            r"Unknown TurboQuant cache dtype",
            r"kv_cache_dtype not supported",
            r"kv[_ ]cache dtype.{0,60}(?:not supported|unsupported)",
            r"Selected backend (?P<backend>[\w.]+) is not valid for this configuration\. Reason: "
            r"(?P<reason>\[[^\]]*kv[^\]]*\])",
            r"(?:fp8|nvfp4|int8|turboquant)[\w ]{0,20}KV cache (?:is )?(?:not|only) support",
        ),
        versions="0.19 to 0.33",
        explain=lambda seen: (
            "The attention backend that this model needs cannot read the KV type "
            + (str(seen.arguments.get("kv_cache_dtype") or "that was chosen"))
            + (f": {seen.groups['reason']}." if "reason" in seen.groups else ".")
        ),
        fixes=_kv_type_fixes,
    ),
    Symptom(
        id="turboquant-hybrid",
        patterns=(r"Workspace is locked but",),
        when=lambda seen: in_use("kv_cache_dtype", seen) != "auto",
        versions="0.19 to 0.33",
        explain=say(
            "The attention backend asks for more scratch memory than it had measured: the KV type is new to it."
        ),
        fixes=_kv_type_fixes,
    ),
    Symptom(
        id="turboquant-hybrid",
        patterns=(r"is invalid for input of size \d+", r"^(?:AssertionError|NotImplementedError)\b"),
        frames=r":(?:_?reshape_kv_cache\w*|get_kv_cache_shape)$",
        when=lambda seen: in_use("kv_cache_dtype", seen) not in (None, "auto"),
        versions="0.19 to 0.33",
        explain=lambda seen: (
            f"The KV type {seen.arguments.get('kv_cache_dtype') or 'in use'} has a layout that the model cannot have."
        ),
        fixes=_kv_type_fixes,
    ),
    Symptom(
        id="kv-dtype-card",
        patterns=(r"type fp8e4nv not supported in this architecture", r"FP8 KV cache is not supported by the Triton"),
        versions="0.6 to 0.33",
        explain=say(
            "A Triton kernel works on fp8_e4m3, which this card cannot do (below capability 8.9): the attention "
            "backend in use, or the weights' format, needs it."
        ),
        fixes=_card_fixes,
    ),
    Symptom(
        id="kv-dtype-invalid",
        patterns=(
            r"Invalid kv_cache_dtype: '?(?P<value>[\w-]+)",
            r"cache_dtype\b.{0,20}\s+Input should be",
            r"argument --kv-cache-dtype: invalid choice: '(?P<value>[\w-]+)'",
        ),
        versions="0.10 to 0.33",
        explain=say(
            "This vLLM has no KV type {value}.",
            "This vLLM has no such KV type.",
        ),
        fixes=_kv_type_fixes,
    ),
    Symptom(
        id="kv-dtype-invalid",
        patterns=(r"Unrecognized FP8 dtype: '?(?P<value>[\w-]+)",),
        versions="0.8 to 0.33",
        explain=say(
            "The attention backend in use has no KV type {value}.",
            "The attention backend in use has no such KV type.",
        ),
        fixes=plain_kv,
    ),
    Symptom(
        id="attention-backend",
        patterns=(
            r"Selected backend (?P<backend>[\w.]+) is not valid for this configuration\.\s+Reason: "
            r"(?P<reason>\[[^\]]*\])",
            r"No valid attention backend found.*?Reasons?: (?P<reason>\{[^}]*\})",
            r"No valid attention backend found",
            r"is not valid for this configuration\.\s+Reason",
        ),
        versions="0.11 to 0.33",
        explain=say(
            "No attention backend goes with this model, card and KV type: {reason}.",
            "No attention backend goes with this model, card and KV type.",
        ),
        fixes=_no_backend_fixes,
    ),
    Symptom(
        id="attention-backend",
        patterns=(r"(?:Unknown|Invalid|Unsupported) attention backend:? '?(?P<backend>\w+)",),
        versions="0.11 to 0.33",
        explain=say("This vLLM has no attention backend {backend}.", "This vLLM has no such attention backend."),
        fixes=lambda seen: [*nearest(seen, "backend"), without("attention_backend", " and let vLLM choose")],
    ),
    Symptom(
        id="head-size",
        patterns=(
            r"[Hh]ead size (?P<size>\d+) is not supported by (?P<backend>\w+)",
            r"does not support headdim",
            r"only supports? head dim(?:ension)?s?\b",
        ),
        versions="0.8 to 0.33",
        explain=say(
            "The attention backend {backend} has no kernel for heads of {size}.",
            "The attention kernels in use do not do heads of the size that this model has.",
        ),
        fixes=_head_size_fixes,
    ),
    Symptom(
        id="block-size",
        patterns=(
            r"Block size must be a multiple of (?P<step>\d+)",
            r"block_size[^\n]{0,60}must be (?:a multiple of|divisible by) (?P<step>\d+)",
        ),
        versions="0.6 to 0.33",
        explain=say(
            "The attention backend keeps keys and values in blocks of a multiple of {step} tokens.",
            "The attention backend does not keep keys and values in blocks of that size.",
        ),
        fixes=do(
            without("block_size"),
            without("attention_backend", " and let vLLM choose"),
            "Or use another release of vLLM.",
        ),
    ),
    Symptom(
        id="block-size",
        patterns=(r"--mamba-block-size can only be set with --enable-prefix-caching",),
        versions="0.11 to 0.33",
        explain=say("The blocks of a hybrid model's states have a size of their own only while prefixes are cached."),
        fixes=do(
            without("mamba_block_size"),
            Fix(text="Or cache prefixes.", set={"prefix_caching": "on"}),
            "If the command does not name that flag it is a fault of this version: upgrade vLLM.",
        ),
    ),
    Symptom(
        id="attention-card",
        patterns=(
            r"vllm_flashmla_C is not available",
            r"FlashMLA (?:Dense |Sparse )?is (?:only|not) (?:supported|available)",
        ),
        versions="0.8 to 0.33",
        explain=say(
            "FlashMLA is made for H100 and B200 only: this card has none of it, or this build was made without it."
        ),
        fixes=do(
            without("attention_backend", " and let vLLM choose"),
            "Choose --attention-backend TRITON_MLA; sparse attention (DeepSeek V3.2 and later) has no way "
            "round it: use a newer vLLM or an H100.",
        ),
    ),
    Symptom(
        id="attention-card",
        patterns=(r"TllmGen\w*[^\n]{0,300}[Uu]nsupported architecture", r"trtllm-gen[^\n]{0,200}not support"),
        versions="0.10 to 0.33",
        explain=say(
            "FlashInfer's TensorRT-LLM kernels, which were chosen for the attention, are for B200 and B300 only: "
            "this card (RTX 50, RTX PRO, GB10 or older) has none of them."
        ),
        fixes=do(
            without("attention_backend", " and let vLLM choose"),
            "Choose --attention-backend TRITON_ATTN (TRITON_MLA for a model with MLA).",
            "Or upgrade vLLM, and FlashInfer with it.",
        ),
    ),
    Symptom(
        id="attention-card",
        patterns=(r"^AssertionError\s*$",),
        frames=r"^flash_attn\.py:__init__$",
        versions="0.7 to 0.33",
        explain=say(
            "vLLM's FlashAttention refuses this card without a word: it needs compute capability 8.0 or more (no "
            "V100, no T4)."
        ),
        fixes=_before_ampere,
    ),
    Symptom(
        id="attention-card",
        patterns=(r"No operator found for `?memory_efficient_attention",),
        versions="0.2 to 0.11",
        explain=say(
            "xformers, which this vLLM does the attention with, has no kernel for this card, type or size of head: "
            "it may be built for newer cards, or for another torch."
        ),
        fixes=lambda seen: [
            *([added("dtype=half")] if "bfloat16" in seen.incident.text else []),
            *_before_ampere(seen),
            Fix(text="Or install the xformers that this vLLM asks for (`pip check`), built for the card."),
        ],
    ),
    Symptom(
        id="dual-chunk",
        patterns=(
            r"Impl\.__init__\(\) got an unexpected keyword argument '(?:layer_idx|dual_chunk_attention_config)'",
        ),
        versions="0.8 to 0.33",
        explain=say(
            "config.json asks for dual chunk attention (contexts of 1M tokens), which only vLLM's old engine had."
        ),
        fixes=do(
            "Remove dual_chunk_attention_config from config.json: the context ends at the model's native length."
        ),
    ),
    Symptom(
        id="attention-sinks",
        patterns=(
            r"[Ss]inks are only supported (?:in|with|for) [^\n]{1,60}",
            r"[Aa]ttention sinks? (?:is|are) not supported",
            r"not (?:currently )?support (?:attention )?sinks",
            r"Impl\.__init__\(\) got an unexpected keyword argument 'sinks'",
        ),
        versions="0.10 to 0.33",
        explain=say(
            "The model has attention sinks (gpt-oss), and the attention backend in use has none on this card."
        ),
        fixes=_sink_fixes,
    ),
)
