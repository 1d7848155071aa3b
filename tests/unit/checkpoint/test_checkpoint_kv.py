"""What a checkpoint says of its KV cache: its own number type, and layers that have none or one of another size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from checkpoint_files import config, write_config

from cockpit.checkpoint.inspect import inspect
from cockpit.errors import CockpitError
from cockpit.planner.families import kv_model
from cockpit.planner.kv import forecast_kv
from cockpit.planner.layout import kv_layout
from cockpit.planner.types import AttentionLayers, KvForecast, KvLayout, KvModel, KvSettings, KvUnknown

GIB = 1024**3
FLOAT8 = {"type": "float", "num_bits": 8, "strategy": "tensor", "symmetric": True, "dynamic": False}
CT = {"quant_method": "compressed-tensors", "config_groups": {}}
MODELOPT = {"quant_method": "modelopt", "quant_algo": "FP8"}


def _model(folder: Path, **changes: Any) -> KvModel | KvUnknown:
    return kv_model(inspect(str(write_config(folder, {**config("llama"), **changes}))))


@pytest.mark.parametrize(
    ("quantization", "dtype"),
    [
        ({**CT, "kv_cache_scheme": FLOAT8}, "fp8"),
        ({**CT, "kv_cache_scheme": {**FLOAT8, "strategy": "attn_head"}}, "fp8"),
        ({**CT, "kv_cache_scheme": None}, None),
        (CT, None),
        ({**CT, "kv_cache_scheme": {"type": "int", "num_bits": 8}}, "int8"),
        ({**MODELOPT, "kv_cache_quant_algo": "FP8"}, "fp8_e4m3"),
        ({**MODELOPT, "kv_cache_quant_algo": "NVFP4"}, "nvfp4"),
        ({**MODELOPT, "kv_cache_quant_algo": "INT8"}, None),
        ({**MODELOPT, "kv_cache_quant_algo": None}, None),
        ({**MODELOPT, "kv_cache_scheme": FLOAT8}, "fp8_e4m3"),
        ({**MODELOPT, "kv_cache_scheme": {**FLOAT8, "dynamic": True}}, None),
        ({**MODELOPT, "kv_cache_scheme": {"type": "float", "num_bits": 4}}, "nvfp4"),
        ({"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}, "fp8_e4m3"),
        ({"quant_method": "fp8", "kv_cache_scheme": FLOAT8}, None),
        ({"quant_method": "fp8", "kv_cache_quant_algo": "FP8"}, None),
        ({"quant_method": "unheard_of", "kv_cache_scheme": FLOAT8}, None),
    ],
)
def test_the_checkpoints_own_kv_cache_is_vllms(
    tmp_path: Path, quantization: dict[str, Any], dtype: str | None
) -> None:
    found = inspect(str(write_config(tmp_path, {**config("llama"), "quantization_config": quantization})))
    assert found.quantization.kv_cache_dtype == dtype


def test_a_modelopt_scheme_in_the_text_part_is_not_looked_for_and_one_of_compressed_tensors_is(
    tmp_path: Path,
) -> None:
    outer = config("bf16-hybrid")
    for number, (quantization, dtype) in enumerate(
        (({**MODELOPT, "kv_cache_quant_algo": "FP8"}, None), ({**CT, "kv_cache_scheme": FLOAT8}, "fp8"))
    ):
        outer["text_config"]["quantization_config"] = quantization
        found = inspect(str(write_config(tmp_path / str(number), outer)))
        assert found.quantization.kv_cache_dtype == dtype


def test_an_fp8_checkpoint_holds_twice_the_tokens_and_a_named_type_wins(tmp_path: Path) -> None:
    plain = _model(tmp_path / "a")
    own = _model(tmp_path / "b", quantization_config={**CT, "kv_cache_scheme": FLOAT8})
    assert isinstance(plain, KvModel) and isinstance(own, KvModel)
    auto, named = (KvSettings(max_model_len=4096, kv_cache_dtype=dtype) for dtype in ("auto", "bfloat16"))
    forecasts = [forecast_kv(model, settings, 8 * GIB) for model in (plain, own) for settings in (auto, named)]
    assert all(isinstance(one, KvForecast) for one in forecasts)
    tokens = [one.capacity_tokens for one in forecasts if isinstance(one, KvForecast)]
    assert tokens == [65536, 65536, 131072, 65536]


def test_a_kv_cache_that_vllm_refuses_has_no_forecast(tmp_path: Path) -> None:
    model = _model(tmp_path, quantization_config={**CT, "kv_cache_scheme": {"type": "int", "num_bits": 8}})
    assert isinstance(model, KvModel)
    answer = kv_layout(model, KvSettings(max_model_len=4096))
    assert isinstance(answer, KvUnknown) and "int8" in answer.reason


@pytest.mark.parametrize(
    "quantization",
    [
        {**CT, "kv_cache_scheme": "fp8"},
        {**CT, "kv_cache_scheme": {"num_bits": "8"}},
        {**MODELOPT, "kv_cache_quant_algo": 8},
    ],
)
def test_a_scheme_of_the_wrong_type_is_named(tmp_path: Path, quantization: dict[str, Any]) -> None:
    write_config(tmp_path, {**config("llama"), "quantization_config": quantization})
    with pytest.raises(CockpitError, match=r"kv_cache|num_bits"):
        inspect(str(tmp_path))


GEMMA4 = {
    "architectures": ["Gemma4ForCausalLM"],
    "model_type": "gemma4_text",
    "hidden_size": 5376,
    "intermediate_size": 21504,
    "num_hidden_layers": 60,
    "num_attention_heads": 32,
    "num_key_value_heads": 16,
    "head_dim": 256,
    "global_head_dim": 512,
    "num_global_key_value_heads": 4,
    "attention_k_eq_v": True,
    "sliding_window": 1024,
    "hidden_size_per_layer_input": 0,
    "vocab_size": 262144,
}


def _gemma(folder: Path, **changes: Any) -> tuple[AttentionLayers, ...]:
    model = kv_model(inspect(str(write_config(folder, {**GEMMA4, **changes}))))
    assert isinstance(model, KvModel), model
    return model.attention


def test_gemma_4_has_heads_of_two_sizes(tmp_path: Path) -> None:
    windowed = AttentionLayers(layers=50, kv_heads=16, head_dim=256, window=1024)
    assert _gemma(tmp_path / "a") == (windowed, AttentionLayers(layers=10, kv_heads=4, head_dim=512))
    # Without keys that are values, the number of KV heads is one for all layers.
    apart = _gemma(tmp_path / "b", attention_k_eq_v=False)
    assert apart == (windowed, AttentionLayers(layers=10, kv_heads=16, head_dim=512))


@pytest.mark.parametrize(("shared", "windowed", "full"), [(0, 50, 10), (1, 50, 9), (6, 45, 9), (20, 34, 6)])
def test_layers_that_use_the_keys_of_earlier_ones_take_nothing(
    tmp_path: Path, shared: int, windowed: int, full: int
) -> None:
    assert [one.layers for one in _gemma(tmp_path, num_kv_shared_layers=shared)] == [windowed, full]


def test_all_layers_shared_is_no_model(tmp_path: Path) -> None:
    found = inspect(str(write_config(tmp_path, {**GEMMA4, "num_kv_shared_layers": 60})))
    assert isinstance(kv_model(found), KvUnknown)
    write_config(tmp_path, {**GEMMA4, "num_kv_shared_layers": 61})
    with pytest.raises(CockpitError, match="num_kv_shared_layers"):
        inspect(str(tmp_path))


def test_gemma_3n_shares_fifteen_layers_where_its_config_does_not_say(tmp_path: Path) -> None:
    value = {
        "architectures": ["Gemma3nForCausalLM"],
        "model_type": "gemma3n_text",
        "hidden_size": 2048,
        "num_hidden_layers": 35,
        "vocab_size": 262400,
    }
    found = inspect(str(write_config(tmp_path, value)))
    model = kv_model(found)
    assert isinstance(model, KvModel)
    assert model.attention == (
        AttentionLayers(layers=16, kv_heads=2, head_dim=256, window=512),
        AttentionLayers(layers=4, kv_heads=2, head_dim=256),
    )
    # Its embeddings for each layer are not in the estimate, so that there is none.
    assert found.sizes is None


def test_a_video_may_make_the_steps_of_gemma_4_longer(tmp_path: Path) -> None:
    model = kv_model(inspect(str(write_config(tmp_path, GEMMA4))))
    assert isinstance(model, KvModel)
    text = KvSettings(max_model_len=8192)
    seeing = msgspec.structs.replace(text, vision=True)
    assert isinstance(kv_layout(model, text), KvLayout)
    answer = kv_layout(model, seeing)
    assert isinstance(answer, KvUnknown) and "max_num_batched_tokens" in answer.reason
    assert isinstance(kv_layout(model, msgspec.structs.replace(seeing, max_num_batched_tokens=4096)), KvLayout)
    assert isinstance(kv_layout(model, msgspec.structs.replace(seeing, gpu_total_bytes=140 * GIB)), KvLayout)


def test_keys_that_are_values_are_loaded_twice(tmp_path: Path) -> None:
    loads = {
        equal: inspect(
            str(
                write_config(
                    tmp_path / str(equal), {**GEMMA4, "attention_k_eq_v": equal, "num_global_key_value_heads": 16}
                )
            )
        ).loads
        for equal in (True, False)
    }
    assert loads[True] == loads[False]
