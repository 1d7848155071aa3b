"""A checkpoint as its own files describe it. Frozen; None means that the files do not say."""

from __future__ import annotations

from typing import Literal

import msgspec

Method = Literal[
    "auto-round", "gptq", "awq", "compressed-tensors", "fp8", "nvfp4", "mxfp4", "bitsandbytes", "none", "other"
]

Part = Literal["body", "embed_tokens", "lm_head", "mtp", "vision"]
Split = Literal["ranks", "kv_heads", "copied"]
"""How weights lie on tensor-parallel ranks: a share on each, a share for each KV head there is, all on every one."""


class Frozen(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the checkpoint's parts."""


class WeightScheme(Frozen, frozen=True, kw_only=True):
    """How one set of modules stores its weights."""

    bits: int
    kind: Literal["int", "float"]
    """``float`` for FP8, FP4 and MX formats."""
    symmetric: bool | None = None
    group_size: int | None = None
    """-1 is one group a channel; None is not grouped or not said."""
    activation_bits: int | None = None
    """None leaves activations in 16 bits."""


class Quantization(Frozen, frozen=True, kw_only=True):
    """quantization_config, resolved to modules."""

    method: Method
    """``none`` is an unquantized checkpoint, ``other`` one whose quant_method is not known here."""
    declared_method: str | None = None
    """The config's own word, for messages."""
    schemes: tuple[tuple[WeightScheme, int], ...] = ()
    """Each scheme in use with its number of linear modules, most modules first; the embeddings are not in it."""
    unquantized_modules: int = 0
    """Linear modules left in 16 bits, lm_head not counted."""
    embed_tokens_bits: int | None = None
    """None: not quantized."""
    lm_head: WeightScheme | None = None
    """None: not quantized."""
    plain_targets: tuple[str, ...] = ()
    """compressed-tensors targets that name one module (no ``re:``, no class), e.g. ``lm_head``."""
    packing_format: str | None = None
    kv_cache_dtype: str | None = None
    """The KV cache that the checkpoint asks for and vLLM takes where none is named; None: the model's own type."""
    mismatched_modules: int = 0
    """Linear modules that the files store otherwise than the config says; what the files hold is what counts here."""

    @property
    def lm_head_bits(self) -> int | None:
        """None: not quantized."""
        return None if self.lm_head is None else self.lm_head.bits

    @property
    def widths(self) -> dict[int, int]:
        """Bits → number of quantized linear modules."""
        result: dict[int, int] = {}
        for scheme, count in self.schemes:
            result[scheme.bits] = result.get(scheme.bits, 0) + count
        return result


class Sizes(Frozen, frozen=True, kw_only=True):
    """Bytes of the weights by part; the parts add up to the total."""

    total: int
    body: int
    embed_tokens: int
    lm_head: int
    """0 when it is tied to embed_tokens."""
    mtp: int
    vision: int
    mtp_error_bytes: int = 0
    """How far off ``mtp`` may be where a size that a slug declares was divided."""
    estimated: bool
    """True when they come from config.json, False when from safetensors headers."""


class Load(Frozen, frozen=True, kw_only=True):
    """Bytes of the whole model's weights, as vLLM holds them, that belong to one part and lie in one way."""

    part: Part
    split: Split
    bytes: int


class LinearAttention(Frozen, frozen=True, kw_only=True):
    """Gated-delta (GDN) layers of a hybrid model."""

    key_heads: int
    value_heads: int
    key_head_dim: int
    value_head_dim: int
    conv_kernel: int
    state_bytes: int = 4
    """Bytes of one state element (mamba_ssm_dtype)."""


class Tensors(Frozen, frozen=True, kw_only=True):
    """``count`` equal tensors of the whole model, fused as vLLM fuses them (queries with keys and values, …)."""

    part: Part
    ranks_bytes: int
    kv_heads_bytes: int
    scales: bool
    """Scales or zero points, which stand beside quantized weights."""
    count: int


class RotaryTable(Frozen, frozen=True, kw_only=True):
    """Cosines and sines that layers with equal rotary settings share, ``positions`` × ``width`` elements."""

    positions: int
    width: int
    multimodal: bool = False
    """Positions in three dimensions (M-RoPE), for which vLLM makes the table longer."""
    element_bytes: int | None = None
    """None is the model's own number type."""


class OwnCode(Frozen, frozen=True):
    """A class that the checkpoint's own code defines for a part of it."""

    code: str
    """``module.Class``, with the repository before it where that is another: ``owner/name--module.Class``."""
    otherwise: str | None
    """The class that the file names beside it, which a library may have."""


class Beside(Frozen, frozen=True, kw_only=True):
    """What lies in the folder besides weights and config."""

    tokenizer: bool
    chat_template: bool | None
    """None where it cannot be told."""
    gguf: bool
    """Whether there are GGUF files."""
    tokenizer_fault: str | None = None
    """What is wrong with tokenizer.json, as a clause; None where its two ends look sound."""
    tokenizer_of_5: str | None = None
    """What in tokenizer_config.json transformers reads from version 5 on only, as a clause; None when nothing."""
    config_code: tuple[str, str] | None = None
    """The model type, and the class of the checkpoint's own code that config.json names for it; None for none."""
    tokenizer_code: OwnCode | None = None
    processor_code: OwnCode | None = None


class RopeScaling(Frozen, frozen=True, kw_only=True):
    """How positions are stretched beyond what the model was trained on."""

    kind: str
    """``yarn``, ``linear``, ``llama3``…"""
    factor: float | None = None
    original: int | None = None
    """Tokens that it was trained on."""


class Checkpoint(Frozen, frozen=True, kw_only=True):
    """What a checkpoint's config.json and safetensors headers say of it; nothing of it comes from a slug."""

    source: str
    """The folder, file or repository that was asked for."""
    folder: str | None
    """Where its files lie; None for a lone config.json."""
    architecture: str
    """First entry of ``architectures``."""
    model_type: str
    moe: bool
    experts: int | None = None
    experts_per_token: int | None = None
    expert_size: int | None = None
    """Width of one routed expert."""
    layers: dict[str, int]
    """Layer kind (full_attention, sliding_attention, linear_attention, …) → number of decoder layers."""
    hidden_size: int
    intermediate_size: int | None = None
    attention_heads: int
    kv_heads: int
    head_dim: int
    global_head_dim: int | None = None
    """Head size of the full attention layers where it differs from the windowed ones'."""
    global_kv_heads: int | None = None
    layers_without_kv: dict[str, int] = {}
    """Layer kind → layers at the model's end that use the keys and values of earlier ones."""
    vocab_size: int
    max_model_len: int | None = None
    """max_position_embeddings."""
    rope_scaling: RopeScaling | None = None
    dual_chunk: bool = False
    """Whether config.json asks for dual chunk attention (Qwen2.5-1M)."""
    beside: Beside | None = None
    """None for a lone config.json."""
    sliding_window: int | None = None
    linear_attention: LinearAttention | None = None
    mtp_layers: int = 0
    """Layers of the multi-token-prediction head."""
    vision: bool = False
    tied_embeddings: bool = False
    dtype: str = "bfloat16"
    quantization: Quantization
    sizes: Sizes | None = None
    """None where neither headers nor config are enough."""
    loads: tuple[Load, ...] = ()
    """What vLLM loads of it; empty where ``sizes`` is None."""
    tensors: tuple[Tensors, ...] = ()
    """The large ones among them that the ranks share."""
    rotary_tables: tuple[RotaryTable, ...] | None = ()
    """None where the config asks for a table of a kind that is not known here."""

    @property
    def n_layers(self) -> int:
        """Decoder layers, MTP not counted."""
        return sum(self.layers.values())
