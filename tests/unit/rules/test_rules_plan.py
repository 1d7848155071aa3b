"""Findings about a plan, the states of other toggles, and what --force passes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.catalog.slug import Slug, Speculative, Weights
from cockpit.rig.types import Engine, Gpu, Rig
from cockpit.rules.context import Context
from cockpit.rules.finding import Finding
from cockpit.rules.plan_rules import plan_findings, refusals
from cockpit.rules.toggles import STATES, toggle_state

GPUS = tuple(
    Gpu(index=index, uuid=f"GPU-{index}", name="NVIDIA GeForce RTX 3090", capability=(8, 6)) for index in (0, 1)
)
ENGINE = Engine(id="e", path="/e/vllm", python="/e/python", package="/e", version="0.33.0", platform="cuda")
VALUES = {
    "gpus": (0, 1),
    "tensor_parallel": 2,
    "port": 8000,
    "host": "127.0.0.1",
    "max_model_len": 4096,
    "int8": "off",
    "enforce_eager": "off",
}
W4 = Weights(format="auto-round", repo="o/n", bits=4, symmetric=True, native_max_model_len=8192)


def slug(weights: Weights = W4, **fields: Any) -> Slug:
    return Slug(**{"name": "vllm/a", "model": "A", "weights": weights, "max_model_len": 4096} | fields)


def context(chosen: dict[str, Any] | None = None, values: dict[str, Any] | None = None, **fields: Any) -> Context:
    """A plan that nothing stands against, with changes."""
    chosen = chosen or {}
    given_fields: dict[str, Any] = {"slug": slug(), "rig": Rig(gpus=GPUS), "engine": ENGINE}
    return Context(**given_fields | fields, values={**VALUES, **(values or {}), **chosen}, chosen=frozenset(chosen))


def rules(ctx: Context) -> list[str]:
    return [finding.rule for finding in plan_findings(ctx)]


def only(ctx: Context) -> Finding:
    (finding,) = plan_findings(ctx)
    return finding


def test_a_fit_plan_has_no_findings() -> None:
    assert plan_findings(context()) == ()


def test_a_missing_engine_blocks_and_force_does_not_pass_it() -> None:
    finding = only(context(engine=None, engine_problem="no vLLM engine for cuda was found"))
    assert (finding.rule, finding.severity, finding.subject) == ("engine-missing", "block", "engine")
    assert finding.message == "no vLLM engine for cuda was found"
    assert "engines install VERSION" in finding.fix
    assert refusals((finding,), force=True) == (finding,)


def test_no_gpu_at_all_is_the_rigs_fault() -> None:
    finding = only(context(rig=Rig(gpu_problem="no NVIDIA driver")))
    assert (finding.rule, finding.message, finding.level) == ("gpu-missing", "no NVIDIA driver", "rig")
    assert only(context(rig=Rig())).message == "this machine has no NVIDIA GPU"


def test_a_gpu_that_is_not_there_is_named() -> None:
    finding = only(context({"gpus": (0, 5)}))
    assert (finding.rule, finding.level) == ("gpu-index", "rig")
    assert finding.message == "needs 2 GPUs (0, 5), this rig has 2: no GPU 5"


def test_more_ranks_than_gpus_block() -> None:
    finding = only(context({"tensor_parallel": 4}))
    assert (finding.rule, finding.level) == ("tensor-parallel-gpus", "usage")
    assert finding.message == "tensor parallel 4 needs 4 GPUs, the plan has 2"
    assert "tensor_parallel=2" in finding.fix


def test_the_cpu_build_asks_for_no_gpu() -> None:
    cpu = slug(Weights(format="bf16", repo="o/n"), platform="cpu")
    assert plan_findings(context(slug=cpu, rig=Rig(), values={"gpus": (), "tensor_parallel": 1})) == ()


def test_a_taken_port_is_named_with_its_owner() -> None:
    finding = only(context({"port": 8123}, port_owner="python3 (pid 7)"))
    assert (finding.rule, finding.level) == ("port-taken", "usage")
    assert finding.message == "port 8123 is taken by python3 (pid 7)"


@pytest.mark.parametrize(("length", "blocked"), [(8192, False), (8193, True)])
def test_context_beyond_the_models_own_blocks(length: int, blocked: bool) -> None:
    assert rules(context({"max_model_len": length})) == (["context-native"] if blocked else [])


def test_the_longest_context_that_fits_is_the_fix() -> None:
    assert only(context({"max_model_len": 9000})).fix == "Set max_model_len=8192 or less."


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "rig.lan"])
def test_a_host_that_others_reach_without_a_key_warns(host: str) -> None:
    finding = only(context({"host": host}))
    assert (finding.rule, finding.severity) == ("exposed-without-key", "warn")
    assert host in finding.message
    assert refusals((finding,)) == ()
    assert plan_findings(context({"host": host}, api_key_set=True)) == ()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_loopback_does_not_warn(host: str) -> None:
    assert plan_findings(context({"host": host})) == ()


def test_int8_on_warns_that_stock_vllm_may_ignore_it() -> None:
    finding = only(context({"int8": "on"}))
    assert (finding.rule, finding.severity) == ("int8-stock-engine", "warn")


def test_int8_with_eager_mode_warns_of_slow_decode() -> None:
    assert rules(context({"int8": "on", "enforce_eager": "on"})) == ["int8-eager", "int8-stock-engine"]


def test_int8_chosen_where_it_is_blocked_blocks_the_plan() -> None:
    moe = slug(msgspec.structs.replace(W4, moe=True))
    finding = only(context({"int8": "on"}, slug=moe))
    assert finding.rule == "toggle-int8"
    assert finding.message.startswith("int8 is blocked: mixture of experts")
    assert refusals((finding,), force=True) == (finding,)


def test_int8_that_the_slug_turns_on_stays_off_on_hopper_with_a_note() -> None:
    hopper = Rig(gpus=(Gpu(index=0, uuid="GPU-0", name="NVIDIA H200", capability=(9, 0)),))
    ctx = context(slug=slug(int8="on"), rig=hopper, values={"gpus": (0,), "tensor_parallel": 1})
    finding = only(ctx)
    assert (finding.rule, finding.severity) == ("int8-default-off", "note")
    assert "stays off here: on Hopper" in finding.message
    assert refusals((finding,)) == ()


def test_force_passes_int8_on_hopper() -> None:
    hopper = Rig(gpus=(Gpu(index=0, uuid="GPU-0", name="NVIDIA H200", capability=(9, 0)),))
    findings = plan_findings(context({"int8": "on"}, rig=hopper, values={"gpus": (0,), "tensor_parallel": 1}))
    assert [finding.rule for finding in refusals(findings)] == ["toggle-int8"]
    assert refusals(findings, force=True) == ()


@pytest.mark.parametrize(
    ("toggle", "value"),
    [("int8", "off"), ("vision", "off"), ("speculative_tokens", 0), ("gpus", ()), ("gpu_memory_utilization", None)],
)
def test_saying_off_to_what_is_blocked_is_let_through(toggle: str, value: Any) -> None:
    cpu = slug(Weights(format="bf16", repo="o/n"), platform="cpu")
    assert toggle_state(toggle, context(slug=cpu)).state == "blocked"
    assert plan_findings(context({toggle: value}, slug=cpu, rig=Rig())) == ()


@pytest.mark.parametrize(
    ("toggle", "value", "says"),
    [
        ("speculative_tokens", 3, "the slug names no draft"),
        ("vision", "on", "the checkpoint has no vision tower"),
        ("gpu_memory_utilization", 0.5, "VLLM_CPU_KVCACHE_SPACE"),
        ("gpus", (0,), "there is nothing to choose"),
        ("tensor_parallel", 2, "it runs as one worker"),
    ],
)
def test_choosing_what_is_blocked_blocks_the_plan(toggle: str, value: Any, says: str) -> None:
    cpu = slug(Weights(format="bf16", repo="o/n"), platform="cpu")
    finding = only(context({toggle: value}, slug=cpu, rig=Rig()))
    assert (finding.severity, finding.subject) == ("block", toggle)
    assert finding.rule == "toggle-" + toggle.replace("_", "-")
    assert says in finding.message


def test_a_draft_is_offered_with_an_mtp_head_or_a_named_draft() -> None:
    assert toggle_state("speculative_tokens", context()).state == "blocked"
    mtp = slug(msgspec.structs.replace(W4, mtp=True))
    assert toggle_state("speculative_tokens", context(slug=mtp)).state == "offered"
    eagle = slug(speculative=Speculative(method="eagle3", tokens=3, model="o/draft"))
    assert toggle_state("speculative_tokens", context(slug=eagle)).state == "offered"


def test_a_toggle_without_a_rule_is_always_offered() -> None:
    assert "port" not in STATES
    assert toggle_state("port", context()).state == "offered"


SEVERITIES = st.sampled_from(["block", "warn", "note"])
FINDINGS = st.lists(
    st.builds(
        Finding,
        rule=st.just("r"),
        severity=SEVERITIES,
        subject=st.just("s"),
        message=st.just("m"),
        level=st.sampled_from(["rig", "checkpoint", "usage"]),
    )
).map(tuple)


@given(FINDINGS)
def test_force_passes_what_the_rig_raises_and_nothing_else(findings: tuple[Finding, ...]) -> None:
    refused = refusals(findings)
    assert refused == tuple(finding for finding in findings if finding.severity == "block")
    assert refusals(findings, force=True) == tuple(finding for finding in refused if finding.level != "rig")


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "int8": st.sampled_from(["on", "off"]),
            "gpus": st.lists(st.integers(0, 9), unique=True, max_size=9).map(tuple),
            "tensor_parallel": st.integers(1, 64),
            "max_model_len": st.integers(16, 20_000),
            "host": st.sampled_from(["127.0.0.1", "0.0.0.0"]),
            "enforce_eager": st.sampled_from(["on", "off"]),
            "speculative_tokens": st.integers(0, 16),
        },
    ),
    st.booleans(),
)
def test_findings_are_sentences_with_blocks_first(chosen: dict[str, Any], with_engine: bool) -> None:
    findings = plan_findings(context(chosen, engine=ENGINE if with_engine else None))
    order = [("block", "warn", "note").index(finding.severity) for finding in findings]
    assert order == sorted(order)
    for finding in findings:
        assert finding.message
        assert "None" not in finding.message
        assert finding.severity == "note" or finding.fix
