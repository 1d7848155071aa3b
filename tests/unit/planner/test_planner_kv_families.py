"""Checkpoints that are answered for, and reasons for those that are not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from checkpoint_files import FIXTURES, config

from cockpit.checkpoint.inspect import inspect
from cockpit.checkpoint.types import Checkpoint
from cockpit.planner.batch import default_batched_tokens
from cockpit.planner.families import kv_model
from cockpit.planner.layout import kv_layout
from cockpit.planner.pages import bytes_per_head, known_type
from cockpit.planner.types import AttentionLayers, KvLayout, KvModel, KvSettings, KvUnknown
from cockpit.planner.versions import NEWEST, release_of
from cockpit.planner.weights import rank_weights

GIB = 1024**3


def _checkpoint(name: str) -> Checkpoint:
    return inspect(str(FIXTURES / name / "config.json"))


def _model(name: str) -> KvModel:
    model = kv_model(_checkpoint(name))
    assert isinstance(model, KvModel), model
    return model


def _reason(answer: object) -> str:
    assert isinstance(answer, KvUnknown), answer
    assert answer.reason and not answer.reason.endswith(".")
    return answer.reason


def test_a_hybrid_config_gives_the_published_shape() -> None:
    model = _model("bf16-hybrid")
    assert model.attention == (AttentionLayers(layers=16, kv_heads=4, head_dim=256),)
    assert (model.gated_delta_layers, model.mtp_layers, model.element_bytes) == (48, 1, 2)


def test_a_config_that_does_not_say_its_type_is_told_so(tmp_path: Path) -> None:
    told = {name: value for name, value in config("bf16").items() if name != "model_type"}
    (tmp_path / "config.json").write_text(json.dumps(told))
    assert "has no model_type" in _reason(kv_model(inspect(str(tmp_path))))


def test_a_windowed_config_keeps_its_kinds_apart() -> None:
    assert [(one.layers, one.window) for one in _model("gemma3").attention] == [(29, 1024), (5, None)]
    assert [(one.layers, one.window) for one in _model("gpt-oss-mxfp4").attention] == [(12, 128), (12, None)]


def test_a_float32_checkpoint_is_served_in_16_bits(tmp_path: Path) -> None:
    """_resolve_auto_dtype of vllm/config/model.py: keys, values and weights take what they take in bfloat16."""
    both = []
    for name in ("bfloat16", "float32"):
        folder = tmp_path / name
        folder.mkdir()
        told = {**config("bf16"), "dtype": name, "torch_dtype": name}
        (folder / "config.json").write_text(json.dumps(told))
        both.append(inspect(str(folder)))
    assert both[1].sizes is not None and both[0].sizes is not None
    assert both[1].sizes.total == 2 * both[0].sizes.total
    assert kv_model(both[1]) == kv_model(both[0])
    assert rank_weights(both[1], tensor_parallel=1) == rank_weights(both[0], tensor_parallel=1)


def test_qwen3_next_keeps_its_states_in_the_models_own_type() -> None:
    state = _model("qwen3-next").gated_delta
    assert state is not None and state.state_bytes == 2


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("deepseek-v3", "latent attention"),
        ("jamba", "Mamba layers"),
        ("nemotron-h", "Mamba layers"),
    ],
)
def test_a_family_that_is_not_covered_is_unknown_and_says_why(name: str, says: str) -> None:
    assert says in _reason(kv_model(_checkpoint(name)))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"model_type": "kimi_k2"}, "latent attention"),
        ({"global_head_dim": 256}, "heads of two sizes"),
        ({"layers_without_kv": {"full_attention": 4}}, "layers that share keys and values"),
        ({"model_type": "gemma3n_text", "layers_without_kv": {"full_attention": 32}}, "no attention layers"),
        ({"model_type": "gemma4_unified"}, "gemma4_unified"),
        ({"model_type": "mllama"}, "cross-attention"),
        ({"model_type": "brand_new"}, "brand_new"),
        ({"layers": {"chunked_attention": 24, "full_attention": 8}}, "chunked local attention"),
        ({"layers": {"something": 24}}, "something"),
        ({"layers": {"linear_attention": 24, "full_attention": 8}}, "linear attention"),
        ({"layers": {"sliding_attention": 24}}, "how wide"),
        ({"layers": {}}, "no attention layers"),
    ],
)
def test_what_cannot_be_told_from_a_plain_model_is_never_guessed(changes: dict[str, Any], says: str) -> None:
    checkpoint = msgspec.structs.replace(_checkpoint("llama"), **changes)
    assert says in _reason(kv_model(checkpoint))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"tensor_parallel": 3}, "4 KV heads cannot be shared evenly by 3 ranks"),
        ({"tensor_parallel": 32}, "GDN layers do not divide"),
        ({"kv_cache_dtype": "turboquant_k8v4"}, "turboquant_k8v4"),
        ({"kv_cache_dtype": "fp8_ds_mla"}, "fp8_ds_mla"),
        ({"platform": "cpu", "kv_cache_dtype": "int8_per_token_head"}, "CPU build"),
        ({"platform": "rocm"}, "rocm"),
        ({"engine_version": "0.20.2"}, "older than 0.21"),
        ({"engine_version": "0.25.1", "platform": "cpu"}, "older than 0.26"),
        ({"engine_version": "main"}, "version is not known"),
        ({"speculative_tokens": 2, "speculative_method": "eagle3"}, "eagle3"),
        ({"capability": (11, 0)}, "FlashAttention 4"),
    ],
)
def test_settings_that_are_not_covered_are_unknown(changes: dict[str, Any], says: str) -> None:
    settings = KvSettings(**{"max_model_len": 4096, **changes})
    assert says in _reason(kv_layout(_model("bf16-hybrid"), settings))


def test_mtp_without_a_head_and_two_byte_states_on_the_cpu_are_unknown() -> None:
    drafting = KvSettings(max_model_len=4096, speculative_tokens=2)
    assert "no MTP head" in _reason(kv_layout(_model("qwen3-next"), drafting))
    on_cpu = KvSettings(max_model_len=4096, platform="cpu")
    assert "processor" in _reason(kv_layout(_model("qwen3-next"), on_cpu))


def test_a_draft_without_layers_takes_states_but_no_attention() -> None:
    model = _model("bf16-hybrid")
    plain, ngram, mtp = (
        kv_layout(model, KvSettings(max_model_len=4096, speculative_tokens=tokens, speculative_method=method))
        for tokens, method in ((0, "mtp"), (3, "ngram"), (3, "mtp"))
    )
    assert isinstance(plain, KvLayout) and isinstance(ngram, KvLayout) and isinstance(mtp, KvLayout)
    assert [sum(group.layers for group in layout.groups) for layout in (plain, ngram, mtp)] == [64, 64, 65]
    assert [layout.blocks_per_request(1) for layout in (plain, ngram, mtp)] == [1 + 3 * 2, 1 + 3 * 5, 1 + 3 * 5]


@pytest.mark.parametrize(
    ("capability", "version", "block", "taken"),
    [
        (None, None, 800, 16),
        ((8, 6), "0.33.0", 800, 16),
        ((9, 0), "0.33.0", 832, 19),
        ((12, 0), "0.33.0", 832, 19),
        ((9, 0), "0.32.0", 800, 16),
        ((9, 0), "0.34.0", 832, 19),
    ],
)
def test_flashinfer_keeps_one_state_more_where_it_computes_gdn(
    capability: tuple[int, int] | None, version: str | None, block: int, taken: int
) -> None:
    settings = KvSettings(
        max_model_len=4096, speculative_tokens=3, prefix_caching=True, capability=capability, engine_version=version
    )
    layout = kv_layout(_model("bf16-hybrid"), settings)
    assert isinstance(layout, KvLayout)
    assert (layout.block_size_tokens, layout.blocks_per_request(block)) == (block, taken)
    without = kv_layout(_model("bf16-hybrid"), msgspec.structs.replace(settings, prefix_caching=False))
    assert isinstance(without, KvLayout) and without.block_size_tokens == 800


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        ("auto", 1024),
        ("bfloat16", 1024),
        ("fp8", 512),
        ("fp8_e5m2", 512),
        ("int8_per_token_head", 520),
        ("fp8_per_token_head", 520),
        ("int4_per_token_head", 264),
        ("nvfp4", 288),
        ("octave_k3v4", None),
    ],
)
def test_a_token_takes_its_bytes_by_type_with_the_scales(dtype: str, size: int | None) -> None:
    assert bytes_per_head(256, dtype, 2) == size
    assert known_type(dtype)


def test_a_misspelled_type_is_not_taken_for_one() -> None:
    assert not known_type("fp9")
    assert not known_type("turboquant_\n")


@pytest.mark.parametrize(
    ("settings", "tokens"),
    [
        ({"gpu_total_bytes": 24 * GIB}, 2048),
        ({"gpu_total_bytes": 140 * GIB}, 8192),
        ({"gpu_total_bytes": 180 * GIB}, 16384),
        ({"gpu_total_bytes": 80 * GIB, "gpu_name": "NVIDIA A100-SXM4-80GB"}, 2048),
        ({"gpu_total_bytes": 120 * GIB, "capability": (12, 1)}, 2048),
        ({"platform": "cpu", "tensor_parallel": 2}, 4096),
    ],
)
def test_steps_are_as_large_as_vllm_makes_them(settings: dict[str, Any], tokens: int) -> None:
    assert default_batched_tokens(KvSettings(max_model_len=4096, **settings), NEWEST) == tokens


def test_windowed_layers_hold_the_steps_under_way_and_say_for_which() -> None:
    model = _model("gemma3")
    small, large = (
        kv_layout(model, KvSettings(max_model_len=131_072, max_num_batched_tokens=tokens)) for tokens in (2048, 8192)
    )
    assert isinstance(small, KvLayout) and isinstance(large, KvLayout)
    assert (small.batched_tokens, large.batched_tokens) == (2048, 8192)
    # 29 windowed and 5 full layers make groups of 5: 6 and 1; a window of 1,024 and two steps.
    assert small.blocks_per_request(131_072) == 8192 + 6 * (-(-(1023 + 2 * 2048) // 16) + 1)
    assert large.blocks_per_request(131_072) - small.blocks_per_request(131_072) == 6 * 2 * (8192 - 2048) // 16


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("0.33.0", (0, 33)),
        ("v0.27.2rc1.dev3+gabc", (0, 27)),
        ("1.0", (1, 0)),
        (None, NEWEST),
        ("x", None),
        ("0.3a", (0, 3)),
    ],
)
def test_a_version_is_read_by_its_first_two_numbers(text: str | None, release: tuple[int, int] | None) -> None:
    assert release_of(text) == release


def test_the_fixture_configs_are_really_what_the_tests_say() -> None:
    assert config("bf16-hybrid")["architectures"] == ["Qwen3_5ForConditionalGeneration"]


_LLAMA = {
    "hidden_size": 2048,
    "intermediate_size": 4096,
    "num_hidden_layers": 12,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "vocab_size": 32000,
    "max_position_embeddings": 32768,
}
Shapes = list[tuple[int, int, int, int | None]]


def _shapes(tmp_path: Path, architecture: str, model_type: str, **changes: Any) -> Shapes | str:
    """Layers, KV heads, head size and window of each kind, or the reason for none."""
    told = {**_LLAMA, "architectures": [architecture], "model_type": model_type, **changes}
    (tmp_path / "config.json").write_text(
        json.dumps({key: value for key, value in told.items() if value != "absent"})
    )
    model = kv_model(inspect(str(tmp_path)))
    if isinstance(model, KvUnknown):
        return model.reason
    return [(one.layers, one.kv_heads, one.head_dim, one.window) for one in model.attention]


@pytest.mark.parametrize(
    ("architecture", "model_type", "changes", "expected"),
    [
        ("LlamaForCausalLM", "llama", {"num_key_value_heads": None}, [(12, 16, 128, None)]),
        ("LlamaForCausalLM", "llama", {"head_dim": None}, [(12, 4, 128, None)]),
        ("LlamaForCausalLM", "llama", {"sliding_window": 4096}, [(12, 4, 128, 4096)]),
        (
            "LlamaForCausalLM",
            "llama",
            {"layer_types": ["sliding_attention", "full_attention"] * 6, "sliding_window": 1024},
            [(6, 4, 128, 1024), (6, 4, 128, None)],
        ),
        ("MistralForCausalLM", "mistral", {"sliding_window": None}, [(12, 4, 128, None)]),
        ("MistralForCausalLM", "mistral", {}, [(12, 4, 128, 4096)]),
        ("Qwen2ForCausalLM", "qwen2", {"sliding_window": 4096}, [(12, 4, 128, None)]),
        ("Qwen2ForCausalLM", "qwen2", {"sliding_window": 4096, "use_sliding_window": False}, [(12, 4, 128, None)]),
        ("Qwen2ForCausalLM", "qwen2", {"sliding_window": 4096, "use_sliding_window": True}, [(12, 4, 128, None)]),
        (
            "Qwen2ForCausalLM",
            "qwen2",
            {"sliding_window": 4096, "use_sliding_window": True, "max_window_layers": 0},
            [(12, 4, 128, 4096)],
        ),
        (
            "Qwen3ForCausalLM",
            "qwen3",
            {"sliding_window": 4096, "use_sliding_window": True, "max_window_layers": 6},
            "vLLM does not serve qwen3 models with windows in some layers only",
        ),
        (
            "Qwen3MoeForCausalLM",
            "qwen3_moe",
            {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64, "sliding_window": 4096},
            [(12, 4, 128, None)],
        ),
        ("Starcoder2ForCausalLM", "starcoder2", {"sliding_window": 4096}, [(12, 4, 128, 4096)]),
        ("Phi3ForCausalLM", "phi3", {"sliding_window": 2047}, [(12, 4, 128, 2047)]),
        ("GptOssForCausalLM", "gpt_oss", {"head_dim": 64}, [(6, 4, 64, 128), (6, 4, 64, None)]),
        ("Cohere2ForCausalLM", "cohere2", {}, [(9, 4, 128, 4096), (3, 4, 128, None)]),
        ("Gemma2ForCausalLM", "gemma2", {"head_dim": 256}, [(6, 4, 256, 4096), (6, 4, 256, None)]),
        ("Olmo3ForCausalLM", "olmo3", {"sliding_window": 512}, [(9, 4, 128, 512), (3, 4, 128, None)]),
        ("Exaone4ForCausalLM", "exaone4", {"sliding_window_pattern": "LLLG"}, [(9, 4, 128, 4096), (3, 4, 128, None)]),
    ],
)
def test_odd_configs_of_common_families_come_out_as_in_vllm(
    tmp_path: Path, architecture: str, model_type: str, changes: dict[str, Any], expected: Shapes | str
) -> None:
    """Of each: the KV cache specs of vLLM 0.32's own model class (tests/live/test_specs_against_vllm.py)."""
    assert _shapes(tmp_path, architecture, model_type, **changes) == expected


def test_a_window_of_cohere_counts_the_token_itself_since_0_30(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        json.dumps({**_LLAMA, "architectures": ["Cohere2ForCausalLM"], "model_type": "cohere2"})
    )
    model = kv_model(inspect(str(tmp_path)))
    assert isinstance(model, KvModel)
    held = {}
    for version in ("0.28.0", "0.30.0"):
        layout = kv_layout(
            model, KvSettings(max_model_len=32768, engine_version=version, max_num_batched_tokens=2048)
        )
        assert isinstance(layout, KvLayout)
        held[version] = [group.window_tokens for group in layout.groups if group.window_tokens is not None]
    assert held["0.30.0"] == [tokens + 1 for tokens in held["0.28.0"]]
    unread = kv_layout(model, KvSettings(max_model_len=32768, engine_version="0.29.1"))
    assert "0.29" in _reason(unread)
