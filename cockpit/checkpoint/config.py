"""config.json → Shape: flat or nested, with the defaults that the model's own class would supply."""

from __future__ import annotations

from typing import Any, TypedDict

from cockpit.checkpoint.experts import Experts, read_experts
from cockpit.checkpoint.keys import Keys
from cockpit.checkpoint.layers import FULL, LINEAR, MAX_LAYERS, SLIDING, layer_kinds, sliding_window
from cockpit.checkpoint.rotary import rotary_tables
from cockpit.checkpoint.scaling import read_scaling
from cockpit.checkpoint.shape import Latent, Shape
from cockpit.checkpoint.types import LinearAttention
from cockpit.checkpoint.vision import has_vision, read_vision
from cockpit.errors import CockpitError

MAX_HIDDEN = 1 << 20
MAX_HEADS = 1 << 16
MAX_VOCAB = 1 << 24
MAX_POSITIONS = 1 << 31
_TEXT_PARTS = ("text_config", "llm_config", "language_config")
_LAYERS = ("num_hidden_layers", "n_layers", "n_layer", "num_layers")
_HIDDEN = ("hidden_size", "n_embd", "d_model")
_HEADS = ("num_attention_heads", "n_head", "n_heads")
_KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num", "num_attention_groups")
_MTP = ("mtp_num_hidden_layers", "num_nextn_predict_layers", "mtp_num_layers", "num_mtp_layers")
_POSITIONS = ("max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length", "seq_length")
_GEMMA3 = {
    "vocab_size": 262208,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "max_position_embeddings": 131072,
}
_GEMMA4 = {
    "vocab_size": 262144,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "global_head_dim": 512,
    "sliding_window": 512,
    "max_position_embeddings": 131072,
    "hidden_size_per_layer_input": 256,
}
_GEMMA3N = {
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "sliding_window": 512,
    "num_kv_shared_layers": 15,
    "hidden_size_per_layer_input": 256,
}
_CLASS_DEFAULTS: dict[str, dict[str, Any]] = {
    "gemma4": _GEMMA4,
    "gemma3n": _GEMMA3N,
    "gemma3": _GEMMA3,
    "qwen3_5": {"head_dim": 256, "linear_num_value_heads": 32},
    "qwen3_next": {"head_dim": 256, "linear_num_value_heads": 32},
    "gpt_oss": {"attention_bias": True, "head_dim": 64},
    "qwen2": {"attention_bias": True},
}
"""Keys that published configs of a family leave out, with the value of its configuration class in transformers."""
_QWEN_WINDOWS = {"use_sliding_window": False, "max_window_layers": 28}
_LEFT_OUT: dict[str, dict[str, Any]] = {
    "cohere2": {"sliding_window": 4096},
    "exaone4": {"sliding_window": 4096},
    "gemma2": {"sliding_window": 4096},
    "gpt_oss": {"sliding_window": 128},
    "mimo": _QWEN_WINDOWS,
    "mistral": {"sliding_window": 4096},
    "olmo3": {"sliding_window": 4096},
    **dict.fromkeys(("qwen2", "qwen2_moe", "qwen2_vl", "qwen2_5_vl", "qwen3", "qwen3_moe"), _QWEN_WINDOWS),
    "smollm3": {"use_sliding_window": False},
}
"""Likewise by whole model type, for keys that are not there; null there means that there is no window."""
_TIED_FAMILIES = ("gemma", "cohere", "command")
"""Families whose class ties lm_head to the embeddings when the config does not say."""
_ATTENTION_FREE = ("mamba", "falcon_mamba", "rwkv")
_GATED_FAMILIES = ("qwen3_next", "qwen3_5")
_DTYPES = {"half": "float16", "float": "float32", "fp16": "float16", "bf16": "bfloat16", "auto": "bfloat16"}


def text_keys(keys: Keys) -> Keys:
    """The text model's part of a config: the config itself when it is flat."""
    for name in _TEXT_PARTS:
        inner = keys.mapping(name)
        if inner is not None:
            return inner
    thinker = keys.mapping("thinker_config")
    return text_keys(thinker) if thinker is not None else keys


def _architecture(keys: Keys) -> str:
    names = keys.items("architectures")
    if not names or not isinstance(names[0], str) or not names[0].isidentifier() or not names[0].isascii():
        raise keys.fail("architectures", "a list with the name of a model class")
    name: str = names[0]
    if len(name) > 128:
        raise keys.fail("architectures", "a list with the name of a model class")
    return name


def _with_defaults(keys: Keys, model_type: str) -> Keys:
    supplied = next((d for family, d in _CLASS_DEFAULTS.items() if model_type.startswith(family)), {})
    said = {key: value for key, value in keys.data.items() if value is not None}
    left_out = _LEFT_OUT.get(model_type.removesuffix("_text"), {})
    missing = {key: value for key, value in left_out.items() if key not in keys.data}
    return Keys({**supplied, **missing, **said}, keys.origin, keys.path)


def _dtype(keys: Keys, text: Keys) -> str:
    """The type of unquantized weights; bfloat16 where the config does not say."""
    for source in (keys, text):
        for key in ("dtype", "torch_dtype"):
            word = source.word(key)
            if word:
                word = word.removeprefix("torch.")
                return _DTYPES.get(word, word)
    return "bfloat16"


def _tied(keys: Keys, text: Keys, model_type: str) -> bool:
    for source in (text, keys):
        tied = source.flag("tie_word_embeddings")
        if tied is not None:
            return tied
    return model_type.startswith(_TIED_FAMILIES)


def _linear_attention(text: Keys, kinds: tuple[str, ...]) -> LinearAttention | None:
    if LINEAR not in kinds or not text.has("linear_num_value_heads"):
        return None
    state = text.word("mamba_ssm_dtype") or "float32"

    def size(key: str, default: int, high: int) -> int:
        return text.integer(key, 1, high) or default

    return LinearAttention(
        key_heads=size("linear_num_key_heads", 16, MAX_HEADS),
        value_heads=size("linear_num_value_heads", 32, MAX_HEADS),
        key_head_dim=size("linear_key_head_dim", 128, MAX_HEADS),
        value_head_dim=size("linear_value_head_dim", 128, MAX_HEADS),
        conv_kernel=size("linear_conv_kernel_dim", 4, MAX_HEADS),
        state_bytes=2 if state.endswith("16") else 4,
    )


def _latent(text: Keys) -> Latent | None:
    rank = text.integer("kv_lora_rank", 1, MAX_HIDDEN)
    if rank is None:
        return None
    return Latent(
        q_rank=text.integer("q_lora_rank", 1, MAX_HIDDEN),
        kv_rank=rank,
        nope_dim=text.required(("qk_nope_head_dim",), 0, MAX_HEADS),
        rope_dim=text.required(("qk_rope_head_dim",), 0, MAX_HEADS),
        value_dim=text.required(("v_head_dim",), 1, MAX_HEADS),
    )


def _heads(text: Keys, model_type: str) -> int:
    if not text.has(*_HEADS) and model_type.startswith(_ATTENTION_FREE):
        raise CockpitError(
            f"{text.origin}: {model_type} models have no attention, and cockpit reads models that have some",
            fix="Serve it with vLLM itself.",
        )
    return text.required(_HEADS, 1, MAX_HEADS)


def _head_dim(text: Keys, hidden: int, heads: int) -> int:
    head_dim = text.integer("head_dim", 1, MAX_HEADS)
    if head_dim is None and hidden < heads:
        raise text.fail(text.first(*_HEADS), f"at most hidden_size ({hidden:,})")
    return head_dim or hidden // heads


def _mtp_layers(keys: Keys, text: Keys) -> tuple[int, bool]:
    """Layers of the MTP head, and whether they are numbered on after the decoder's."""
    for source in (text, keys):
        for key in _MTP:
            count = source.integer(key, 0, MAX_LAYERS)
            if count is not None:
                return count, key == "num_nextn_predict_layers" and not text_is_qwen(text)
    return 0, False


def text_is_qwen(text: Keys) -> bool:
    """Whether the MTP head of this text model is named ``mtp.…`` in the files, as Qwen names it."""
    return (text.word("model_type") or "").startswith("qwen")


class _Layers(TypedDict):
    """The fields of a Shape that say what its layers are."""

    kinds: tuple[str, ...]
    linear_attention: LinearAttention | None
    per_layer_inputs: int
    moe: bool
    experts: Experts | None
    mtp_layers: int
    next_layers: bool


def _layers(keys: Keys, text: Keys, count: int, architecture: str, model_type: str) -> _Layers:
    kinds = layer_kinds(text, count, model_type)
    experts = read_experts(text, count, architecture, model_type)
    mtp_layers, next_layers = _mtp_layers(keys, text)
    return {
        "kinds": kinds,
        "linear_attention": _linear_attention(text, kinds),
        "per_layer_inputs": text.integer("hidden_size_per_layer_input", 0, MAX_HIDDEN) or 0,
        "moe": experts is not None,
        "experts": experts,
        "mtp_layers": mtp_layers,
        "next_layers": next_layers,
    }


class _Attention(TypedDict):
    """The fields of a Shape that say what its attention layers are."""

    kv_heads: int
    head_dim: int
    window: int | None
    qkv_bias: bool
    output_bias: bool
    gated_attention: bool
    global_head_dim: int | None
    global_kv_heads: int | None
    keys_are_values: bool
    kv_shared_layers: int
    latent: Latent | None


def _attention(text: Keys, model_type: str, count: int, hidden: int, heads: int) -> _Attention:
    bias = text.flag("attention_bias") or False
    keys_are_values = text.flag("attention_k_eq_v") or False
    return {
        "head_dim": _head_dim(text, hidden, heads),
        "latent": _latent(text),
        "global_head_dim": text.integer("global_head_dim", 1, MAX_HEADS),
        "kv_heads": text.integer(text.first(*_KV_HEADS), 1, MAX_HEADS) or heads,
        "window": sliding_window(text),
        "qkv_bias": bias,
        "output_bias": bias and not model_type.startswith("qwen2"),
        "gated_attention": text.flag("attn_output_gate") or model_type.startswith(_GATED_FAMILIES),
        "global_kv_heads": text.integer("num_global_key_value_heads", 1, MAX_HEADS) if keys_are_values else None,
        "keys_are_values": keys_are_values,
        "kv_shared_layers": text.integer("num_kv_shared_layers", 0, count) or 0,
    }


def _turned(attention: _Attention) -> dict[str, int]:
    """Elements of a head that positions turn, by the kind of layer."""
    latent, head_dim = attention["latent"], attention["head_dim"]
    return {FULL: latent.rope_dim if latent else attention["global_head_dim"] or head_dim, SLIDING: head_dim}


def _intermediate(text: Keys) -> int | None:
    """Some families list a width for each layer; then the sizes cannot be told from here."""
    key = text.first("intermediate_size", "n_inner", "ffn_hidden_size")
    return None if isinstance(text.data.get(key), list) else text.integer(key, 0, 1 << 24)


def read_shape(keys: Keys) -> Shape:
    """The dimensions that ``config.json`` states.

    Raises CockpitError naming the key that is missing, of the wrong type or beyond what any model has.
    """
    architecture = _architecture(keys)
    text = text_keys(keys)
    model_type = text.word("model_type") or keys.word("model_type") or ""
    text = _with_defaults(text, model_type)
    count = text.required(_LAYERS, 1, MAX_LAYERS)
    hidden = text.required(_HIDDEN, 1, MAX_HIDDEN)
    heads = _heads(text, model_type)
    layers = _layers(keys, text, count, architecture, model_type)
    attention = _attention(text, model_type, count, hidden, heads)
    positions = text.integer(text.first(*_POSITIONS), 1, MAX_POSITIONS)
    return Shape(
        architecture=architecture,
        model_type=keys.word("model_type") or model_type,
        prefix="model." if text.path == "" else "model.language_model.",
        hidden=hidden,
        intermediate=_intermediate(text),
        heads=heads,
        vocab=text.required(("vocab_size",), 1, MAX_VOCAB),
        max_positions=positions,
        rope_scaling=read_scaling(text.data),
        dual_chunk=bool(text.data.get("dual_chunk_attention_config")),
        dtype=_dtype(keys, text),
        tied=_tied(keys, text, model_type),
        fused=model_type in ("phi3", "phi4"),
        fused_experts=model_type == "gpt_oss",
        dense_beside_experts=model_type.startswith("gemma4"),
        has_vision=has_vision(keys, architecture),
        vision=read_vision(keys),
        rotary_tables=rotary_tables(text, model_type, positions, _turned(attention)),
        **layers,
        **attention,
    )
