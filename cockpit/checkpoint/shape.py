"""The dimensions of a model, taken from config.json: all that its modules and their sizes follow from."""

from __future__ import annotations

from cockpit.checkpoint.experts import Experts
from cockpit.checkpoint.types import Frozen, LinearAttention, RopeScaling, RotaryTable


class Latent(Frozen, frozen=True, kw_only=True):
    """Multi-head latent attention."""

    q_rank: int | None
    kv_rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int


class VisionShape(Frozen, frozen=True, kw_only=True):
    """A vision tower of plain transformer blocks."""

    layers: int
    hidden: int
    intermediate: int
    patch: int
    """Elements of one image patch over all channels and frames."""
    positions: int = 0
    fused: bool = False
    """Qwen's naming, with one qkv matrix a block and a merger of neighbouring patches."""
    merge: int = 1
    outputs: int | None = None
    deepstack: int = 0


class Shape(Frozen, frozen=True, kw_only=True):
    """A model's dimensions; the text part, with the vision tower beside it."""

    architecture: str
    model_type: str
    prefix: str
    """Of the decoder's module names, with its dot at the end."""
    hidden: int
    intermediate: int | None
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    kinds: tuple[str, ...]
    """The kind of each decoder layer."""
    max_positions: int | None
    window: int | None
    dtype: str
    tied: bool
    qkv_bias: bool = False
    output_bias: bool = False
    gated_attention: bool = False
    """The query projection is twice as wide and gates the output."""
    fused: bool = False
    """qkv and gate/up are one matrix each in the files (Phi-3)."""
    fused_experts: bool = False
    """All experts of a layer are one tensor in the files (gpt-oss)."""
    dense_beside_experts: bool = False
    """Sparse layers hold a dense MLP as well (Gemma 4)."""
    global_head_dim: int | None = None
    """Head size of the full attention layers where it differs (Gemma 4)."""
    global_kv_heads: int | None = None
    keys_are_values: bool = False
    """The full attention layers have no values of their own (Gemma 4)."""
    kv_shared_layers: int = 0
    """So many of the last layers use the keys and values of earlier ones."""
    per_layer_inputs: int = 0
    """Width of the embeddings that each layer adds (Gemma 3n)."""
    latent: Latent | None = None
    linear_attention: LinearAttention | None = None
    moe: bool = False
    experts: Experts | None = None
    mtp_layers: int = 0
    next_layers: bool = False
    """The MTP layers are numbered on after the decoder's (DeepSeek)."""
    has_vision: bool = False
    vision: VisionShape | None = None
    """None where there is no tower, or one of an unknown kind."""
    rotary_tables: tuple[RotaryTable, ...] | None = ()
    rope_scaling: RopeScaling | None = None
    dual_chunk: bool = False

    @property
    def bytes_per_element(self) -> int:
        """Of an unquantized weight in the files."""
        return 4 if self.dtype == "float32" else 2
