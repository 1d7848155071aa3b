"""Exceptions in quantization configs: by exact name, by expression, by block, by class, and their order."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from checkpoint_files import config, write_config

from cockpit.checkpoint.inspect import inspect
from cockpit.checkpoint.patterns import MAX_PATTERN, compile_pattern
from cockpit.checkpoint.types import Quantization
from cockpit.errors import CockpitError


def quantized(folder: Path, base: str, **changes: Any) -> Quantization:
    """The quantization of a shipped config with other entries in its quantization_config."""
    value = config(base)
    value["quantization_config"] |= changes
    return inspect(str(write_config(folder, value))).quantization


@pytest.mark.parametrize(
    ("extra", "widths"),
    [
        ({"model.layers.3.mlp.up_proj": {"bits": 8}}, {4: 251, 8: 1}),
        ({"layers.3.mlp.up_proj": {"bits": 8}}, {4: 251, 8: 1}),
        ({"up_proj": {"bits": 8}}, {4: 216, 8: 36}),
        ({r"layers\.[0-3]\..*_proj": {"bits": 3}}, {4: 224, 3: 28}),
        ({r".*self_attn.*": {"bits": 16, "data_type": "fp"}}, {4: 108}),
        ({"model.layers.0.mlp.up_proj": {"bits": 8}, ".*up_proj": {"bits": 2}}, {4: 216, 2: 35, 8: 1}),
        ({".*": {"bits": 2}, ".*up_proj": {"bits": 8}}, {2: 252}),
    ],
)
def test_auto_round_exceptions_win_by_exactness_then_by_order(
    tmp_path: Path, extra: dict[str, Any], widths: dict[int, int]
) -> None:
    assert quantized(tmp_path, "auto-round-w4", extra_config=extra).widths == widths


def test_auto_round_quantizes_lm_head_only_when_it_says_so(tmp_path: Path) -> None:
    assert quantized(tmp_path / "a", "auto-round-w4").lm_head_bits is None
    assert quantized(tmp_path / "b", "auto-round-w4", extra_config={"lm_head": {"bits": 8}}).lm_head_bits == 8
    assert quantized(tmp_path / "c", "auto-round-w4", quant_lm_head=True).lm_head_bits == 4


@pytest.mark.parametrize("prefix", ["model.language_model.", "language_model.model.", "model."])
def test_auto_round_blocks_count_under_every_name_that_the_text_model_has_had(tmp_path: Path, prefix: str) -> None:
    blocks = quantized(tmp_path, "auto-round-w4-hybrid", block_name_to_quantize=prefix + "layers")
    assert blocks.widths == {4: 400}


def test_auto_round_without_blocks_quantizes_the_mtp_head_too(tmp_path: Path) -> None:
    assert quantized(tmp_path, "auto-round-w4-hybrid", block_name_to_quantize=None).widths == {4: 408}


def test_an_exception_may_change_the_data_type_and_the_symmetry(tmp_path: Path) -> None:
    extra = {"model.layers.0.mlp.up_proj": {"data_type": "mx_fp", "group_size": 32, "sym": True}}
    schemes = dict(quantized(tmp_path / "a", "auto-round-w4", extra_config=extra).schemes)
    assert sorted(scheme.kind for scheme in schemes) == ["float", "int"]
    extra = {"model.layers.0.mlp.up_proj": {"data_type": "int_asym"}}
    schemes = dict(quantized(tmp_path / "b", "auto-round-w4", extra_config=extra).schemes)
    assert {scheme.symmetric for scheme in schemes} == {True, False}


def test_gptq_overrides_take_modules_out_and_change_their_figures(tmp_path: Path) -> None:
    dynamic = {r"-:.*self_attn.*": {}, r"+:.*down_proj": {"bits": 8, "sym": False}, r".*up_proj": {"bits": 3}}
    assert quantized(tmp_path, "gptq-w4", dynamic=dynamic).widths == {8: 36, 3: 36, 4: 36}


def test_gptq_blocks_are_parts_of_names(tmp_path: Path) -> None:
    blocks = [["self_attn.q_proj", "self_attn.k_proj"], ["mlp.up_proj"]]
    assert quantized(tmp_path, "gptq-w4", dynamic={}, modules_in_block_to_quantize=blocks).widths == {4: 108}


def test_awq_leaves_out_what_it_names(tmp_path: Path) -> None:
    assert quantized(tmp_path, "awq-w4", modules_to_not_convert=["self_attn"]).widths == {4: 108}


def group(bits: int, *targets: str, **more: Any) -> dict[str, Any]:
    weights = {"num_bits": bits, "type": "int", "symmetric": True, "strategy": "group", "group_size": 128} | more
    return {"targets": list(targets), "weights": weights}


@pytest.mark.parametrize("turned", [False, True])
def test_compressed_tensors_takes_the_exact_name_before_the_expression_before_the_class(
    tmp_path: Path, turned: bool
) -> None:
    groups = {
        "a": group(4, "Linear"),
        "b": group(6, r"re:.*mlp\.up_proj$"),
        "c": group(8, "model.layers.0.mlp.up_proj"),
    }
    if turned:
        groups = dict(reversed(groups.items()))
    assert quantized(tmp_path, "compressed-tensors-w4", config_groups=groups).widths == {4: 216, 6: 35, 8: 1}


@pytest.mark.parametrize(
    ("ignore", "count"),
    [([], 252), (["re:.*self_attn.*"], 108), (["model.layers.0.mlp.up_proj"], 251), (["Linear"], 0), (["mlp"], 252)],
)
def test_compressed_tensors_ignores_by_name_expression_and_class(
    tmp_path: Path, ignore: list[str], count: int
) -> None:
    quantization = quantized(tmp_path, "compressed-tensors-w4", ignore=ignore)
    assert quantization.widths == ({4: count} if count else {})
    assert quantization.unquantized_modules == 252 - count


def test_linear_as_a_target_means_lm_head_too_unless_it_is_ignored(tmp_path: Path) -> None:
    assert quantized(tmp_path / "a", "compressed-tensors-w4").lm_head_bits is None
    assert quantized(tmp_path / "b", "compressed-tensors-w4", ignore=[]).lm_head_bits == 4


def test_an_expression_is_matched_from_the_start_of_the_name(tmp_path: Path) -> None:
    groups = {"a": group(4, "re:mlp")}
    assert quantized(tmp_path, "compressed-tensors-w4", config_groups=groups).widths == {}


def test_embedding_targets_are_told_apart_from_linear_layers(tmp_path: Path) -> None:
    groups = {"a": group(4, "Linear"), "b": group(8, "re:.*embed_tokens$")}
    quantization = quantized(tmp_path, "compressed-tensors-w4", config_groups=groups)
    assert (quantization.widths, quantization.embed_tokens_bits) == ({4: 252}, 8)
    assert quantization.plain_targets == ()


def test_modelopt_mixes_are_read_layer_by_layer(tmp_path: Path) -> None:
    layers = {f"model.layers.{i}.mlp.up_proj": {"quant_algo": "NVFP4", "group_size": 16} for i in range(36)}
    layers["model.layers.0.mlp.down_proj"] = {"quant_algo": "FP8"}
    quantization = quantized(
        tmp_path, "modelopt-fp8", quant_algo="MIXED_PRECISION", quantized_layers=layers, ignore=[]
    )
    assert quantization.method == "nvfp4"
    assert quantization.widths == {4: 36, 8: 1}


@pytest.mark.parametrize("word", ["MXFP8", "W4A16_AWQ", "INT8_SQ", ""])
def test_modelopt_schemes_that_are_not_known_are_other(tmp_path: Path, word: str) -> None:
    quantization = quantized(tmp_path, "modelopt-fp8", quant_algo=word or None)
    assert quantization.method == "other"
    assert quantization.declared_method == f"modelopt {word}".strip()


@pytest.mark.parametrize(
    ("change", "method"),
    [
        ({"quant_method": "quark"}, "other"),
        ({"quant_method": None}, "other"),
        ({"quant_method": "GPTQ"}, "gptq"),
        ({"quant_method": "auto_round"}, "auto-round"),
    ],
)
def test_a_method_is_known_by_its_names_and_unknown_ones_are_kept(
    tmp_path: Path, change: dict[str, Any], method: str
) -> None:
    quantization = quantized(tmp_path, "auto-round-w4", **change)
    assert quantization.method == method
    word = change["quant_method"]
    assert quantization.declared_method == (word.lower() if word else None)


@pytest.mark.parametrize("part", [None, {}])
def test_an_empty_quantization_config_is_none(tmp_path: Path, part: Any) -> None:
    value = config("auto-round-w4") | {"quantization_config": part}
    assert inspect(str(write_config(tmp_path, value))).quantization.method == "none"


@pytest.mark.parametrize(
    "text",
    [
        r"(a+)+$",
        r"(.*\.)*x",
        r"(?:ab|ab)+c",
        r"(.*)*",
        r"((a?){30}){30}",
        "a?" * 40 + "a" * 40,
        r"(\w+\.?)+!",
        ".*" * 20 + "x",
    ],
)
def test_a_pattern_that_could_run_for_hours_is_refused(text: str) -> None:
    with pytest.raises(CockpitError, match="could run for hours"):
        compile_pattern(text, "config.json")


@pytest.mark.parametrize(
    "text",
    [
        r".*layers.*mlp.*experts.*down_proj.*",
        r".*layers\.(" + "|".join(map(str, range(64))) + r")\.(mlp|self_attn)\..*_proj$",
        r"(?!.*visual).*mlp\.(gate|up)_proj$",
        r"model\.layers\.\d+\.mlp\.\w+",
        r".*linear_attn\.in_proj_[ab]$",
        r"(model\.)?(language_model\.)?layers\..*",
    ],
)
def test_patterns_as_checkpoints_have_them_pass(text: str) -> None:
    assert compile_pattern(text, "config.json").pattern == text


@pytest.mark.parametrize(
    "text", ["(", "[a-", "*x", "(?P<a>x)(?P<a>y)", "(?", "x" * (MAX_PATTERN + 1), "a{99999999999}"]
)
def test_a_pattern_that_is_none_is_one_sentence(tmp_path: Path, text: str) -> None:
    with pytest.raises(CockpitError, match=r"quantization_config") as caught:
        quantized(tmp_path, "compressed-tensors-w4", ignore=[f"re:{text}"])
    assert caught.value.fix
    assert "\n" not in caught.value.sentence()


def test_the_slowest_patterns_that_pass_end_in_time(tmp_path: Path) -> None:
    slow = [f"re:{'.*[a-z._0-9]' * 5}{index}!" for index in range(200)]
    begin = time.process_time()
    with pytest.raises(CockpitError, match="take too long"):
        quantized(tmp_path, "compressed-tensors-w4", ignore=slow)
    assert time.process_time() - begin < 20
