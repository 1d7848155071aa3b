"""Every kind of failure that can be seen coming is said before the boot. The kinds are those of real reports."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from made_checkpoints import checkpoint, quantized, scheme
from made_plans import (
    ENGINE,
    GDN,
    HEADLESS,
    HOST,
    KNOWN,
    NEEDS_CODE,
    OWN_PROCESSOR,
    OWN_TOKENIZER,
    TYPES,
    W4,
    WHOLE,
    changed,
    findings,
    gpus,
    sizes,
)

from cockpit.catalog.slug import Weights
from cockpit.rig.types import Rig
from cockpit.units import GIB


class Kind(NamedTuple):
    """Arguments of `findings`, the rule that must speak, and how strongly."""

    of: dict[str, Any]
    rule: str
    severity: str


WSL = changed(gpus(used=2.0), wsl=True)
KINDS = {
    "mamba-blocks": Kind(
        {"of": checkpoint(layers={"linear_attention": 48, "full_attention": 16}, linear_attention=GDN, beside=WHOLE)},
        "hybrid-sequences",
        "warn",
    ),
    "free-below-util": Kind({"rig": gpus(used=3.0)}, "memory-in-use", "block"),
    "free-below-util on WSL": Kind(
        {"rig": changed(gpus(used=0.3), wsl=True), "values": {"gpu_memory_utilization": 0.95}},
        "memory-in-use",
        "block",
    ),
    "host-ram": Kind(
        {"rig": changed(WSL, memory_total_bytes=15 * GIB), "of": checkpoint(beside=WHOLE, sizes=sizes(17.7))},
        "host-memory",
        "warn",
    ),
    "host-ram on the CPU": Kind(
        {
            "of": checkpoint(beside=WHOLE, sizes=sizes(70)),
            "slug": {"platform": "cpu"},
            "engine": changed(ENGINE, platform="cpu"),
        },
        "host-memory",
        "block",
    ),
    "tp-on-the-cpu": Kind(
        {
            "of": checkpoint(attention_heads=30, kv_heads=10, beside=WHOLE),
            "slug": {"platform": "cpu"},
            "values": {"tensor_parallel": 4},
            "engine": changed(ENGINE, platform="cpu"),
        },
        "heads",
        "block",
    ),
    "tp-of-no-effect": Kind(
        {
            "of": checkpoint(attention_heads=32, kv_heads=8, beside=WHOLE),
            "slug": {"platform": "cpu"},
            "values": {"tensor_parallel": 4},
            "engine": changed(ENGINE, platform="cpu"),
        },
        "one-worker",
        "warn",
    ),
    "cpu-pool-of-nothing": Kind(
        {
            "slug": {"platform": "cpu", "env": {"VLLM_CPU_KVCACHE_SPACE": "0"}},
            "engine": changed(ENGINE, platform="cpu"),
        },
        "cpu-pool-size",
        "block",
    ),
    "cpu-pool-of-half-a-gib": Kind(
        {
            "slug": {"platform": "cpu", "env": {"VLLM_CPU_KVCACHE_SPACE": "0.5"}},
            "engine": changed(ENGINE, platform="cpu"),
        },
        "cpu-pool-size",
        "block",
    ),
    "wsl-expandable-segments": Kind(
        {"rig": WSL, "host": changed(HOST, expandable_segments=True)}, "wsl-segments", "block"
    ),
    "nccl-p2p-hang": Kind(
        {"rig": gpus("NVIDIA GeForce RTX 4090", (8, 9)), "slug": {"env": {"NCCL_P2P_DISABLE": "0"}}}, "p2p-on", "warn"
    ),
    "shm-too-small": Kind({"host": changed(HOST, shared_memory_free_bytes=64 << 20)}, "shared-memory", "block"),
    "tp-divisibility": Kind(
        {"of": checkpoint(attention_heads=30, kv_heads=10, beside=WHOLE), "values": {"tensor_parallel": 4}},
        "heads",
        "block",
    ),
    "port-in-use": Kind({"port_owner": "python3 (pid 9)"}, "port-taken", "block"),
    "env-isolation": Kind({"engine": None}, "engine-missing", "block"),
    "transformers-too-old": Kind(
        {"of": checkpoint(architecture="Qwen9ForCausalLM", beside=WHOLE)}, "architecture", "warn"
    ),
    "tokenizer-missing": Kind(
        {"of": checkpoint(beside=changed(WHOLE, tokenizer=False), sizes=sizes(17))}, "tokenizer-missing", "block"
    ),
    "tokenizer-broken": Kind(
        {"of": checkpoint(beside=changed(WHOLE, tokenizer_fault="is empty"), sizes=sizes(17))},
        "tokenizer-broken",
        "block",
    ),
    "chat-template-missing": Kind(
        {"of": checkpoint(beside=changed(WHOLE, chat_template=False), sizes=sizes(17))},
        "chat-template-missing",
        "warn",
    ),
    "model-not-found": Kind(
        {"of": None, "checkpoint_problem": "/models/x: no such folder or file"}, "checkpoint-unreadable", "block"
    ),
    "gated-repo": Kind({"of": None, "host": changed(HOST, token=None, cached_repos=frozenset())}, "no-token", "note"),
    "disk-full": Kind(
        {
            "of": None,
            "slug": {"weights": changed(W4, size_gib=18)},
            "host": changed(HOST, cached_repos=frozenset(), model_cache_free_bytes=3 * GIB),
        },
        "download-room",
        "block",
    ),
    "permission": Kind({"host": changed(HOST, unwritable=("/home/u/.cache/vllm",))}, "cache-unwritable", "block"),
    "permission of a download": Kind(
        {"of": None, "host": changed(HOST, unwritable=("/cache",), cached_repos=frozenset())},
        "cache-unwritable",
        "block",
    ),
    "path-too-long": Kind({"host": changed(HOST, socket_folder="/scratch/" + "x" * 70)}, "socket-path", "block"),
    "path-too-long by the slug": Kind(
        {"slug": {"env": {"VLLM_RPC_BASE_PATH": "/scratch/" + "x" * 70}}}, "socket-path", "block"
    ),
    "file-missing": Kind({"missing_files": ("/templates/a.jinja",)}, "flag-file", "block"),
    "batched-tokens": Kind(
        {"slug": {"flags": {"max-num-batched-tokens": 128}}, "values": {"max_num_seqs": 256}},
        "batched-tokens",
        "block",
    ),
    "batched-tokens without chunks": Kind(
        {"slug": {"flags": {"max-num-batched-tokens": 2048, "no-enable-chunked-prefill": True}}},
        "batched-tokens",
        "block",
    ),
    "tool-parser": Kind({"slug": {"flags": {"enable-auto-tool-choice": True}}}, "flag-needs", "block"),
    "tool-parser-unknown": Kind(
        {"slug": {"flags": {"enable-auto-tool-choice": True, "tool-call-parser": "qwen3coder"}}},
        "parser-unknown",
        "block",
    ),
    "reasoning-parser-unknown": Kind(
        {"slug": {"flags": {"reasoning-parser": "deepseek_r9"}}}, "parser-unknown", "block"
    ),
    "trust-remote-code": Kind(
        {"of": NEEDS_CODE, "engine": changed(ENGINE, config_types=TYPES)}, "remote-code", "warn"
    ),
    "trust-remote-code for the tokenizer": Kind(
        {"of": OWN_TOKENIZER, "engine": changed(ENGINE, **KNOWN)}, "remote-code", "warn"
    ),
    "trust-remote-code for images": Kind(
        {"of": OWN_PROCESSOR, "engine": changed(ENGINE, **KNOWN)}, "remote-code", "note"
    ),
    "dual-chunk": Kind({"of": checkpoint(dual_chunk=True, model_type="qwen2", beside=WHOLE)}, "dual-chunk", "block"),
    "tokenizer-newer": Kind(
        {
            "of": checkpoint(beside=changed(WHOLE, tokenizer_of_5="names the class TokenizersBackend")),
            "engine": changed(ENGINE, transformers="4.57.6"),
        },
        "tokenizer-newer",
        "block",
    ),
    "quantization of none": Kind(
        {
            "of": checkpoint(quantized(method="none"), beside=WHOLE),
            "slug": {"flags": {"quantization": "gptq"}, "weights": Weights(format="bf16", repo="o/n")},
        },
        "quantization-differs",
        "block",
    ),
    "quantization-mismatch": Kind(
        {
            "of": checkpoint(quantized(scheme(), method="compressed-tensors"), beside=WHOLE),
            "slug": {"flags": {"quantization": "awq"}, "weights": changed(W4, format="compressed-tensors")},
        },
        "quantization-differs",
        "block",
    ),
    "too-few-gpus": Kind({"slug": {"flags": {"pipeline-parallel-size": 2}}}, "ranks", "block"),
    "too-few-gpus for replicas": Kind({"slug": {"flags": {"data-parallel-size": "4"}}}, "ranks", "block"),
    "context-parallel": Kind({"slug": {"flags": {"decode-context-parallel-size": 2}}}, "decode-context", "block"),
    "context-parallel of an odd split": Kind(
        {"of": None, "slug": {"flags": {"decode-context-parallel-size": 3}}}, "decode-context", "block"
    ),
    "context-parallel of query heads": Kind(
        {
            "of": checkpoint(attention_heads=9, kv_heads=1, beside=WHOLE),
            "slug": {"flags": {"decode-context-parallel-size": 2}},
        },
        "decode-context",
        "block",
    ),
    "microbatching": Kind({"slug": {"flags": {"enable-dbo": True}}}, "microbatches", "block"),
    "fp16-not-supported": Kind(
        {"of": checkpoint(model_type="gemma3_text", beside=WHOLE), "slug": {"flags": {"dtype": "half"}}},
        "float16-refused",
        "block",
    ),
    "kv-dtype-card": Kind(
        {"slug": {"flags": {"attention-backend": "TRITON_ATTN"}}, "values": {"kv_cache_dtype": "fp8_e4m3"}},
        "kv-fp8-triton",
        "block",
    ),
    "disk-full of caches": Kind({"host": changed(HOST, cache_rooms={"/root": GIB})}, "cache-room", "warn"),
    "max-len-over-derived": Kind({"values": {"max_model_len": 50_000}}, "context-native", "block"),
    "driver-too-old-container": Kind({"rig": changed(gpus(), driver_cuda=(12, 9))}, "driver-cuda", "block"),
    "no-kernel-image": Kind(
        {"rig": gpus("NVIDIA GeForce RTX 5090", (12, 0)), "engine": changed(ENGINE, cuda=(12, 4))},
        "gpu-too-new",
        "block",
    ),
    "no-kernel-image for Volta": Kind({"rig": gpus("Tesla V100", (7, 0))}, "gpu-too-old", "block"),
    "libcudart-missing": Kind({"engine": changed(ENGINE, cuda=(12, 9), kernels_cuda=13)}, "cuda-mismatch", "block"),
    "fa3-or-cc": Kind(
        {"rig": gpus("Tesla T4", (7, 5)), "slug": {"flags": {"dtype": "bfloat16"}}}, "bfloat16-capability", "block"
    ),
    "python-headers": Kind({"engine": changed(ENGINE, python_headers=False)}, "python-headers", "warn"),
    "toolkit-too-old": Kind(
        {"rig": gpus("NVIDIA GeForce RTX 5090", (12, 0)), "host": changed(HOST, cuda_toolkit=(12, 4))},
        "cuda-toolkit",
        "warn",
    ),
    "quantized-lm-head": Kind({"of": HEADLESS}, "quantized-lm-head", "warn"),
    "marlin-w8a8": Kind({"host": changed(HOST, inherited=("VLLM_USE_V1",))}, "inherited-variables", "warn"),
    "gguf": Kind(
        {"of": checkpoint(beside=changed(WHOLE, gguf=True), sizes=sizes(17, estimated=True))}, "gguf", "block"
    ),
    "nvml-mismatch": Kind(
        {"rig": Rig(gpu_problem="no NVIDIA driver: Driver/library version mismatch.")}, "gpu-missing", "block"
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_kind_is_said_before_the_boot_with_what_to_do(kind: str) -> None:
    case = KINDS[kind]
    said = {finding.rule: finding for finding in findings(**case.of)}
    assert case.rule in said, sorted(said)
    finding = said[case.rule]
    assert finding.severity == case.severity
    assert finding.fix and finding.message


def test_nothing_of_all_this_is_said_of_a_good_plan() -> None:
    said = {finding.rule for finding in findings()}
    assert said.isdisjoint({kind.rule for kind in KINDS.values()})
    assert not [finding for finding in findings() if finding.severity == "block"]
