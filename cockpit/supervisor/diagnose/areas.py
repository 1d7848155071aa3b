"""The parts of the program, by module and function, with what can be said where one of them failed."""

from __future__ import annotations

import re

import msgspec

from cockpit.supervisor.diagnose.faults import is_fault
from cockpit.supervisor.diagnose.refusals import refused
from cockpit.supervisor.diagnose.types import Evidence, Explain, Fix, Fixes, Symptom
from cockpit.supervisor.diagnose.words import (
    added,
    do,
    joined,
    no_draft,
    no_graphs,
    no_vision,
    plain_kv,
    reason,
    without,
)

_OTHER_RELEASE = do("Try another release of vLLM, the one that the model's card names first.")
_COMPILE_ANEW = Fix(text="Compile anew once, without what the cache has.", env={"VLLM_DISABLE_COMPILE_CACHE": "1"})
FEWER_FLAGS_TEXT = (
    "Leave out flags one by one (draft, KV type, backends, parsers) to find the one that it does not go with."
)
FEWER_FLAGS = do(FEWER_FLAGS_TEXT)


def _said(where: str) -> Explain:
    def said(seen: Evidence) -> str:
        place = f" ({seen.incident.place})" if seen.incident.place else ""
        if is_fault(seen):
            version = f" {seen.boot.facts.vllm_version}" if seen.boot.facts.vllm_version else ""
            words = reason(seen).rstrip(". ")
            told = "" if re.fullmatch(r"[\w.]*(?:Error|StopIteration)?", words) else f" ({words})"
            return (
                f"vLLM{version} or a library of it failed {where}{place}, in a way that no setting explains{told}: "
                "most likely a fault of this version with this model or these flags."
            )
        return f"vLLM stopped {where}{place}: {reason(seen).rstrip('. ') or 'without a reason'}."

    return said


def _mismatch(seen: Evidence) -> str:
    place = f" ({seen.incident.place})" if seen.incident.place else ""
    return (
        "The checkpoint does not match the model class, or one of its files is not whole: vLLM stopped while it put "
        f"the tensors in place{place}: {reason(seen).rstrip('. ')}."
    )


_ENCODER = r"mm_encoder|vision|visual|vit|audio|image|thinker"
_COMPILES = re.compile(
    r"compil|ninja|nvcc|cubin|\.so\b|cache|\bbuild|\bload|symbol|ptx|import|KeyError|No such file", re.I
)
"""What is said of kernels that are made, found and loaded."""


def _of_encoder(seen: Evidence) -> list[Fix]:
    if not seen.in_frames(_ENCODER):
        return []
    other = added("mm_encoder_attn_backend=TORCH_SDPA", "Add --mm-encoder-attn-backend TORCH_SDPA: the plain kernel.")
    return [other, *no_vision(seen)]


def _of_compiled(seen: Evidence) -> list[Fix]:
    if not is_fault(seen) and not _COMPILES.search(seen.incident.text):
        return []
    return [Fix(text="Delete what it compiled before (~/.triton/cache, ~/.cache/flashinfer), and start again.")]


def _other_attention(seen: Evidence) -> list[Fix]:
    if seen.arguments.chosen("attention_backend") or seen.in_frames(r"mamba|gdn|linear_attn|cpu_attn|amx"):
        return []
    return [Fix(text="Name another backend than the one that vLLM chose by itself, with --attention-backend.")]


def _area(name: str, where: str, modules: str, fixes: Fixes) -> tuple[re.Pattern[str], Symptom]:
    symptom = Symptom(id=name, patterns=(), versions="any", explain=_said(where), fixes=fixes)
    if name == "checkpoint-mismatch":
        symptom = msgspec.structs.replace(symptom, explain=_mismatch)
    return re.compile(modules), symptom


AREAS: tuple[tuple[re.Pattern[str], Symptom], ...] = (
    _area(
        "compile-failed",
        "while torch.compile made the model's kernels",
        r"^(?:torch/(?:_inductor|_dynamo|_functorch|fx|_export)|vllm/compilation)/",
        joined(do(_COMPILE_ANEW), no_graphs, _OTHER_RELEASE),
    ),
    _area(
        "exchange-failed",
        "where the experts of the GPUs exchange their tokens",
        r"^(?:deep_ep|nvshmem|pplx_kernels|nixl_ep)/|^vllm/distributed/device_communicators/all2all\.py"
        r"|prepare_finalize",
        do(
            without("all2all_backend", " and let vLLM choose"),
            "Or choose the exchange that needs no library of its own: --all2all-backend allgather_reducescatter.",
            without("enable_expert_parallel", ": tensor parallel alone does without it"),
        ),
    ),
    _area(
        "aiter-failed",
        "in AITER, AMD's library of kernels",
        r"^aiter\w*/",
        do(
            Fix(text="Do without AITER: vLLM has other kernels for AMD cards.", env={"VLLM_ROCM_USE_AITER": "0"}),
            "Or use AMD's image of vLLM, which brings the AITER that goes with it.",
        ),
    ),
    _area(
        "kernel-failed",
        "in a library of kernels",
        r"^(?:triton|flashinfer|deep_gemm|tilelang|cutlass|humming|quack|xformers|flash_attn\w*|deep_ep)/"
        r"|^vllm/(?:third_party|kernels|triton_utils|vllm_flash_attn)/",
        joined(
            do(
                without("attention_backend", " and let vLLM choose"),
                without("moe_backend", " and let vLLM choose"),
                without("linear_backend", " and let vLLM choose"),
            ),
            _of_encoder,
            _of_compiled,
            do("Upgrade vLLM from its wheel or image, which bring the kernel libraries that go with it."),
        ),
    ),
    _area(
        "kv-connector-failed",
        "in the connector that moves KV between servers",
        r"^vllm/distributed/(?:kv_transfer|ec_transfer|kv_events)|^(?:lmcache|nixl\w*|mooncake)/",
        do(
            without("kv_transfer_config", " to see whether the server does without"),
            without("kv_offloading_size", " to see whether the server does without"),
            FEWER_FLAGS_TEXT,
        ),
    ),
    _area(
        "draft-failed",
        "in the code of the draft",
        r"/spec_decode/|^vllm/model_executor/models/\w*(?:mtp|eagle|medusa|dflash|dspark|mlp_speculator)\w*\.py",
        joined(no_draft, _OTHER_RELEASE),
    ),
    _area(
        "lora-failed",
        "in the code of LoRA adapters",
        r"^vllm/lora/|^peft/",
        do("Serve the model without the adapter first (no --enable-lora); then check what it was trained on."),
    ),
    _area(
        "quantization-failed",
        "at the checkpoint's quantization",
        r"^vllm/model_executor/(?:layers/quantization|kernels/linear|layers/fused_moe/oracle)/"
        r"|^(?:compressed_tensors|auto_round|bitsandbytes|gptqmodel|gguf|torchao|modelopt)/",
        joined(
            do(without("quantization", ": config.json names the method")),
            do(without("moe_backend", " and let vLLM choose")),
            do("Use a vLLM that the checkpoint's card names, or a checkpoint in another format."),
        ),
    ),
    _area(
        "attention-failed",
        "in the attention code",
        r"^vllm/(?:v1/)?attention/|^vllm/model_executor/layers/(?:attention|mamba|mla|fla|sparse_attn)",
        joined(
            do(without("attention_backend", " and let vLLM choose")),
            plain_kv,
            no_draft,
            _other_attention,
            _OTHER_RELEASE,
        ),
    ),
    _area(
        "checkpoint-mismatch",
        "while it put the checkpoint's tensors into the model class",
        r"^vllm/model_executor/(?:parameter\.py|(?:model_loader|models|layers)/.*"
        r":(?:\w*weight_loader\w*|load_\w*weights\w*|_load_\w+|load_(?:row|column|merged|qkv)\w*)$)",
        do(
            "Check that config.json belongs to the weights, and that all files are there: `cockpit inspect FOLDER`.",
            "Use a vLLM that the model's card names.",
        ),
    ),
    _area(
        "weights-failed",
        "while it read the weights",
        r"^vllm/model_executor/model_loader/|^safetensors/|^torch/serialization\.py",
        joined(
            do(without("load_format")),
            do("Check that all files of the weights are there and whole: `cockpit inspect FOLDER`."),
        ),
    ),
    _area(
        "experts-failed",
        "in the code of the experts",
        r"^vllm/model_executor/layers/fused_moe/",
        joined(
            do(without("moe_backend", " and let vLLM choose")),
            do(without("enable_expert_parallel")),
            _OTHER_RELEASE,
        ),
    ),
    _area(
        "vision-failed",
        "at the model's image, video or sound part",
        r"^vllm/(?:multimodal|transformers_utils/processors?)\b|^vllm/.*(?:encoder_cache|encoder_cudagraph|(?<![a-z])mm_\w+)\.py"
        r"|^transformers/.*(?:image_process|video_process|processing_|feature_extraction)\w*\.py",
        joined(no_vision, do("Check that the processor's files are the original model's, of the same release.")),
    ),
    _area(
        "model-files-failed",
        "at the model's configuration or tokenizer",
        r"^(?:transformers|tokenizers|mistral_common|sentencepiece|tiktoken|jinja2)/"
        r"|^vllm/(?:transformers_utils|tokenizers)/",
        do(
            "Check config.json and the tokenizer's files against the original model's: `cockpit inspect FOLDER`.",
            "Use a vLLM whose transformers is as new as the model.",
        ),
    ),
    _area(
        "hub-failed",
        "while it asked the hub for the model",
        r"^(?:huggingface_hub|requests|urllib3|httpx|httpcore|aiohttp|modelscope|fsspec|hf_xet)/",
        do(
            "Start again; `hf download REPO` shows what the hub answers.",
            "Or give the path of a folder that has the model.",
        ),
    ),
    _area(
        "ray-failed",
        "in Ray, which starts its workers",
        r"^ray/|^vllm/(?:ray|v1/executor/ray\w*)",
        do(
            "On one machine leave Ray out: --distributed-executor-backend mp.",
            "Over several look at `ray status` on the head: every node needs the same vLLM and Ray.",
        ),
    ),
    _area(
        "ranks-failed",
        "while its ranks met each other",
        r"^vllm/distributed/|^torch/distributed/",
        do(
            "Start it on one GPU (--tensor-parallel-size 1) to see whether the model boots.",
            Fix(text="For NCCL's own reason start once with its log.", env={"NCCL_DEBUG": "INFO"}, aid=True),
        ),
    ),
    _area(
        "parser-failed",
        "in a parser of tools, reasoning or structured output",
        r"^vllm/(?:tool_parsers|reasoning|parser|v1/structured_output|renderers)|^(?:xgrammar|outlines\w*|llguidance)/",
        joined(
            do(without("tool_call_parser", " (with --enable-auto-tool-choice)")),
            do(without("reasoning_parser", ", or use the one that the model's card names")),
            _OTHER_RELEASE,
        ),
    ),
    _area(
        "kv-layout-failed",
        "while it laid out the KV cache",
        r"^vllm/v1/(?:core/(?:kv_cache|single_type|block)|kv_\w+|simple_kv)",
        joined(plain_kv, no_draft, do(without("block_size")), _OTHER_RELEASE),
    ),
    _area(
        "config-refused",
        "at its configuration",
        r"^vllm/(?:config|platforms|entrypoints|plugins|usage)/|^vllm/(?:envs|engine/arg_utils)\.py|^pydantic",
        refused(do("Change or leave out what the message names.")),
    ),
    _area(
        "vllm-fault",
        "in the model's class",
        r"^vllm/model_executor/models/",
        joined(
            _OTHER_RELEASE,
            do(added("model_impl=transformers", "Or add --model-impl transformers, which does without that class.")),
            no_draft,
        ),
    ),
    _area(
        "vllm-fault",
        "in the engine",
        r"^vllm/\w+/",
        joined(_OTHER_RELEASE, no_draft, FEWER_FLAGS),
    ),
    _area(
        "vllm-fault",
        "in PyTorch",
        r"^torch/",
        joined(_OTHER_RELEASE, no_graphs),
    ),
)
"""By module and function, ``vllm/v1/engine/core.py:run_engine_core``; of one frame the first that fits."""
