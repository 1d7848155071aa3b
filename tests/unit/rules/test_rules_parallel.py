"""Tensor parallel, KV type, context, sequences and memory: each rule where it fires, and where it must not."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_checkpoints import GDN, checkpoint

from cockpit.catalog.slug import Slug, Speculative, Weights
from cockpit.checkpoint.types import Checkpoint, LinearAttention
from cockpit.rig.types import Engine, Gpu, Rig
from cockpit.rules.context import Context
from cockpit.rules.finding import Finding
from cockpit.rules.parallel import RULES, keeps_state, unshared
from cockpit.rules.plan_rules import refusals
from cockpit.units import GIB

W4 = Weights(format="auto-round", repo="o/n", bits=4, symmetric=True)
ENGINE = Engine(
    id="e", path="/e/vllm", python="/e/python", package="/e", version="0.26.0", platform="cuda",
    kv_cache_dtypes=("auto", "bfloat16", "fp8_e4m3", "nvfp4"),
)  # fmt: skip
DFLASH = Speculative(method="dflash", tokens=4, model="o/draft")


def gpu(
    index: int = 0, capability: tuple[int, int] | None = (8, 6), total: float | None = 24, used: float | None = 0,
    usable: float | None = None,
) -> Gpu:  # fmt: skip
    """Sizes in GiB."""
    sizes = [None if size is None else int(size * GIB) for size in (total, used, usable)]
    return Gpu(
        index=index, uuid=f"GPU-{index}", name="a card", capability=capability,
        total_bytes=sizes[0], used_bytes=sizes[1], usable_bytes=sizes[2],
    )  # fmt: skip


def context(
    of: Checkpoint | None = None, *, gpus: tuple[Gpu, ...] = (gpu(0), gpu(1)), weights: Weights = W4,
    platform: Any = "cuda", speculative: Speculative | None = None, vllm: Engine | None = ENGINE,
    holders: dict[int, str] | None = None, **values: Any,
) -> Context:  # fmt: skip
    """Two cards of 24 GiB with nobody on them, and the values of some toggles."""
    slug = Slug(
        name="vllm/a", model="A", weights=weights, max_model_len=4096, platform=platform, speculative=speculative
    )
    chosen = () if platform == "cpu" else (0, 1)
    return Context(
        slug=slug, checkpoint=of, rig=Rig(gpus=gpus), engine=vllm, gpu_holders=holders or {},
        values={"gpus": chosen, "tensor_parallel": max(1, len(chosen)), "max_model_len": 4096, "max_num_seqs": 8}
        | values,
    )  # fmt: skip


def found(ctx: Context) -> list[Finding]:
    return [finding for rule in RULES for finding in rule(ctx)]


HYBRID = checkpoint(layers={"linear_attention": 48, "full_attention": 16}, linear_attention=GDN)
ODD_GDN = LinearAttention(key_heads=6, value_heads=32, key_head_dim=128, value_head_dim=128, conv_kernel=4)


class Case(NamedTuple):
    """A plan and its one finding; a rule of None is no finding at all."""

    ctx: Context
    rule: str | None
    severity: str = "block"
    level: str = "rig"
    says: str = ""
    fix: str = ""


CASES: dict[str, Case] = {
    "a fit plan": Case(context(checkpoint()), None),
    "no checkpoint": Case(context(tensor_parallel=3), None),
    # Heads.
    "32 heads on 3 GPUs": Case(
        context(checkpoint(), tensor_parallel=3), "heads", level="usage",
        says="32 attention heads cannot be shared by 3 GPUs", fix="Set tensor_parallel to one of 1, 2, 4, 8, 16.",
    ),
    "an odd number of heads": Case(
        context(checkpoint(attention_heads=25, kv_heads=5), tensor_parallel=2), "heads", level="usage",
        says="25 attention heads cannot be shared by 2 GPUs", fix="Set tensor_parallel to 1.",
    ),
    "6 KV heads on 4 GPUs": Case(
        context(checkpoint(attention_heads=24, kv_heads=6), tensor_parallel=4), "heads", level="usage",
        says="6 KV heads cannot be shared by 4 GPUs", fix="Set tensor_parallel to one of 1, 2.",
    ),
    "6 key heads of linear attention on 4 GPUs": Case(
        context(checkpoint(linear_attention=ODD_GDN), tensor_parallel=4), "heads", level="usage",
        says="6 key heads of linear attention cannot be shared by 4 GPUs", fix="Set tensor_parallel to one of 1, 2.",
    ),
    "any heads on one GPU": Case(context(checkpoint(attention_heads=25, kv_heads=5), tensor_parallel=1), None),
    "4 KV heads on 8 GPUs": Case(
        context(checkpoint(kv_heads=4), tensor_parallel=8), "kv-heads-replicated", "note", "checkpoint",
        "4 KV heads for 8 GPUs: they are kept more than once",
    ),
    "8 KV heads on 8 GPUs": Case(context(checkpoint(), tensor_parallel=8), None),
    # KV types.
    "a KV type that this vLLM has not": Case(
        context(kv_cache_dtype="int8_per_token_head"), "kv-dtype-unknown",
        says="vLLM 0.26.0 has no KV cache type int8_per_token_head",
        fix="Set kv_cache_dtype to one of auto, bfloat16, fp8_e4m3, nvfp4.",
    ),
    "a KV type that it has": Case(context(kv_cache_dtype="fp8_e4m3"), None),
    "KV types that nobody can list": Case(context(vllm=None, kv_cache_dtype="fp8_e5m2"), None),
    "nvfp4 KV on Ampere": Case(
        context(kv_cache_dtype="nvfp4"), "kv-nvfp4-capability",
        says="needs compute capability 10.0 or 10.3, a chosen GPU has 8.6", fix="Set kv_cache_dtype=fp8_e4m3.",
    ),
    "nvfp4 KV on one Blackwell of two": Case(
        context(gpus=(gpu(0, (10, 0)), gpu(1, (12, 0))), kv_cache_dtype="nvfp4"), "kv-nvfp4-capability", says="12.0",
    ),
    "nvfp4 KV on Blackwell": Case(
        context(gpus=(gpu(0, (10, 0)), gpu(1, (10, 3)), gpu(2, (8, 6))), kv_cache_dtype="nvfp4"), None
    ),
    "nvfp4 KV on an unknown GPU": Case(context(gpus=(gpu(0, None),), kv_cache_dtype="nvfp4"), None),
    "DFlash with fp8 KV": Case(
        context(speculative=DFLASH, kv_cache_dtype="fp8_e4m3"), "kv-dflash", "warn", "checkpoint",
        "DFlash drafters want a bfloat16 KV cache, the plan has fp8_e4m3", "Set kv_cache_dtype=bfloat16.",
    ),
    "DFlash with bfloat16 KV": Case(context(speculative=DFLASH, kv_cache_dtype="bfloat16"), None),
    "MTP with fp8 KV": Case(
        context(speculative=Speculative(method="mtp", tokens=3), kv_cache_dtype="fp8_e4m3"), None
    ),
    # Context.
    "a context beyond the files": Case(
        context(checkpoint(), max_model_len=40961), "context-native", level="checkpoint",
        says="context 40,961 is longer than the model's own 40,960 tokens", fix="Set max_model_len=40960 or less.",
    ),
    "a context beyond the slug's word": Case(
        context(weights=Weights(format="bf16", repo="o/n", native_max_model_len=2048)), "context-native",
        level="checkpoint", says="the model's own 2,048",
    ),
    "files that do not say leave it to the slug": Case(
        context(
            checkpoint(max_model_len=None), weights=Weights(format="bf16", repo="o/n", native_max_model_len=2048)
        ),
        "context-native", level="checkpoint", says="the model's own 2,048",
    ),
    "the files win over the slug": Case(
        context(checkpoint(), weights=Weights(format="bf16", repo="o/n", native_max_model_len=2048)), None
    ),
    "the whole context": Case(context(checkpoint(), max_model_len=40960), None),
    "nobody says how long": Case(context(checkpoint(max_model_len=None), max_model_len=10**7), None),
    # Hybrids.
    "a hybrid with vLLM's default of sequences": Case(
        context(HYBRID, max_num_seqs=None), "hybrid-sequences", "warn", "checkpoint",
        "a hybrid model keeps one state block a sequence", "Set max_num_seqs to what you need, such as 8.",
    ),
    "Mamba layers are state too": Case(
        context(checkpoint(layers={"full_attention": 4, "mamba": 28}), max_num_seqs=None), "hybrid-sequences", "warn",
        "checkpoint",
    ),
    "a hybrid with a number of sequences": Case(context(HYBRID), None),
    "full attention with the default": Case(context(checkpoint(), max_num_seqs=None), None),
    # Memory.
    "a card that somebody uses": Case(
        context(gpus=(gpu(0), gpu(1, used=10)), holders={1: "python 9,800 MiB, Xorg 400 MiB"}), "memory-in-use",
        says="GPU 1 has 14.0 GiB free, vLLM would ask for 22.1 (0.92 of 24.0), held by python 9,800 MiB, Xorg 400",
        fix="Free it, or set gpu_memory_utilization=0.58.",
    ),
    "a card that an unknown one uses": Case(
        context(gpus=(gpu(0, used=10), gpu(1))), "memory-in-use", says="GPU 0 has 14.0 GiB free"
    ),
    "a card that is full": Case(
        context(gpus=(gpu(0, used=23.99), gpu(1))), "memory-in-use",
        fix="Free it, or choose other GPUs with the gpus toggle.",
    ),
    "a smaller share": Case(context(gpus=(gpu(0), gpu(1, used=10)), gpu_memory_utilization=0.58), None),
    "a share that is just too large": Case(
        context(gpus=(gpu(0), gpu(1, used=10)), gpu_memory_utilization=0.59), "memory-in-use", says="0.59 of 24.0"
    ),
    "a full card that is not chosen": Case(context(gpus=(gpu(0), gpu(1), gpu(2, used=24))), None),
    "a card that says nothing": Case(context(gpus=(gpu(0, used=None), gpu(1, total=None))), None),
    "CUDA sees less than NVML": Case(context(gpus=(gpu(0, usable=23.57, used=1.5), gpu(1))), None),
    "a full card and a CPU plan": Case(context(platform="cpu", gpus=(gpu(0, used=24),)), None),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_each_rule_fires_where_it_should_and_only_there(name: str) -> None:
    case = CASES[name]
    findings = found(case.ctx)
    print(f"{name:<44} {'; '.join(f'{f.severity} {f.rule}' for f in findings) or 'nothing'}")
    if case.rule is None:
        assert findings == []
        return
    (finding,) = findings
    assert (finding.rule, finding.severity, finding.level) == (case.rule, case.severity, case.level)
    assert case.says in finding.message
    assert finding.fix == case.fix or not case.fix
    assert finding.fix or finding.severity == "note"


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.rule and case.severity == "block"])
def test_force_passes_only_what_this_rig_refuses(name: str) -> None:
    findings = tuple(found(CASES[name].ctx))
    assert refusals(findings) == findings
    assert refusals(findings, force=True) == (() if CASES[name].level == "rig" else findings)


def test_every_full_card_is_named() -> None:
    findings = found(context(gpus=(gpu(0, used=20), gpu(1, used=22)), holders={0: "a 1 MiB", 1: "b 2 MiB"}))
    assert [finding.message.rsplit(", ", 1)[1] for finding in findings] == ["held by a 1 MiB", "held by b 2 MiB"]


def test_every_rule_has_a_case_that_fires() -> None:
    assert {case.rule for case in CASES.values()} == {
        None, "heads", "kv-heads-replicated", "kv-dtype-unknown", "kv-nvfp4-capability", "kv-dflash",
        "context-native", "hybrid-sequences", "memory-in-use",
    }  # fmt: skip
    assert len(RULES) == 5, "a new rule needs its cases here"


HEADS = st.integers(1, 128)


@given(HEADS, HEADS, st.none() | st.tuples(HEADS, HEADS), st.integers(1, 16))
def test_a_model_is_shared_exactly_when_each_gpu_gets_as_many_whole_heads(
    heads: int, kv_heads: int, linear: tuple[int, int] | None, gpus: int
) -> None:
    gdn = linear and LinearAttention(
        key_heads=linear[0], value_heads=linear[1], key_head_dim=128, value_head_dim=128, conv_kernel=4
    )
    one = checkpoint(attention_heads=heads, kv_heads=kv_heads, linear_attention=gdn)
    whole = heads / gpus == heads // gpus and (kv_heads / gpus).is_integer() | (gpus / kv_heads).is_integer()
    whole = whole and all(count % gpus == 0 for count in linear or ())
    assert (unshared(one, gpus) is None) == whole
    assert (found(context(one, tensor_parallel=gpus, max_num_seqs=8)) == []) == (
        gpus == 1 or (whole and gpus <= kv_heads)
    )


@given(st.floats(0.5, 100), st.floats(0, 1), st.floats(0.9, 1), st.floats(0.01, 1))
def test_the_share_that_memory_in_use_proposes_is_accepted(
    total: float, used: float, usable: float, share: float
) -> None:
    cards = (gpu(0, total=total, used=total * used, usable=total * usable), gpu(1, total=1000))
    for finding in found(context(gpus=cards, gpu_memory_utilization=share)):
        words = finding.fix.removesuffix(".").rsplit("gpu_memory_utilization=", 1)
        if len(words) == 2:
            assert 0 < float(words[1]) < share
            assert found(context(gpus=cards, gpu_memory_utilization=float(words[1]))) == []


@pytest.mark.parametrize(
    ("layers", "state"),
    [
        ({"full_attention": 4}, False),
        ({"full_attention": 4, "sliding_attention": 20}, False),
        ({"full_attention": 4, "linear_attention": 12}, True),
        ({"full_attention": 4, "mamba": 28, "ffn": 20}, True),
    ],
)
def test_a_hybrid_is_a_model_with_layers_that_keep_state(layers: dict[str, int], state: bool) -> None:
    assert keeps_state(checkpoint(layers=layers)) == state
