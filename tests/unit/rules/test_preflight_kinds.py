"""Every kind of failure that can be seen coming is said before the boot. The kinds are those of real reports."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import pytest
from made_checkpoints import checkpoint, quantized, scheme

from cockpit.catalog.slug import Slug, Weights
from cockpit.checkpoint.types import Beside, Checkpoint, LinearAttention, Sizes
from cockpit.rig.flags import EngineFlags
from cockpit.rig.help_text import Flag
from cockpit.rig.types import Engine, Gpu, HostFacts, Rig
from cockpit.rules.context import Context
from cockpit.rules.finding import Finding
from cockpit.rules.host import flag_findings
from cockpit.rules.plan_rules import plan_findings
from cockpit.units import GIB

W4 = Weights(format="auto-round", repo="o/n", bits=4, symmetric=True, group_size=128)
ENGINE = Engine(
    id="e",
    path="/e/vllm",
    python="/e/python",
    package="/e",
    version="0.33.0",
    platform="cuda",
    cuda=(13, 0),
    python_headers=True,
    models=("Qwen3ForCausalLM",),
    tool_parsers=("hermes", "qwen3_coder"),
    reasoning_parsers=("qwen3", "glm45"),
)
HOST = HostFacts(
    shared_memory_total_bytes=16 * GIB,
    shared_memory_free_bytes=16 * GIB,
    compiler="/usr/bin/gcc",
    token="HF_TOKEN",
    model_cache="/cache",
    model_cache_free_bytes=500 * GIB,
    cuda_toolkit=(13, 0),
    cache_rooms={"/home/u/.cache/vllm": 90 * GIB},
    cached_repos=frozenset({"o/n"}),
)
WHOLE = Beside(tokenizer=True, chat_template=True, gguf=False)
GOOD = checkpoint(beside=WHOLE)
NEEDS_CODE = checkpoint(beside=msgspec.structs.replace(WHOLE, config_code=("odd_vl", "configuration_odd.OddConfig")))
TYPES = ("llama", "qwen3")
HEADLESS = checkpoint(quantized(scheme(), lm_head=scheme()), beside=WHOLE, vision=True)
GDN = LinearAttention(key_heads=16, value_heads=32, key_head_dim=128, value_head_dim=128, conv_kernel=4)


def sizes(gib: float, estimated: bool = False) -> Sizes:
    total = int(gib * GIB)
    return Sizes(total=total, body=total, embed_tokens=0, lm_head=0, mtp=0, vision=0, estimated=estimated)


def gpus(name: str = "NVIDIA GeForce RTX 3090", capability: tuple[int, int] = (8, 6), used: float = 0.3) -> Rig:
    cards = tuple(
        Gpu(
            index=index,
            uuid=f"GPU-{index}",
            name=name,
            total_bytes=24 * GIB,
            used_bytes=int(used * GIB),
            capability=capability,
        )
        for index in (0, 1)
    )
    return Rig(gpus=cards, driver_cuda=(13, 0), memory_total_bytes=64 * GIB, memory_available_bytes=50 * GIB)


def findings(
    *,
    of: Checkpoint | None = GOOD,
    rig: Rig | None = None,
    engine: Engine | None = ENGINE,
    host: HostFacts = HOST,
    slug: dict[str, Any] | None = None,
    values: dict[str, Any] | None = None,
    **facts: Any,
) -> list[Finding]:
    """What is said of a plan that nothing stands against, with changes."""
    said = {"name": "vllm/a", "model": "A", "weights": W4, "max_model_len": 4096, **(slug or {})}
    plain = {"gpus": (0, 1), "tensor_parallel": 2, "max_model_len": 4096, "kv_cache_dtype": "auto", "port": 8000}
    ctx = Context(
        slug=Slug(**said),
        checkpoint=of,
        rig=rig or gpus(),
        engine=engine,
        host=host,
        values={**plain, "host": "127.0.0.1", **(values or {})},
        **facts,
    )
    return list(plan_findings(ctx))


def changed(base: Any, **fields: Any) -> Any:
    return msgspec.structs.replace(base, **fields)


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


@pytest.mark.parametrize(
    ("of", "rule"),
    [
        ({"host": changed(HOST, unwritable=("/cache",))}, "cache-unwritable"),
        (
            {"slug": {"env": {"VLLM_CACHE_ROOT": "/v"}}, "host": changed(HOST, unwritable=("/home/u/.cache/vllm",))},
            "cache-unwritable",
        ),
        (
            {"slug": {"env": {"TMPDIR": "/tmp"}}, "host": changed(HOST, socket_folder="/scratch/" + "x" * 70)},
            "socket-path",
        ),
        ({"host": changed(HOST, socket_folder="/tmp"), "slug": {"env": {}}}, "socket-path"),
        (
            {
                "slug": {"env": {"VLLM_RPC_BASE_PATH": "/tmp"}},
                "host": changed(HOST, socket_folder="/scratch/" + "x" * 70),
            },
            "socket-path",
        ),
        (
            {"slug": {"flags": {"max-num-batched-tokens": 2048}}, "values": {"max_num_seqs": 2048}},
            "batched-tokens",
        ),
        (
            {"slug": {"flags": {"enable-auto-tool-choice": True, "tool-call-parser": "hermes"}}},
            "flag-needs",
        ),
        ({"slug": {"flags": {"tool-call-parser": "of-another-vllm"}}}, "parser-unknown"),
        (
            {"slug": {"flags": {"reasoning-parser": "mine", "reasoning-parser-plugin": "/p/mine.py"}}},
            "parser-unknown",
        ),
        ({"slug": {"flags": {"reasoning-parser": "qwen3"}}}, "parser-unknown"),
        ({"of": checkpoint(dual_chunk=True, model_type="other", beside=WHOLE)}, "dual-chunk"),
        (
            {"slug": {"flags": {"reasoning-parser": "x"}}, "engine": changed(ENGINE, reasoning_parsers=None)},
            "parser-unknown",
        ),
        (
            {
                "of": checkpoint(beside=changed(WHOLE, tokenizer_of_5="has extra_special_tokens as a list")),
                "engine": changed(ENGINE, transformers="5.16.1"),
            },
            "tokenizer-newer",
        ),
        (
            {
                "of": checkpoint(beside=changed(WHOLE, tokenizer_of_5="has extra_special_tokens as a list")),
                "engine": changed(ENGINE, transformers="4.57.6"),
                "slug": {"flags": {"tokenizer": "o/original"}},
            },
            "tokenizer-newer",
        ),
        ({"of": NEEDS_CODE}, "remote-code"),
        ({"of": NEEDS_CODE, "engine": changed(ENGINE, config_types=(*TYPES, "odd_vl"))}, "remote-code"),
        (
            {
                "of": NEEDS_CODE,
                "engine": changed(ENGINE, config_types=TYPES),
                "slug": {"flags": {"trust-remote-code": True}},
            },
            "remote-code",
        ),
        (
            {
                "of": NEEDS_CODE,
                "engine": changed(ENGINE, config_types=TYPES),
                "slug": {"flags": {"hf-overrides": '{"model_type": "llama"}'}},
            },
            "remote-code",
        ),
        ({"slug": {"flags": {"quantization": "awq"}}}, "quantization-differs"),
        (
            {
                "of": checkpoint(quantized(method="none"), beside=WHOLE),
                "slug": {"flags": {"quantization": "fp8"}, "weights": Weights(format="bf16", repo="o/n")},
            },
            "quantization-differs",
        ),
        (
            {
                "of": checkpoint(quantized(scheme(), method="gptq"), beside=WHOLE),
                "slug": {"flags": {"quantization": "gptq_marlin"}, "weights": changed(W4, format="gptq")},
            },
            "quantization-differs",
        ),
        ({"slug": {"flags": {"pipeline-parallel-size": 2}}, "values": {"tensor_parallel": 1}}, "ranks"),
        ({"slug": {"flags": {"data-parallel-size": 8, "data-parallel-address": "10.0.0.1"}}}, "ranks"),
        ({"slug": {"flags": {"pipeline-parallel-size": True}}}, "ranks"),
        (
            {
                "of": checkpoint(attention_heads=8, kv_heads=1, beside=WHOLE),
                "slug": {"flags": {"decode-context-parallel-size": 2}},
            },
            "decode-context",
        ),
        (
            {
                "of": checkpoint(model_type="deepseek_v3", beside=WHOLE),
                "slug": {"flags": {"decode-context-parallel-size": 2}},
            },
            "decode-context",
        ),
        ({"slug": {"flags": {"enable-dbo": True, "all2all-backend": "deepep_low_latency"}}}, "microbatches"),
        ({"of": checkpoint(model_type="gemma3_text", beside=WHOLE)}, "float16-refused"),
        ({"values": {"kv_cache_dtype": "fp8_e4m3"}}, "kv-fp8-triton"),
        (
            {
                "slug": {"flags": {"attention-backend": "TRITON_ATTN"}},
                "values": {"kv_cache_dtype": "fp8_e4m3"},
                "rig": gpus("NVIDIA GeForce RTX 4090", (8, 9)),
            },
            "kv-fp8-triton",
        ),
    ],
)
def test_what_is_in_order_is_not_complained_about(of: dict[str, Any], rule: str) -> None:
    assert rule not in {finding.rule for finding in findings(**of)}


def test_unknown_flags_and_the_forms_that_only_look_unknown() -> None:
    known = EngineFlags(
        version="0.33.0",
        flags={
            name: Flag(names=(name,), takes_value=True)
            for name in ("--kv-cache-memory-bytes", "--max-model-len", "--speculative-config")
        },
    )
    (finding,) = flag_findings(["--swap-space", "4"], known)
    assert (finding.rule, finding.severity) == ("flag-unknown", "block")
    fine = ["--kv-cache-memory=9", "--max_model_len", "32k", "--speculative-config.method", "mtp"]
    assert list(flag_findings(fine, known)) == []


CHOOSY = EngineFlags(
    version="0.33.0",
    flags={
        "--moe-backend": Flag(names=("--moe-backend",), takes_value=True, choices=("auto", "flashinfer_cutlass")),
        "--dtype": Flag(names=("--dtype",), takes_value=True, choices=("auto", "half")),
        "--kv-cache-dtype": Flag(names=("--kv-cache-dtype",), takes_value=True, choices=("auto",)),
        "--seed": Flag(names=("--seed",), takes_value=True),
    },
)


@pytest.mark.parametrize("words", [["--dtype", "int4"], ["--dtype=int4"], ["--seed", "1", "--dtype", "int4"]])
def test_values_that_an_option_does_not_take_are_said_with_those_that_it_takes(words: list[str]) -> None:
    (finding,) = flag_findings(words, CHOOSY)
    assert (finding.rule, finding.severity) == ("flag-value", "block")
    assert "int4 for --dtype" in finding.message and finding.fix == "It takes auto, half."


def test_the_value_that_was_meant_is_named_first() -> None:
    (finding,) = flag_findings(["--dtype", "halff"], CHOOSY)
    assert finding.fix == "Set it to half? It takes auto, half."


@pytest.mark.parametrize(
    "words",
    [
        ["--dtype", "half", "--moe-backend", "FlashInfer-CUTLASS"],
        ["--kv-cache-dtype", "fp9"],
        ["--dtype"],
        ["--dtype="],
        ["--dtype", "--seed", "1"],
        ["--", "--dtype", "int4"],
    ],
)
def test_values_that_are_taken_or_none_are_not_complained_about(words: list[str]) -> None:
    assert list(flag_findings(words, CHOOSY)) == []


@pytest.mark.parametrize(
    ("flags", "rule"),
    [
        ({"tokenizer": "o/n"}, "tokenizer-missing"),
        ({"skip-tokenizer-init": True}, "tokenizer-missing"),
        ({"chat-template": "/x.jinja"}, "chat-template-missing"),
    ],
)
def test_what_the_slug_brings_itself_is_not_missed(flags: dict[str, Any], rule: str) -> None:
    lacking = Beside(tokenizer=rule != "tokenizer-missing", chat_template=False, gguf=False)
    bare = checkpoint(beside=lacking, sizes=sizes(17))
    assert rule in {finding.rule for finding in findings(of=bare)}
    assert rule not in {finding.rule for finding in findings(of=bare, slug={"flags": flags})}
