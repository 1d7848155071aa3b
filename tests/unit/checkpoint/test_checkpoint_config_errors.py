"""config.json as it must not be: one sentence with the key and a fix, never a traceback."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from checkpoint_files import FIXTURES, config, write_config

from cockpit.checkpoint.inspect import inspect
from cockpit.checkpoint.keys import MAX_CONFIG_BYTES
from cockpit.errors import CockpitError


def refused(source: Path | str) -> CockpitError:
    with pytest.raises(CockpitError) as caught:
        inspect(str(source))
    error = caught.value
    assert error.exit_code == 2
    assert error.title
    assert error.fix
    assert error.sentence().isprintable()
    return error


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("num_hidden_layers", "36", "num_hidden_layers must be a whole number"),
        ("num_hidden_layers", None, "there is no such key"),
        ("num_hidden_layers", -1, "is -1"),
        ("num_hidden_layers", 0, "is 0"),
        ("num_hidden_layers", True, "is true"),
        ("num_hidden_layers", 36.5, "is 36.5"),
        ("num_hidden_layers", 10**9, "is 1000000000"),
        ("num_hidden_layers", 10**200, "is a huge number"),
        ("num_hidden_layers", float("nan"), "is nan"),
        ("num_hidden_layers", float("inf"), "is inf"),
        ("hidden_size", [4096], "hidden_size must be a whole number"),
        ("num_attention_heads", 10**6, "num_attention_heads"),
        ("vocab_size", "many", "vocab_size"),
        ("head_dim", -128, "head_dim"),
        ("tie_word_embeddings", "yes", "tie_word_embeddings must be true or false"),
        ("layer_types", "full_attention", "layer_types must be a list of layer kinds"),
        ("layer_types", ["full_attention"], "a kind for each of the 36 layers"),
        ("layer_types", [1] * 36, "layer_types"),
        ("layer_types", ["Full\u001b[31m"] * 36, "layer_types"),
        ("architectures", None, "architectures"),
        ("architectures", "Qwen3ForCausalLM", "architectures must be a list"),
        ("architectures", [], "architectures"),
        ("architectures", ["\u001b[2J"], "architectures"),
        ("model_type", 3, "model_type must be a name"),
        ("model_type", "\u202egpj", "model_type must be a name"),
        ("text_config", [], "text_config must be an object"),
        ("vision_config", 7, "vision_config must be an object"),
        ("num_experts", "eight", "num_experts"),
        ("num_experts", -8, "num_experts"),
        ("mtp_num_hidden_layers", "one", "mtp_num_hidden_layers"),
        ("quantization_config", "auto-round", "quantization_config must be an object"),
        ("quantization_config", ["auto-round"], "quantization_config must be an object"),
        ("hybrid_override_pattern", "MXM", "made of the letters"),
        ("torch_dtype", 16, "dtype"),
    ],
)
def test_a_wrong_value_is_named_with_what_it_must_be(tmp_path: Path, key: str, value: Any, says: str) -> None:
    changed = config("auto-round-w4") | {key: value}
    if key == "torch_dtype":
        del changed["dtype"]
    error = refused(write_config(tmp_path, changed))
    assert says in error.sentence()
    assert str(tmp_path) in error.title


@pytest.mark.parametrize(
    ("base", "key", "value", "says"),
    [
        ("auto-round-w4", "bits", "four", "quantization_config.bits must be a whole number"),
        ("auto-round-w4", "bits", None, "quantization_config.bits"),
        ("auto-round-w4", "bits", 0, "quantization_config.bits"),
        ("auto-round-w4", "bits", True, "quantization_config.bits"),
        ("auto-round-w4", "quant_method", ["auto-round"], "quantization_config.quant_method must be a name"),
        ("auto-round-w4", "sym", 1, "quantization_config.sym must be true or false"),
        ("auto-round-w4", "group_size", "128", "quantization_config.group_size"),
        ("auto-round-w4", "group_size", [1, 2, 3], "quantization_config.group_size"),
        ("auto-round-w4", "data_type", 4, "quantization_config.data_type"),
        ("auto-round-w4", "extra_config", [], "quantization_config.extra_config must be an object"),
        ("auto-round-w4", "extra_config", {"a": 8}, "quantization_config.extra_config.a must be an object"),
        ("auto-round-w4", "extra_config", {"a": {"bits": "8"}}, "quantization_config.extra_config.a.bits"),
        ("auto-round-w4", "extra_config", {"a": {"bits": 8}, "b\u001b": 3}, "b\\x1b"),
        ("auto-round-w4", "block_name_to_quantize", 3, "block_name_to_quantize"),
        ("gptq-w4", "dynamic", {"+:.*": []}, "dynamic"),
        ("gptq-w4", "modules_in_block_to_quantize", [[1]], "modules_in_block_to_quantize"),
        ("awq-w4", "zero_point", "no", "zero_point"),
        ("awq-w4", "modules_to_not_convert", {}, "modules_to_not_convert"),
        ("compressed-tensors-w4", "config_groups", [], "config_groups"),
        ("compressed-tensors-w4", "config_groups", {"a": "W4A16"}, "config_groups.a must be an object"),
        ("compressed-tensors-w4", "config_groups", {"a": {"targets": 3}}, "config_groups.a.targets"),
        ("compressed-tensors-w4", "config_groups", {"a": {"weights": {"num_bits": 4.5}}}, "num_bits"),
        ("compressed-tensors-w4", "ignore", [None], "ignore must be a list of names"),
        ("fp8", "weight_block_size", "128", "weight_block_size"),
        ("nvfp4", "quant_algo", {}, "quant_algo"),
        ("nvfp4", "ignore", "*" * 600, "ignore"),
    ],
)
def test_a_wrong_value_in_the_quantization_config_is_named(
    tmp_path: Path, base: str, key: str, value: Any, says: str
) -> None:
    changed = config(base)
    changed["quantization_config"][key] = value
    assert says in refused(write_config(tmp_path, changed)).sentence()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[]", "must be a JSON object"),
        ("null", "must be a JSON object"),
        ('"' + "x" * 100 + '"', "must be a JSON object"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
        ("9" * 10_000, "a number that is too long"),
    ],
)
def test_text_that_is_no_config_is_refused(tmp_path: Path, text: str, says: str) -> None:
    assert says in refused(write_config(tmp_path, text)).sentence()


def test_text_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(b'{"a": "\xff"}')
    assert "not UTF-8" in refused(tmp_path).title


def test_infinity_in_a_key_that_is_not_used_is_fine(tmp_path: Path) -> None:
    text = json.dumps(config("llama") | {"time_step_limit": [0.0, float("inf")]})
    assert "Infinity" in text
    assert inspect(str(write_config(tmp_path, text))).n_layers == 32


@pytest.mark.parametrize("size", [MAX_CONFIG_BYTES + 1, 1024**3])
def test_a_huge_config_is_refused_before_it_is_read(tmp_path: Path, size: int) -> None:
    with (tmp_path / "config.json").open("wb") as handle:
        handle.truncate(size)
    begin = time.process_time()
    assert "larger than 16 MiB" in refused(tmp_path).title
    assert time.process_time() - begin < 1


def test_a_folder_without_a_config_says_so(tmp_path: Path) -> None:
    assert "has no config.json" in refused(tmp_path).title


def test_a_link_that_points_at_nothing_says_so(tmp_path: Path) -> None:
    (tmp_path / "config.json").symlink_to(tmp_path / "gone")
    assert "points at nothing" in refused(tmp_path).title


def test_a_pipe_in_place_of_a_config_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.json")
    assert "not a file" in refused(tmp_path).title


def test_a_config_that_may_not_be_read_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_config(tmp_path, config("llama"))
    if os.geteuid() != 0:
        (tmp_path / "config.json").chmod(0)
    else:
        # Root reads whatever it likes; so the refusal is made here.
        def deny(*_: Any, **__: Any) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(Path, "open", deny)
    assert "cannot be read: Permission denied" in refused(tmp_path).sentence()


def test_one_bad_checkpoint_leaves_the_others_alone(tmp_path: Path) -> None:
    write_config(tmp_path / "bad", "{")
    write_config(tmp_path / "good", config("llama"))
    refused(tmp_path / "bad")
    assert inspect(str(tmp_path / "good")).architecture == "LlamaForCausalLM"


def test_the_shipped_configs_are_all_read() -> None:
    for folder in FIXTURES.iterdir():
        assert inspect(str(folder)).source == str(folder)


def test_a_model_without_attention_is_refused_as_what_it_is(tmp_path: Path) -> None:
    """Nothing of the config is wrong, so that nothing is to be corrected."""
    told = {"architectures": ["Mamba2ForCausalLM"], "model_type": "mamba2", "hidden_size": 64, "num_hidden_layers": 2}
    (tmp_path / "config.json").write_text(json.dumps({**told, "vocab_size": 512}), encoding="utf-8")
    error = refused(tmp_path)
    assert "no attention" in error.title and "Correct" not in (error.fix or "")
