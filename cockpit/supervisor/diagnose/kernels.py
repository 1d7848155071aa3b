"""Libraries of kernels: what they have no kernel for, and kernels that do not compile for a card."""

from __future__ import annotations

import re

from cockpit.supervisor.diagnose.types import Evidence, Fix, Symptom
from cockpit.supervisor.diagnose.words import do, joined, plain_kv, say, without

_SPARSE = r":(?:fp8_\w*mqa_logits|\w*sparse_attn_indexer\w*|tf32_hc_\w+|mhc_\w+)$"
"""Sparse attention, which has no other kernels than DeepGEMM's."""
_DEEP_GEMM_REASON = re.compile(r"(?:Assertion error|CUDA \w+ error) \([^)\n]{1,300}\): (?P<reason>[^\n]{3,120})")
_NO_DEEP_GEMM = Fix(text="Do without DeepGEMM: vLLM has other FP8 kernels.", env={"VLLM_USE_DEEP_GEMM": "0"})


def _deep_gemm(seen: Evidence) -> str:
    told = _DEEP_GEMM_REASON.search(seen.incident.text)
    reason = "" if told is None else f" ({told['reason'].strip().rstrip('.')})"
    return (
        f"DeepGEMM, which vLLM multiplies FP8 weights with, failed{reason}: it has no kernel that works for these "
        "weights on this card, or could not build one."
    )


def _deep_gemm_fixes(seen: Evidence) -> list[Fix]:
    if seen.in_frames(_SPARSE) and "Unsupported architecture" in seen.incident.text:
        return [
            Fix(text="Use an H100, B200 or newer card: this part of the model has no other kernel in this release."),
            Fix(text="Or use a newer vLLM, which may have one for this card."),
        ]
    other = [] if seen.in_frames(_SPARSE) else [_NO_DEEP_GEMM]
    return [*other, Fix(text="Or use another release of vLLM: its wheel brings the DeepGEMM that it goes with.")]


def _deep_gemm_missing_fixes(seen: Evidence) -> list[Fix]:
    brings = Fix(
        text="Use a newer release of vLLM from its wheel or image, which bring DeepGEMM, or install deep_gemm."
    )
    return [brings] if seen.in_frames(_SPARSE) else [_NO_DEEP_GEMM, brings]


_OTHER_BACKENDS = do(
    without("moe_backend", " and let vLLM choose, or name another (marlin)"),
    without("attention_backend", " and let vLLM choose"),
)
_OTHER_TRITON = do(
    "Use another release of vLLM, with the Triton that it brings: `uv pip install vllm` into a new venv."
)
_TRITON = say(
    "Triton could not compile one of vLLM's kernels: its version, the card and the types in use do not go together."
)

SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        id="deep-gemm-missing",
        patterns=(
            r"DeepGEMM (?:backend )?is not available",
            r"deep_gemm\.\w+\(\) (?:got|missing)",
            r"module 'deep_gemm' has no attribute",
        ),
        versions="0.10 to 0.33",
        explain=say("vLLM needs DeepGEMM for this model's FP8 kernels, and its environment has none, or an old one."),
        fixes=_deep_gemm_missing_fixes,
    ),
    Symptom(
        id="deep-gemm",
        patterns=(r"(?:Assertion error|CUDA \w+ error) \([^)\n]{0,300}(?:deepgemm|deep_gemm)[^)\n]*\): (?!2 )",),
        versions="0.10 to 0.33",
        explain=_deep_gemm,
        fixes=_deep_gemm_fixes,
    ),
    Symptom(
        id="deep-gemm",
        patterns=(
            r"Assertion error \(",
            r"CUDA (?:driver|runtime) error \([^)\n]{1,300}\): (?!2 )",
            r"NVCC compilation failed",
            r"^AssertionError\b",
        ),
        frames=r"^(?:deep_gemm|fp8_utils|deep_gemm_\w+)\.py:(?:\w*gemm\w*|transform_sf\w*|get_\w*layout\w*)$",
        versions="0.10 to 0.33",
        explain=_deep_gemm,
        fixes=_deep_gemm_fixes,
    ),
    Symptom(
        id="triton-card",
        patterns=(
            r"Feature '(?P<what>[^'\n]{1,60})' not supported on \.target '?(?P<card>sm_\w+)",
            r"Feature '(?P<what>[^'\n]{1,60})' requires \.target (?P<least>sm_\w+)",
        ),
        versions="0.10 to 0.33",
        explain=say(
            "A Triton kernel of vLLM uses {what}, which this card does not have.",
            "A Triton kernel of vLLM uses what this card does not have.",
        ),
        fixes=joined(
            _OTHER_BACKENDS,
            do("Upgrade vLLM, or use a checkpoint in another format: no setting gives a card what it has not."),
        ),
    ),
    Symptom(
        id="triton-kernel",
        patterns=(
            r"PassManager::run failed",
            r"LLVM ERROR: ",
            r"a runtime memory allocation, but no allocator was set",
            r"KeyError: 'float(?:8|4)_\w+'",
        ),
        versions="any",
        explain=_TRITON,
        fixes=joined(plain_kv, _OTHER_BACKENDS, _OTHER_TRITON),
    ),
    Symptom(
        id="triton-kernel",
        patterns=(r"CompilationError: at \d+:\d+", r"^AssertionError\b"),
        frames=r"^(?:code_generator|semantic|core|compiler|utils)\.py:(?:ast_to_ttir|make_ir|convert_custom_float8\w*)$",
        when=lambda seen: "torch/_inductor" not in seen.incident.modules,
        versions="any",
        explain=_TRITON,
        fixes=joined(plain_kv, _OTHER_BACKENDS, _OTHER_TRITON),
    ),
)
