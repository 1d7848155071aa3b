"""Whatever config.json holds, it is a checkpoint or one sentence, and soon."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from checkpoint_files import FIXTURES, config, write_config
from hypothesis import given, settings
from hypothesis import strategies as st

from cockpit.checkpoint.inspect import inspect
from cockpit.checkpoint.types import Checkpoint
from cockpit.errors import CockpitError

NAMES = sorted(folder.name for folder in FIXTURES.iterdir())
METHODS = "auto-round gptq awq fp8 modelopt mxfp4 compressed-tensors bitsandbytes int nv_fp NVFP4 asym"
OTHERS = "full_attention linear_attention re:.* .*mlp.* Linear lm_head sparse M*E"
WORDS = st.sampled_from([*METHODS.split(), *OTHERS.split()])
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-2, 300)
    | st.integers()
    | st.floats()
    | WORDS
    | st.text(max_size=12)
    | st.sampled_from(["(", "\u001b[31m", "\ud800", "(.*)*x", "9" * 40])
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(WORDS | st.text(max_size=10), inner, max_size=5),
    max_leaves=20,
)


def looked_at(folder: Path, value: Any) -> Checkpoint | None:
    """What inspect makes of it; anything but a checkpoint or one printable sentence fails the test."""
    write_config(folder, json.dumps(value))
    try:
        checkpoint = inspect(str(folder))
    except CockpitError as error:
        assert error.fix
        assert error.sentence().isprintable()
        return None
    assert checkpoint.n_layers >= 1
    assert all(count > 0 for _, count in checkpoint.quantization.schemes)
    for word in (checkpoint.architecture, checkpoint.model_type, checkpoint.dtype, *checkpoint.layers):
        assert word.isprintable()
    assert checkpoint.sizes is None or checkpoint.sizes.total >= 0
    return checkpoint


def paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value; of long lists the first entries."""
    inner: list[Any] = list(value.items()) if isinstance(value, dict) else []
    inner = list(enumerate(value))[:3] if isinstance(value, list) else inner
    return [at, *(path for key, child in inner for path in paths(child, (*at, key)))] if inner else [at]


@settings(max_examples=150, deadline=60_000)
@given(values)
def test_any_json_is_a_checkpoint_or_one_sentence(tmp_path_factory: pytest.TempPathFactory, value: Any) -> None:
    looked_at(tmp_path_factory.getbasetemp() / "fuzz", value)


@settings(max_examples=250, deadline=60_000)
@given(st.sampled_from(NAMES), st.data())
def test_a_true_config_with_anything_in_one_or_two_places_is_a_checkpoint_or_one_sentence(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    value = config(name)
    for _ in range(data.draw(st.integers(1, 2))):
        *above, last = data.draw(st.sampled_from([path for path in paths(value) if path]))
        target = value
        for key in above:
            target = target[key]
        if isinstance(target, dict) and data.draw(st.booleans()):
            last = data.draw(st.sampled_from([*target, "num_experts", "layer_types", "extra_config", "text_config"]))
        target[last] = data.draw(values)
    looked_at(tmp_path_factory.getbasetemp() / "fuzz", value)


@settings(max_examples=60, deadline=60_000)
@given(st.text(max_size=300))
def test_any_text_is_one_sentence_at_most(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    folder = tmp_path_factory.getbasetemp() / "fuzz"
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(CockpitError):
        inspect(str(folder))


@settings(max_examples=40, deadline=60_000)
@given(
    st.text(alphabet=".*+?()[]|abl{}0123,^$", max_size=40),
    st.sampled_from([("auto-round-w4", "extra_config"), ("gptq-w4", "dynamic"), ("compressed-tensors-w4", "ignore")]),
)
def test_any_pattern_ends(tmp_path_factory: pytest.TempPathFactory, text: str, place: tuple[str, str]) -> None:
    name, key = place
    value = config(name)
    value["quantization_config"][key] = [f"re:{text}"] if key == "ignore" else {text: {"bits": 8}}
    looked_at(tmp_path_factory.getbasetemp() / "fuzz", value)


@pytest.mark.parametrize("layers", [1024, 10**6])
def test_a_model_of_absurd_depth_takes_no_time(tmp_path: Path, layers: int) -> None:
    value = config("auto-round-w4-moe")
    value["text_config"] |= {"num_hidden_layers": layers, "layer_types": ["full_attention"] * layers}
    assert (looked_at(tmp_path, value) is not None) == (layers == 1024)
