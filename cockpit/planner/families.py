"""Checkpoint → KvModel, for the families whose KV cache this planner knows; a reason for all others."""

from __future__ import annotations

from cockpit.checkpoint.layers import FULL, LINEAR, SLIDING
from cockpit.checkpoint.loads import LOADED_BYTES
from cockpit.checkpoint.types import Checkpoint, LinearAttention
from cockpit.planner.types import AttentionLayers, KvModel, KvUnknown

_PLAIN = """
apertus arcee baichuan bailing_moe cohere cohere2 dots1 ernie4_5 ernie4_5_moe exaone exaone4 gemma gemma2 gemma3
glm glm4 glm4_moe glm4v glm4v_moe gpt2 gpt_neox gpt_oss granite granitemoe hunyuan_v1_dense internlm2 internlm3
internvl internvl_chat llama llava llava_next mimo minimax_m2 mistral mistral3 mixtral nemotron olmo olmo2 olmo3
olmoe opt persimmon phi phi3 phimoe pixtral qwen2 qwen2_5_vl qwen2_moe qwen2_vl qwen3 qwen3_moe qwen3_vl
qwen3_vl_moe seed_oss smollm3 stablelm starcoder2
"""
"""Model types whose attention layers all keep keys and values of kv_heads x head_dim, each layer its own."""
_GATED_DELTA = frozenset({"qwen3_next", "qwen3_5", "qwen3_5_moe"})
_SHARING = frozenset({"gemma3n", "gemma4"})
"""Their last layers may use the keys and values of earlier ones, and Gemma 4 has heads of two sizes."""
_WINDOWS_AS_ONE = frozenset({"mimo", "qwen2", "qwen2_vl", "qwen2_5_vl", "qwen3"})
"""``Sliding window for some but all layers is not supported`` (Qwen2Model of models/qwen2.py)."""
_COVERED = frozenset(_PLAIN.split()) | _GATED_DELTA | _SHARING
_DIFFERENT = {
    "deepseek": "latent attention",
    "kimi": "latent attention",
    "glm_moe_dsa": "latent attention",
    "longcat": "latent attention",
    "minicpm3": "latent attention",
    "mllama": "cross-attention layers",
    "t5": "cross-attention layers",
    "bart": "cross-attention layers",
    "whisper": "cross-attention layers",
    "llama4": "chunked local attention",
}
"""Beginnings of model types that differ, and in what."""
_OTHERS = {
    "chunked_attention": "chunked local attention",
    "mamba": "Mamba layers",
    "mamba1": "Mamba layers",
    "mamba2": "Mamba layers",
    "conv": "short convolutions",
    "cross_attention": "cross-attention layers",
}


def _unknown(checkpoint: Checkpoint, what: str) -> KvUnknown:
    return KvUnknown(reason=f"{checkpoint.model_type} models have {what}, whose KV cache cockpit does not know")


def _family(checkpoint: Checkpoint) -> str:
    return checkpoint.model_type.removesuffix("_text")


def _gated_delta(checkpoint: Checkpoint) -> LinearAttention | None:
    """State of the GDN layers: Qwen3-Next keeps it in the model's own type, later ones as their config says.

    ``gated_delta_net_state_dtype`` of layers/mamba/mamba_utils.py, and models/config.py for Qwen3.5.
    """
    state = checkpoint.linear_attention
    if state is None or _family(checkpoint) != "qwen3_next":
        return state
    return LinearAttention(
        key_heads=state.key_heads,
        value_heads=state.value_heads,
        key_head_dim=state.key_head_dim,
        value_head_dim=state.value_head_dim,
        conv_kernel=state.conv_kernel,
        state_bytes=LOADED_BYTES,
    )


def _with_kv(checkpoint: Checkpoint, kind: str) -> int:
    """Layers of that kind that keep keys and values of their own."""
    return checkpoint.layers.get(kind, 0) - checkpoint.layers_without_kv.get(kind, 0)


def _refusal(checkpoint: Checkpoint) -> KvUnknown | None:
    family, kinds = _family(checkpoint), set(checkpoint.layers)
    for kind in sorted(kinds - {FULL, SLIDING, LINEAR, "ffn"}):
        return _unknown(checkpoint, _OTHERS.get(kind, f"layers of the kind {kind}"))
    different = next((what for begin, what in _DIFFERENT.items() if family.startswith(begin)), None)
    if different is not None:
        return _unknown(checkpoint, different)
    if not family:
        return KvUnknown(reason="config.json has no model_type, which says how vLLM lays out the KV cache")
    if family not in _COVERED:
        return KvUnknown(reason=f"cockpit does not know how vLLM lays out the KV cache of {family} models")
    if LINEAR in kinds and (family not in _GATED_DELTA or checkpoint.linear_attention is None):
        return _unknown(checkpoint, "linear attention of another kind than gated delta")
    two_sizes = checkpoint.global_head_dim not in (None, checkpoint.head_dim)
    if family not in _SHARING and (checkpoint.layers_without_kv or two_sizes):
        return _unknown(checkpoint, "layers that share keys and values" if not two_sizes else "heads of two sizes")
    if not any(_with_kv(checkpoint, kind) for kind in (FULL, SLIDING)):
        return _unknown(checkpoint, "no attention layers")
    return _window_refusal(checkpoint, family) if SLIDING in kinds else None


def _window_refusal(checkpoint: Checkpoint, family: str) -> KvUnknown | None:
    if checkpoint.sliding_window is None:
        return KvUnknown(reason="the config has sliding-window layers and does not say how wide their window is")
    if family in _WINDOWS_AS_ONE and FULL in checkpoint.layers:
        return KvUnknown(reason=f"vLLM does not serve {family} models with windows in some layers only")
    if family in ("qwen2_moe", "qwen3_moe"):
        return _unknown(checkpoint, "windows beside experts")
    return None


def kv_model(checkpoint: Checkpoint) -> KvModel | KvUnknown:
    """What the KV cache of ``checkpoint`` depends on, or why there is no forecast for it.

    Only families that are known are answered for: latent attention, layers that share keys and values, and heads of
    several sizes cannot be told from a plain model by the figures that every config has.
    """
    refusal = _refusal(checkpoint)
    if refusal is not None:
        return refusal
    heads, size = checkpoint.kv_heads, checkpoint.head_dim
    shapes = {
        FULL: (checkpoint.global_kv_heads or heads, checkpoint.global_head_dim or size, None),
        SLIDING: (heads, size, checkpoint.sliding_window),
    }
    return KvModel(
        attention=tuple(
            AttentionLayers(
                layers=_with_kv(checkpoint, kind),
                kv_heads=shapes[kind][0],
                head_dim=shapes[kind][1],
                window=shapes[kind][2],
            )
            for kind in checkpoint.layers
            if kind in shapes and _with_kv(checkpoint, kind)
        ),
        kv_cache_dtype=checkpoint.quantization.kv_cache_dtype,
        whole_items=_family(checkpoint) == "gemma4",
        inclusive_window=_family(checkpoint) == "cohere2",
        gated_delta=_gated_delta(checkpoint),
        gated_delta_layers=checkpoint.layers.get(LINEAR, 0),
        mtp_layers=checkpoint.mtp_layers,
        element_bytes=LOADED_BYTES,
    )
