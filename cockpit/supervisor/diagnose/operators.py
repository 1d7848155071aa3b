"""Operators that a build of vLLM does not have, or not for this kind of device or card."""

from __future__ import annotations

import re

from cockpit.supervisor.diagnose.types import Evidence, Fix, Symptom
from cockpit.supervisor.diagnose.words import do, say

_OF_A_CARD = r"\w*(?:marlin|machete|cutlass|fp4|fp8_blockwise|awq_dequantize|awq_gemm|allspark|hadacore|flashmla)\w*"
"""Operators that are compiled for NVIDIA, and there for some cards only."""


_OF_QUANTIZED = r"quant|scaled|awq|gptq|marlin|fp8|int8|fp4"


def _on_cpu(seen: Evidence) -> bool:
    text, version = seen.incident.text, seen.boot.facts.vllm_version or ""
    told = (
        "cpu" in (seen.arguments.get("platform"), seen.arguments.get("device"))
        or "cpu" in version
        or seen.in_frames(r"^cpu\w*\.py:")
    )
    return told or "'cpu_" in text or "onednn" in text


def _other_checkpoint(seen: Evidence) -> list[Fix]:
    return [
        Fix(text="Use the model without quantization (bf16), or in a format that the CPU build has (AWQ, GPTQ)."),
        Fix(text="Or serve it on a GPU."),
    ]


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        id="cpu-operator",
        patterns=(r"'_OpNamespace' '_\w*C\w*' object has no attribute '(?P<op>\w+)'",),
        when=_on_cpu,
        versions="0.8 to 0.33, CPU",
        explain=say(
            "The CPU build has no {op} for this processor: its kernels for quantized weights need AVX-512 (on x86), "
            "and are left out where the build or the processor has none.",
            "The CPU build lacks an operator for this processor, most often for want of AVX-512.",
        ),
        fixes=do(
            "Use the model without quantization (bf16): `grep -c avx512f /proc/cpuinfo` says 0 where the processor "
            "lacks AVX-512.",
            "Where it has AVX-512, install the official CPU wheel or image: other builds may lack the kernel.",
        ),
    ),
    Symptom(
        id="operator-of-other-cards",
        patterns=(rf"'_OpNamespace' '_\w*C\w*' object has no attribute '(?P<op>{_OF_A_CARD})'",),
        versions="0.6 to 0.33",
        explain=say(
            "This build of vLLM has no kernel {op}: it is compiled for NVIDIA cards of a certain kind only, so that "
            "builds for AMD and for other cards lack it.",
            "This build of vLLM has no such kernel, which is compiled for certain NVIDIA cards only.",
        ),
        fixes=do(
            "On AMD use the model in another format (FP8, plain GPTQ, unquantized): Marlin and CUTLASS are NVIDIA's.",
            "On NVIDIA install the official wheel or image: a build of one's own has the kernels of the cards in "
            "TORCH_CUDA_ARCH_LIST only.",
        ),
    ),
    Symptom(
        id="wrong-build",
        patterns=(r"Could not run '\w+::(?P<op>\w+)' with arguments from the 'CPU' backend",),
        when=lambda seen: _on_cpu(seen) or re.search(_OF_QUANTIZED, seen.groups.get("op", "")) is not None,
        versions="any, CPU",
        explain=say(
            "The CPU build has no {op}: the checkpoint's quantization is one for GPUs.",
            "The CPU build lacks an operator: the checkpoint's quantization is one for GPUs.",
        ),
        fixes=_other_checkpoint,
    ),
    Symptom(
        id="wrong-build",
        patterns=(r"Torch not compiled with CUDA enabled",),
        when=lambda seen: _on_cpu(seen) and seen.in_frames(r"quant|awq|gptq|marlin|fp8|fused_moe"),
        versions="0.5 to 0.33, CPU",
        explain=say("The code of the checkpoint's quantization asks for a GPU, and this is the CPU build."),
        fixes=_other_checkpoint,
    ),
    Symptom(
        id="aiter",
        patterns=(
            r"GPU archs of \[[^\]]{1,80}\] (?:is|are) invalid or not supported",
            r"No module named 'aiter[\w.]*'",
            r"\[aiter\][^\n]{0,120}(?:failed|error|not support)",
        ),
        versions="0.8 to 0.33, ROCm",
        explain=say(
            "AITER, AMD's library of kernels, does not know this card or is not whole: it is made for Instinct cards."
        ),
        fixes=do(
            Fix(text="Do without AITER: vLLM has other kernels for AMD cards.", env={"VLLM_ROCM_USE_AITER": "0"}),
            "Or use AMD's image of vLLM, which brings the AITER that goes with it.",
        ),
    ),
)
