"""What today's configs say about themselves: one shipped config.json for every family and every int8 row."""

from __future__ import annotations

from pathlib import Path

import pytest
from checkpoint_files import FIXTURES, config, write_config

from cockpit.checkpoint.inspect import inspect
from cockpit.checkpoint.types import WeightScheme

GIB = 1024**3
HYBRID = {"linear_attention": 48, "full_attention": 16}


def scheme(
    bits: int,
    kind: str = "int",
    symmetric: bool | None = True,
    group: int | None = 128,
    activations: int | None = None,
) -> WeightScheme:
    return WeightScheme(bits=bits, kind=kind, symmetric=symmetric, group_size=group, activation_bits=activations)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "method", "schemes", "unquantized"),
    [
        ("auto-round-w4", "auto-round", {scheme(4): 252}, 0),
        ("auto-round-w4-hybrid", "auto-round", {scheme(4): 400}, 104),
        ("auto-round-w4-moe", "auto-round", {scheme(4): 30850, scheme(8): 120}, 918),
        ("auto-round-w2", "auto-round", {scheme(2): 252}, 0),
        ("auto-round-w3", "auto-round", {scheme(3): 252}, 0),
        ("auto-round-w5", "auto-round", {scheme(5): 252}, 0),
        ("auto-round-w6", "auto-round", {scheme(6): 252}, 0),
        ("auto-round-w7", "auto-round", {scheme(7): 252}, 0),
        ("auto-round-w8", "auto-round", {scheme(8): 252}, 0),
        ("auto-round-w4-asymmetric", "auto-round", {scheme(4, symmetric=False): 252}, 0),
        ("auto-round-w4-asymmetric-layer", "auto-round", {scheme(4): 251, scheme(4, symmetric=False): 1}, 0),
        ("auto-round-w4-8bit-layers", "auto-round", {scheme(4): 216, scheme(8): 36}, 0),
        ("auto-round-w4-channel", "auto-round", {scheme(4, group=-1): 252}, 0),
        ("auto-round-nvfp4", "auto-round", {scheme(4, "float", group=16, activations=4): 252}, 0),
        ("auto-round-mxfp4", "auto-round", {scheme(4, "float", group=32, activations=4): 252}, 0),
        ("gptq-w4", "gptq", {scheme(4): 210, scheme(4, group=32): 35}, 7),
        ("gptq-w8", "gptq", {scheme(8): 252}, 0),
        ("awq-w4", "awq", {scheme(4, symmetric=False): 252}, 0),
        ("compressed-tensors-w4", "compressed-tensors", {scheme(4): 252}, 0),
        ("compressed-tensors-w8", "compressed-tensors", {scheme(8): 252}, 0),
        ("compressed-tensors-int6-flat", "compressed-tensors", {scheme(6): 400}, 104),
        (
            "compressed-tensors-int6-mixed",
            "compressed-tensors",
            {scheme(7): 160, scheme(5): 128, scheme(6): 64, scheme(8): 48},
            104,
        ),
        ("compressed-tensors-fp8", "compressed-tensors", {scheme(8, "float", group=-1, activations=8): 252}, 0),
        ("compressed-tensors-nvfp4", "compressed-tensors", {scheme(4, "float", group=16, activations=4): 252}, 0),
        ("fp8", "fp8", {scheme(8, "float", activations=8): 407}, 97),
        ("modelopt-fp8", "fp8", {scheme(8, "float", group=None, activations=8): 252}, 0),
        ("nvfp4", "nvfp4", {scheme(4, "float", group=16, activations=4): 400}, 104),
        ("nvfp4-beside", "nvfp4", {scheme(4, "float", group=16, activations=4): 252}, 0),
        ("gpt-oss-mxfp4", "mxfp4", {scheme(4, "float", group=32): 48}, 120),
        ("bitsandbytes-nf4", "bitsandbytes", {scheme(4, "float", group=64): 252}, 0),
        ("bf16", "none", {}, 252),
        ("fp16", "none", {}, 252),
        ("bf16-hybrid", "none", {}, 504),
        ("unknown-method", "other", {}, 0),
    ],
)
def test_every_method_resolves_to_the_modules_it_means(
    name: str, method: str, schemes: dict[WeightScheme, int], unquantized: int
) -> None:
    quantization = inspect(str(FIXTURES / name)).quantization
    assert quantization.method == method
    assert dict(quantization.schemes) == schemes
    assert quantization.unquantized_modules == unquantized


@pytest.mark.parametrize(
    ("name", "architecture", "layers", "experts", "mtp", "vision", "tied"),
    [
        ("auto-round-w4", "Qwen3ForCausalLM", {"full_attention": 36}, None, 0, False, False),
        ("bf16-hybrid", "Qwen3_5ForConditionalGeneration", HYBRID, None, 1, True, False),
        (
            "auto-round-w4-moe",
            "Qwen3_5MoeForConditionalGeneration",
            {"linear_attention": 30, "full_attention": 10},
            256,
            1,
            True,
            False,
        ),
        ("llama", "LlamaForCausalLM", {"full_attention": 32}, None, 0, False, False),
        ("mixtral", "MixtralForCausalLM", {"full_attention": 32}, 8, 0, False, False),
        (
            "gemma3",
            "Gemma3ForConditionalGeneration",
            {"sliding_attention": 29, "full_attention": 5},
            None,
            0,
            True,
            True,
        ),
        ("gemma2", "Gemma2ForCausalLM", {"sliding_attention": 13, "full_attention": 13}, None, 0, False, True),
        (
            "qwen3-next",
            "Qwen3NextForCausalLM",
            {"linear_attention": 36, "full_attention": 12},
            512,
            0,
            False,
            False,
        ),
        (
            "gpt-oss-mxfp4",
            "GptOssForCausalLM",
            {"sliding_attention": 12, "full_attention": 12},
            32,
            0,
            False,
            False,
        ),
        ("deepseek-v3", "DeepseekV3ForCausalLM", {"full_attention": 61}, 256, 1, False, False),
        ("jamba", "JambaForCausalLM", {"mamba": 28, "full_attention": 4}, 16, 0, False, False),
        ("nemotron-h", "NemotronHForCausalLM", {"mamba": 3, "ffn": 4, "full_attention": 1}, 128, 0, False, False),
    ],
)
def test_every_family_is_read_from_its_own_keys(
    name: str,
    architecture: str,
    layers: dict[str, int],
    experts: int | None,
    mtp: int,
    vision: bool,
    tied: bool,
) -> None:
    checkpoint = inspect(str(FIXTURES / name))
    assert checkpoint.architecture == architecture
    assert checkpoint.layers == layers
    assert (checkpoint.moe, checkpoint.experts) == (experts is not None, experts)
    assert (checkpoint.mtp_layers, checkpoint.vision, checkpoint.tied_embeddings) == (mtp, vision, tied)


def test_the_hybrid_model_has_the_dimensions_that_the_memory_of_its_layers_follows_from() -> None:
    checkpoint = inspect(str(FIXTURES / "bf16-hybrid"))
    linear = checkpoint.linear_attention
    assert linear is not None
    assert (linear.key_heads, linear.value_heads, linear.key_head_dim, linear.value_head_dim) == (16, 48, 128, 128)
    assert (linear.conv_kernel, linear.state_bytes) == (4, 4)
    assert (checkpoint.attention_heads, checkpoint.kv_heads, checkpoint.head_dim) == (24, 4, 256)
    assert (checkpoint.hidden_size, checkpoint.vocab_size, checkpoint.max_model_len) == (5120, 248320, 262144)


def test_keys_that_gemma_leaves_to_its_class_are_supplied() -> None:
    checkpoint = inspect(str(FIXTURES / "gemma3"))
    assert (checkpoint.attention_heads, checkpoint.kv_heads, checkpoint.head_dim) == (8, 4, 256)
    assert (checkpoint.vocab_size, checkpoint.sliding_window, checkpoint.max_model_len) == (262208, 1024, 131072)


def test_head_dim_and_kv_heads_have_the_usual_defaults(tmp_path: Path) -> None:
    value = config("llama")
    del value["num_key_value_heads"]
    checkpoint = inspect(str(write_config(tmp_path, value)))
    assert (checkpoint.head_dim, checkpoint.kv_heads) == (128, 32)


@pytest.mark.parametrize("place", ["top", "text"])
def test_tied_embeddings_are_found_at_either_level(tmp_path: Path, place: str) -> None:
    value = config("bf16-hybrid")
    del value["tie_word_embeddings"], value["text_config"]["tie_word_embeddings"]
    (value if place == "top" else value["text_config"])["tie_word_embeddings"] = True
    checkpoint = inspect(str(write_config(tmp_path, value)))
    assert checkpoint.tied_embeddings
    assert checkpoint.sizes is not None
    assert checkpoint.sizes.lm_head == 0


@pytest.mark.parametrize("place", ["top", "text"])
def test_quantization_is_found_at_either_level(tmp_path: Path, place: str) -> None:
    value = config("auto-round-w4-hybrid")
    part = value.pop("quantization_config")
    (value if place == "top" else value["text_config"])["quantization_config"] = part
    assert inspect(str(write_config(tmp_path, value))).quantization.widths == {4: 400}


@pytest.mark.parametrize(
    "keys",
    [
        {"num_experts": 2},
        {"num_local_experts": 8},
        {"n_routed_experts": 64},
        {"moe_num_experts": [64, 64]},
        {"moe_intermediate_size": 512},
        {"num_experts_per_tok": 8},
        {"mlp_layer_types": ["dense"] * 35 + ["sparse"]},
        {"block_configs": [{"block_type": "moe", "n_routed_experts": 64}]},
        {"ffn_config": {"moe_num_experts": 16}},
        {"enable_moe_block": True},
        {"model_type": "qwen3_moe"},
        {"architectures": ["Qwen3MoeForCausalLM"]},
    ],
    ids=lambda keys: next(iter(keys)),
)
def test_any_sign_of_experts_makes_a_mixture(tmp_path: Path, keys: dict[str, object]) -> None:
    assert not inspect(str(FIXTURES / "auto-round-w4")).moe
    assert inspect(str(write_config(tmp_path, config("auto-round-w4") | keys))).moe


@pytest.mark.parametrize(
    "keys", [{"num_experts": 0}, {"num_experts": None}, {"num_local_experts": 1}, {"enable_moe_block": False}]
)
def test_no_experts_or_one_is_dense(tmp_path: Path, keys: dict[str, object]) -> None:
    assert not inspect(str(write_config(tmp_path, config("auto-round-w4") | keys))).moe


@pytest.mark.parametrize(
    ("keys", "layers"),
    [
        ({"sliding_window": 4096, "use_sliding_window": False}, {"full_attention": 36}),
        ({"sliding_window": 4096}, {"sliding_attention": 36}),
        (
            {"sliding_window": 4096, "use_sliding_window": True, "max_window_layers": 30},
            {"full_attention": 30, "sliding_attention": 6},
        ),
        (
            {"sliding_window": 4096, "sliding_window_pattern": 4},
            {"sliding_attention": 27, "full_attention": 9},
        ),
        ({"sliding_window_pattern": "LLLG"}, {"sliding_attention": 27, "full_attention": 9}),
        ({"full_attention_interval": 3}, {"linear_attention": 24, "full_attention": 12}),
        ({"attn_type_list": [0] * 30 + [1] * 6}, {"linear_attention": 30, "full_attention": 6}),
        ({"layer_types": ["full_attention"] * 40}, {"full_attention": 36}),
    ],
)
def test_layer_kinds_come_from_lists_intervals_and_patterns(
    tmp_path: Path, keys: dict[str, object], layers: dict[str, int]
) -> None:
    assert inspect(str(write_config(tmp_path, config("llama") | {"num_hidden_layers": 36} | keys))).layers == layers


def test_embeddings_and_plain_targets_of_compressed_tensors_are_told() -> None:
    quantization = inspect(str(FIXTURES / "compressed-tensors-int6-mixed")).quantization
    assert (quantization.embed_tokens_bits, quantization.lm_head_bits) == (8, 8)
    assert quantization.plain_targets == ("lm_head", "model.language_model.embed_tokens")
    assert quantization.packing_format == "pack-quantized"


@pytest.mark.parametrize(
    ("name", "published_gib"),
    [("llama", 14.96), ("mixtral", 87.0), ("gpt-oss-mxfp4", 12.8), ("gemma3", 8.01), ("qwen3-next", 148.4)],
)
def test_estimates_agree_with_the_sizes_of_published_checkpoints(name: str, published_gib: float) -> None:
    sizes = inspect(str(FIXTURES / name)).sizes
    assert sizes is not None
    assert sizes.estimated
    assert sizes.total / GIB == pytest.approx(published_gib, rel=0.01)


@pytest.mark.parametrize(
    ("name", "mtp", "loaded_gib", "below"),
    [
        ("auto-round-w4", True, 5.71, 0.01),
        ("compressed-tensors-w4", True, 5.68, 0.01),
        ("auto-round-w4-hybrid", True, 17.74, 0.025),
        ("compressed-tensors-int6-flat", True, 23.24, 0.02),
        ("bf16-hybrid", False, 50.22, 0.01),
    ],
)
def test_estimates_agree_with_what_vllm_loaded_on_one_gpu(
    name: str, mtp: bool, loaded_gib: float, below: float
) -> None:
    """vLLM 0.26 on one H200, language model only: never below the weights, as tables and buffers come on top."""
    sizes = inspect(str(FIXTURES / name)).sizes
    assert sizes is not None
    weights = (sizes.total - sizes.vision - (0 if mtp else sizes.mtp)) / GIB
    assert loaded_gib * (1 - below) < weights < loaded_gib


@pytest.mark.parametrize("name", ["jamba", "nemotron-h", "unknown-method"])
def test_a_size_that_cannot_be_told_is_unknown(name: str) -> None:
    assert inspect(str(FIXTURES / name)).sizes is None


def test_the_parts_add_up_to_the_total() -> None:
    for folder in sorted(FIXTURES.iterdir()):
        sizes = inspect(str(folder)).sizes
        if sizes is not None:
            parts = sizes.body + sizes.embed_tokens + sizes.lm_head + sizes.mtp + sizes.vision
            assert parts == sizes.total, folder.name
