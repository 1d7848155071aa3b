"""May int8 activations be used? Every row of the table, with a sentence of its own."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cockpit.catalog.slug import Slug, Weights
from cockpit.rig.types import Gpu, Rig
from cockpit.rules.context import Context
from cockpit.rules.finding import OFFERED, ToggleState
from cockpit.rules.int8 import int8_state, weights_state


def weights(kind: str = "auto-round", **facts: Any) -> Weights:
    declared: dict[str, Any] = {"format": kind, "repo": "o/n", "bits": 4}
    if kind == "auto-round":
        declared |= {"symmetric": True, "group_size": 128}
    return Weights(**declared | facts)


def context(*capabilities: tuple[int, int] | None, platform: Any = "cuda", **facts: Any) -> Context:
    gpus = tuple(
        Gpu(index=index, uuid=f"GPU-{index}", name="a card", capability=capability)
        for index, capability in enumerate(capabilities)
    )
    slug = Slug(name="vllm/a", model="A", weights=weights(**facts), max_model_len=4096, platform=platform)
    return Context(slug=slug, rig=Rig(gpus=gpus), values={"gpus": tuple(range(len(gpus)))})


BLOCKED = [
    (weights(moe=True), "mixture of experts: the experts take another path"),
    *((weights(bits=bits), f"{bits}-bit weights run on the Humming kernel") for bits in (2, 3, 5, 6, 7)),
    (weights(bits=None, widths=[4, 8]), "the 8-bit layers refuse it"),
    (weights(widths=[4, 8]), "the 8-bit layers refuse it"),
    (weights(bits=None), "nothing says how wide its weights are"),
    (weights("gptq", bits=None), "nothing says how wide its weights are"),
    (weights(bits=8), "the weights are 8-bit already"),
    (weights("compressed-tensors", bits=8), "the weights are 8-bit already"),
    (weights("gptq", bits=8), "the weights are 8-bit already"),
    (weights(symmetric=False), "asymmetric weights: one layer with zero points"),
    (weights(symmetric=None), "nothing says that its weights are symmetric"),
    (weights(group_size=16), "group size 16: Marlin takes int8 activations with 32, 64 or 128 only"),
    (weights(group_size=-1), "group size -1"),
    *((weights("compressed-tensors", bits=bits), "run on the Humming kernel") for bits in (5, 6, 7)),
    (weights("compressed-tensors", bits=None, widths=[5, 6, 7, 8]), "and the 8-bit layers refuse it"),
    (weights("compressed-tensors", bits=None, widths=[5, 6]), "5, 6-bit weights run on the Humming kernel"),
    (weights("compressed-tensors", symmetric=True), "compressed-tensors W4 is not an AutoRound checkpoint"),
    (weights("gptq", symmetric=True), "GPTQ W4 is not an AutoRound checkpoint: not validated"),
    (weights("awq"), "AWQ is asymmetric 4-bit"),
    (weights("fp8", bits=8), "Marlin W8A8 is not supported"),
    (weights("nvfp4"), "NVFP4 is a 4-bit float format"),
    (weights("mxfp4"), "MXFP4 is a 4-bit float format"),
    (weights("bf16", bits=16), "BF16: nothing is quantized"),
    (weights("fp16", bits=16), "FP16: nothing is quantized"),
]  # fmt: skip


@pytest.mark.parametrize(("checkpoint", "says"), BLOCKED, ids=[f"{w.label}-{says[:25]}" for w, says in BLOCKED])
def test_every_other_checkpoint_is_blocked_with_its_own_reason(checkpoint: Weights, says: str) -> None:
    state = weights_state(checkpoint)
    assert state.state == "blocked"
    assert state.level == "checkpoint"
    assert says in (state.reason or "")
    assert state.fix


@pytest.mark.parametrize("group_size", [32, 64, 128, None])
def test_dense_symmetric_autoround_w4_is_offered(group_size: int | None) -> None:
    assert weights_state(weights(group_size=group_size)) is OFFERED


ANY_WEIGHTS = st.builds(
    Weights,
    format=st.sampled_from(list(msgspec.inspect.type_info(Weights).fields[0].type.values)),  # type: ignore[attr-defined]
    repo=st.just("o/n"),
    bits=st.none() | st.integers(1, 32),
    widths=st.lists(st.integers(1, 32), max_size=3),
    symmetric=st.sampled_from([True, False, None]),
    group_size=st.none() | st.integers(-1, 256),
    moe=st.booleans(),
)


@given(ANY_WEIGHTS)
def test_every_checkpoint_gets_an_answer_and_every_refusal_a_sentence(checkpoint: Weights) -> None:
    state = weights_state(checkpoint)
    if state.state == "offered":
        assert state == OFFERED
        assert (checkpoint.format, checkpoint.bits, checkpoint.symmetric) == ("auto-round", 4, True)
        assert not checkpoint.moe
        assert set(checkpoint.widths) <= {4}
    else:
        assert state.reason
        assert not state.reason.endswith(".")
        assert "None" not in state.reason
        assert state.fix
        assert re.fullmatch(r"[A-Z].*\.", state.fix)


@given(
    st.sampled_from([32, 64, 128, None]),
    st.sampled_from(
        [{"moe": True}, {"symmetric": False}, {"symmetric": None}, {"bits": 8}, {"bits": 3}, {"widths": [4, 8]}]
    )
    | st.integers(-1, 4096).filter(lambda size: size not in (32, 64, 128)).map(lambda size: {"group_size": size}),
)
def test_whatever_spoils_an_offered_checkpoint_blocks_it(group_size: int | None, change: dict[str, Any]) -> None:
    good = weights(group_size=group_size)
    assume(weights_state(good).state == "offered")
    assert weights_state(msgspec.structs.replace(good, **change)).state == "blocked"


@pytest.mark.parametrize("capability", [(7, 5), (8, 0), (8, 6), (8, 9), (10, 0), (12, 0), None])
def test_gpus_that_read_the_switch_are_offered(capability: tuple[int, int] | None) -> None:
    assert int8_state(context(capability, capability)) is OFFERED


@pytest.mark.parametrize(
    ("capabilities", "says"),
    [
        ([(7, 0)], "compute capability 7.0 has no int8 tensor cores"),
        ([(8, 6), (6, 1)], "compute capability 6.1 has no int8 tensor cores"),
        ([(9, 0)], "on Hopper vLLM picks the Machete kernel"),
        ([(8, 6), (9, 0)], "on Hopper vLLM picks the Machete kernel"),
    ],
)
def test_gpus_that_do_not_block_it_at_the_level_of_the_rig(capabilities: list[tuple[int, int]], says: str) -> None:
    state = int8_state(context(*capabilities))
    assert (state.state, state.level) == ("blocked", "rig")
    assert says in (state.reason or "")
    assert state.fix


def test_only_the_chosen_gpus_count() -> None:
    ctx = context((9, 0), (8, 6))
    assert int8_state(msgspec.structs.replace(ctx, values={"gpus": (1,)})) is OFFERED
    assert int8_state(msgspec.structs.replace(ctx, values={"gpus": (0,)})).state == "blocked"


def test_hopper_without_machete_falls_back_to_marlin_and_is_offered() -> None:
    ctx = context((9, 0))
    env = {"VLLM_DISABLED_KERNELS": "ExllamaLinearKernel,MacheteLinearKernel"}
    assert int8_state(msgspec.structs.replace(ctx, slug=msgspec.structs.replace(ctx.slug, env=env))) is OFFERED


def test_the_checkpoint_speaks_before_the_rig() -> None:
    state = int8_state(context((9, 0), moe=True))
    assert "mixture of experts" in (state.reason or "")
    assert state.level == "checkpoint"


def test_the_cpu_build_does_not_read_the_switch() -> None:
    state: ToggleState = int8_state(context(platform="cpu"))
    assert state.state == "blocked"
    assert "the CPU build has no Marlin kernel" in (state.reason or "")
