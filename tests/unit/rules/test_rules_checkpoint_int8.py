"""What the checkpoint's own files say about int8 activations: every row of the table, and laws over all others."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from checkpoint_files import FIXTURES, config, write_config
from hypothesis import event, given, settings
from hypothesis import strategies as st
from made_checkpoints import (
    ANY_SCHEME,
    GOOD_SCHEMES,
    ROWS,
    Row,
    changed,
    checkpoint,
    checkpoints,
    may_have_int8,
    quantized,
    scheme,
)
from test_checkpoint_fuzz import NAMES, paths, values

from cockpit.catalog.slug import Slug, Weights
from cockpit.checkpoint.inspect import inspect
from cockpit.checkpoint.types import Checkpoint, WeightScheme
from cockpit.errors import CockpitError
from cockpit.rig.described import load_rig
from cockpit.rig.types import Engine, OverlayState
from cockpit.rules.context import Context
from cockpit.rules.finding import OFFERED, ToggleState
from cockpit.rules.int8 import checkpoint_state, int8_state

LIE = Weights(format="auto-round", path="/models/a", bits=4, symmetric=True, group_size=128)


def context(of: Checkpoint | None = None, rig: str = "2x3090", platform: Any = "cuda", **fields: Any) -> Context:
    """A plan for a slug that says the best of its weights, whatever the files hold."""
    slug = Slug(name="vllm/a", model="A", weights=LIE, max_model_len=4096, platform=platform)
    described = load_rig(rig)
    gpus = tuple(range(len(described.gpus)))
    return Context(slug=slug, checkpoint=of or checkpoint(), rig=described, values={"gpus": gpus}, **fields)


def engine(autoround_int8: bool | None) -> Engine:
    return Engine(
        id="e", path="/e/vllm", python="/e/python", package="/e", version="0.33.0", platform="cuda",
        autoround_int8=autoround_int8,
    )  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=[row.fixture for row in ROWS])
def test_each_row_of_the_table_has_its_state_and_its_own_sentence(row: Row) -> None:
    found = inspect(str(FIXTURES / row.fixture))
    state = checkpoint_state(found)
    print(f"{row.fixture:<32} {state.state:<8} {state.reason or ''}")
    assert (state.state == "offered") == (row.says is None) == may_have_int8(found)
    if row.says is not None:
        assert row.says in (state.reason or "")
        assert state.fix
        assert state.level == "checkpoint"
    # The files speak even where the slug says the best of them.
    assert int8_state(context(found)) == state


def test_the_fixtures_are_all_in_the_table_or_not_quantized() -> None:
    others = {folder.name for folder in FIXTURES.iterdir()} - {row.fixture for row in ROWS}
    for name in others:
        found = inspect(str(FIXTURES / name))
        assert may_have_int8(found) == (checkpoint_state(found) is OFFERED) is False, name


@pytest.mark.parametrize(
    ("rig", "says"),
    [("1x3090", None), ("4x3090", None), ("2x5090", None), ("1xh200", "on Hopper vLLM picks the Machete")],
)
def test_the_rig_speaks_after_the_checkpoint(rig: str, says: str | None) -> None:
    state = int8_state(context(rig=rig))
    print(f"{'AutoRound W4 on ' + rig:<32} {state.state:<8} {state.reason or ''}")
    assert (state.state, state.level) == (("blocked", "rig") if says else ("offered", "checkpoint"))
    assert (says or "") in (state.reason or "")


@pytest.mark.parametrize(("knows", "blocked"), [(True, False), (None, False), (False, True)])
def test_a_vllm_that_is_known_to_drop_the_switch_blocks_it_and_force_may_pass(
    knows: bool | None, blocked: bool
) -> None:
    state = int8_state(context(engine=engine(knows)))
    assert (state.state == "blocked") == blocked
    if blocked:
        assert state.level == "rig"
        assert state.reason == "vLLM 0.33.0 drops the switch on AutoRound weights (vllm#48904)"
        assert state.fix


@pytest.mark.parametrize("knows", [True, None, False])
@pytest.mark.parametrize(("state", "blocked"), [("available", False), ("needless", False), ("unsupported", True)])
def test_an_overlay_that_fits_lifts_the_block_and_one_that_does_not_says_why(
    knows: bool | None, state: Any, blocked: bool
) -> None:
    overlay = OverlayState(state=state, reason="it was never tried on vLLM 0.33.0")
    found = int8_state(context(engine=msgspec.structs.replace(engine(knows), overlays={"autoround-int8": overlay})))
    assert (found.state == "blocked") == blocked
    if blocked:
        assert found.level == "rig"
        assert (found.reason or "").endswith(
            "the overlay that cures it does not fit: it was never tried on vLLM 0.33.0"
        )


def test_hopper_is_told_before_the_engine_and_the_checkpoint_before_both() -> None:
    assert "Hopper" in str(int8_state(context(rig="1xh200", engine=engine(False))).reason)
    experts = context(checkpoint(moe=True), rig="1xh200", engine=engine(False))
    assert "mixture of experts" in str(int8_state(experts).reason)


def test_the_cpu_build_never_offers_it() -> None:
    assert "CPU build" in str(int8_state(context(platform="cpu")).reason)


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({}, None),
        ({"bits": 8}, "the 8-bit layers refuse it"),
        ({"sym": False}, "asymmetric weights"),
        ({"group_size": 256}, "group size 256"),
        ({"data_type": "nv_fp"}, "4-bit float format"),
        ({"data_type": "int_asym"}, "asymmetric weights"),
        ({"bits": 16}, None),
    ],
)
def test_a_quantized_lm_head_counts_like_a_layer(tmp_path: Any, entry: dict[str, Any], says: str | None) -> None:
    value = config("auto-round-w4")
    value["quantization_config"]["extra_config"] = {"lm_head": {"bits": 4} | entry}
    state = checkpoint_state(inspect(str(write_config(tmp_path, value))))
    assert (state.state == "offered") == (says is None)
    assert (says or "") in (state.reason or "")


@pytest.mark.parametrize(
    ("part", "says"),
    [
        ({"activation_bits": 8}, "quantizes its activations by itself"),
        ({"group_size": None}, "nothing says how many of its weights share a scale"),
        ({"symmetric": None}, "nothing says that its weights are symmetric"),
    ],
)
def test_what_is_not_said_or_not_plain_is_not_offered(part: dict[str, Any], says: str) -> None:
    state = checkpoint_state(checkpoint(quantized(scheme(), scheme(**part))))
    assert state.state == "blocked"
    assert says in (state.reason or "")


def test_files_that_differ_from_their_config_are_not_offered() -> None:
    state = checkpoint_state(changed(checkpoint(), mismatched_modules=3))
    assert state.state == "blocked"
    assert state.reason == "3 layers are stored otherwise than config.json says"


def judged(one: Checkpoint) -> ToggleState:
    """The state; an answer that is not well formed fails the test."""
    state = checkpoint_state(one)
    if state.state == "offered":
        assert state == OFFERED
    else:
        assert state.reason and state.fix
        assert not state.reason.endswith(".")
        assert "None" not in state.reason
    return state


@given(checkpoints(GOOD_SCHEMES, offered=True))
def test_dense_symmetric_4_bit_autoround_is_offered_whatever_else_it_is(one: Checkpoint) -> None:
    assert may_have_int8(one)
    assert judged(one) is OFFERED


@settings(max_examples=200)
@given(checkpoints(ANY_SCHEME, offered=False))
def test_it_is_offered_exactly_when_every_condition_holds(one: Checkpoint) -> None:
    event("offered" if may_have_int8(one) else "blocked")
    assert (judged(one).state == "offered") == may_have_int8(one)


BAD_PARTS: st.SearchStrategy[WeightScheme] = st.one_of(
    st.builds(scheme, bits=st.just(8), group_size=st.sampled_from([32, 128, -1])),
    st.builds(scheme, bits=st.sampled_from([2, 3, 5, 6, 7])),
    st.builds(scheme, symmetric=st.sampled_from([False, None])),
    st.builds(scheme, bits=st.sampled_from([4, 8]), kind=st.just("float")),
    st.builds(scheme, group_size=st.integers(-1, 4096).filter(lambda size: size not in (32, 64, 128))),
)
SPOILERS: st.SearchStrategy[Callable[[Checkpoint], Checkpoint]] = st.one_of(
    BAD_PARTS.map(lambda part: lambda one: changed(one, schemes=(*one.quantization.schemes, (part, 1)))),
    BAD_PARTS.map(lambda part: lambda one: changed(one, schemes=((part, 1), *one.quantization.schemes))),
    BAD_PARTS.map(lambda part: lambda one: changed(one, lm_head=part)),
    st.sampled_from([2, 3, 5, 6, 8]).map(lambda bits: lambda one: changed(one, embed_tokens_bits=bits)),
    st.just(lambda one: msgspec.structs.replace(one, moe=True)),
)


@settings(max_examples=120)
@given(checkpoints(GOOD_SCHEMES, offered=True), SPOILERS)
def test_one_bad_part_blocks_any_offered_checkpoint(
    good: Checkpoint, spoil: Callable[[Checkpoint], Checkpoint]
) -> None:
    assert judged(good).state == "offered"
    assert judged(spoil(good)).state == "blocked"


def looked_at(folder: Any, value: Any) -> None:
    """Offered only where both the raw config and the checkpoint made of it hold every condition."""
    write_config(folder, json.dumps(value))
    try:
        found = inspect(str(folder))
    except CockpitError:
        return
    offered = judged(found).state == "offered"
    assert offered == may_have_int8(found)
    event("offered" if offered else found.quantization.method)
    if offered:
        declared = value.get("quantization_config") or value.get("compression_config")
        declared = declared or value["text_config"]["quantization_config"]
        assert declared["quant_method"].lower() in ("auto-round", "auto_round", "inc")
        assert declared.get("sym") is not False or declared["extra_config"]


@settings(max_examples=60, deadline=60_000)
@given(values)
def test_any_json_is_judged_without_a_traceback(tmp_path_factory: pytest.TempPathFactory, value: Any) -> None:
    looked_at(tmp_path_factory.getbasetemp() / "int8-fuzz", value)


@settings(max_examples=100, deadline=60_000)
@given(st.sampled_from(["auto-round-w4", "auto-round-w4-hybrid", *NAMES]), st.data())
def test_a_true_config_with_anything_in_one_place_is_never_offered_wrongly(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    value = config(name)
    *above, last = data.draw(st.sampled_from([path for path in paths(value) if path]))
    target = value
    for key in above:
        target = target[key]
    target[last] = data.draw(values)
    looked_at(tmp_path_factory.getbasetemp() / "int8-fuzz", value)


OVERRIDES = st.fixed_dictionaries(
    {},
    optional={
        "bits": st.sampled_from([2, 4, 8, 16]),
        "sym": st.booleans(),
        "group_size": st.sampled_from([32, 64, 128, 256, -1]),
        "data_type": st.sampled_from(["int", "int_asym", "nv_fp", "mx_fp", "fp8"]),
        "act_bits": st.sampled_from([8, 16]),
    },
)
THERE = ["lm_head", "model.layers.3.mlp.down_proj", ".*self_attn.*"]
NOWHERE = ["model.layers.9.mlp", "nothing"]
"""Names of no linear layer: AutoRound goes by whole names, and by patterns only where they hold special letters."""


def is_good(entry: dict[str, Any]) -> bool:
    """Whether one entry of the raw config, merged with what it leaves out, is what int8 activations take."""
    return (
        entry["bits"] == 4
        and entry["sym"] is True
        and entry["data_type"] == "int"
        and entry["group_size"] in (32, 64, 128)
        and entry.get("act_bits", 16) == 16
    )


@settings(max_examples=120, deadline=60_000)
@given(OVERRIDES, st.dictionaries(st.sampled_from(THERE + NOWHERE), OVERRIDES, max_size=2), st.booleans())
def test_no_override_of_one_layer_slips_through(
    tmp_path_factory: pytest.TempPathFactory, whole: dict[str, Any], one: dict[str, Any], head: bool
) -> None:
    folder = tmp_path_factory.getbasetemp() / "int8-fuzz"
    value = config("auto-round-w4")
    value["quantization_config"] |= whole | {"extra_config": one, "quant_lm_head": head}
    base = {**value["quantization_config"], "extra_config": None}
    entries = [base, *(base | entry for name, entry in one.items() if name in THERE)]
    packed = [entry for entry in entries if entry["bits"] < 16]
    looked_at(folder, value)
    offered = checkpoint_state(inspect(str(folder))).state == "offered"
    assert offered == (bool(packed) and all(is_good(entry) for entry in packed))
