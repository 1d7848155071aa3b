"""The modules of a model with names and shapes, as its config implies them. Files know better.

Names are those of Hugging Face checkpoints. The experts of a layer are one entry for each projection that stands for
all of them (``count``), under the name of expert 0: an exception for one single expert is not seen without the files.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from cockpit.checkpoint.layers import FULL, LINEAR, SLIDING
from cockpit.checkpoint.shape import Shape, VisionShape
from cockpit.checkpoint.types import Frozen, Part

Kind = Literal["linear", "router", "experts", "embedding", "lm_head"]
_ATTENTION = (FULL, SLIDING, "chunked_attention")
_PREFIXES = ("model.language_model.", "language_model.model.", "model.")


class Place(Frozen, frozen=True, kw_only=True):
    """What a quantization config is asked about: a module by name."""

    name: str
    kind: Kind
    """``router`` is left in 16 bits unless a config names it; ``experts`` is one tensor that holds all experts."""
    part: Part


class Module(Place, frozen=True, kw_only=True):
    """One weight matrix (``outputs`` × ``inputs``), or ``count`` alike."""

    inputs: int
    outputs: int
    count: int = 1
    """Modules that this entry stands for."""
    matrices: int = 1
    """Matrices inside each of them: the experts of a fused tensor."""
    bias: bool = False

    @property
    def elements(self) -> int:
        """Weights of all matrices, biases not."""
        return self.inputs * self.outputs * self.count * self.matrices


def aliases(name: str) -> tuple[str, ...]:
    """``name`` and the names that other versions of the same library give that module.

    Text models inside multimodal ones have changed their prefix, and quantizers have kept whichever they saw.
    """
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            tail = name[len(prefix) :]
            if tail.startswith(("visual.", "vision_tower.", "vision_model.")):
                return (name, tail)
            return (name, *(other + tail for other in _PREFIXES if other != prefix))
    return (name,)


def _linear(name: str, part: Part, inputs: int, outputs: int, bias: bool = False) -> Module:
    return Module(name=name, kind="linear", part=part, inputs=inputs, outputs=outputs, bias=bias)


def _latent_attention(shape: Shape, at: str, part: Part) -> Iterator[Module]:
    """Multi-head latent attention (DeepSeek): low-rank projections with a shared rotary key."""
    mla, hidden = shape.latent, shape.hidden
    assert mla is not None
    queries = shape.heads * (mla.nope_dim + mla.rope_dim)
    if mla.q_rank:
        yield _linear(f"{at}.q_a_proj", part, hidden, mla.q_rank)
        yield _linear(f"{at}.q_b_proj", part, mla.q_rank, queries)
    else:
        yield _linear(f"{at}.q_proj", part, hidden, queries)
    yield _linear(f"{at}.kv_a_proj_with_mqa", part, hidden, mla.kv_rank + mla.rope_dim)
    yield _linear(f"{at}.kv_b_proj", part, mla.kv_rank, shape.heads * (mla.nope_dim + mla.value_dim))
    yield _linear(f"{at}.o_proj", part, shape.heads * mla.value_dim, hidden)


def _attention(shape: Shape, at: str, part: Part, kind: str) -> Iterator[Module]:
    if shape.latent:
        yield from _latent_attention(shape, at, part)
        return
    wide = kind == FULL and shape.global_head_dim is not None
    dim = shape.global_head_dim if wide and shape.global_head_dim else shape.head_dim
    kv_heads = shape.global_kv_heads if wide and shape.global_kv_heads else shape.kv_heads
    queries, keys, hidden = shape.heads * dim, kv_heads * dim, shape.hidden
    gate = 2 if shape.gated_attention else 1
    if shape.fused:
        yield _linear(f"{at}.qkv_proj", part, hidden, queries + 2 * keys)
    else:
        yield _linear(f"{at}.q_proj", part, hidden, queries * gate, shape.qkv_bias)
        yield _linear(f"{at}.k_proj", part, hidden, keys, shape.qkv_bias)
        if not (wide and shape.keys_are_values):
            yield _linear(f"{at}.v_proj", part, hidden, keys, shape.qkv_bias)
    yield _linear(f"{at}.o_proj", part, queries, hidden, shape.output_bias)


def _gated_delta(shape: Shape, at: str, part: Part) -> Iterator[Module]:
    """A gated-delta layer: Qwen3-Next stores two fused inputs, Qwen3.5 and later four."""
    linear = shape.linear_attention
    if linear is None:
        return
    keys = linear.key_heads * linear.key_head_dim
    values = linear.value_heads * linear.value_head_dim
    heads, hidden = linear.value_heads, shape.hidden
    if shape.model_type.startswith("qwen3_next"):
        yield _linear(f"{at}.in_proj_qkvz", part, hidden, 2 * keys + 2 * values)
        yield _linear(f"{at}.in_proj_ba", part, hidden, 2 * heads)
    else:
        yield _linear(f"{at}.in_proj_qkv", part, hidden, 2 * keys + values)
        yield _linear(f"{at}.in_proj_z", part, hidden, values)
        yield _linear(f"{at}.in_proj_b", part, hidden, heads)
        yield _linear(f"{at}.in_proj_a", part, hidden, heads)
    yield _linear(f"{at}.out_proj", part, values, hidden)


def _mlp(shape: Shape, at: str, part: Part, width: int) -> Iterator[Module]:
    if shape.fused:
        yield _linear(f"{at}.gate_up_proj", part, shape.hidden, 2 * width)
    else:
        yield _linear(f"{at}.gate_proj", part, shape.hidden, width)
        yield _linear(f"{at}.up_proj", part, shape.hidden, width)
    yield _linear(f"{at}.down_proj", part, width, shape.hidden)


def _sparse(shape: Shape, layer: str, part: Part) -> Iterator[Module]:
    """Router, experts and shared experts of one layer. Unknown counts leave the experts out."""
    experts, hidden = shape.experts, shape.hidden
    assert experts is not None
    count, width = experts.count, experts.intermediate
    mixtral = shape.model_type == "mixtral"
    at = f"{layer}.block_sparse_moe" if mixtral else f"{layer}.mlp"
    if count and width:
        router = f"{at}.router" if shape.fused_experts else f"{at}.gate"
        yield Module(name=router, kind="router", part=part, inputs=hidden, outputs=count, bias=shape.fused_experts)
        if shape.fused_experts:
            for name, inputs, outputs in (("gate_up_proj", hidden, 2 * width), ("down_proj", width, hidden)):
                yield Module(
                    name=f"{at}.experts.{name}",
                    kind="experts",
                    part=part,
                    inputs=inputs,
                    outputs=outputs,
                    matrices=count,
                    bias=True,
                )
        else:
            names = ("w1", "w3", "w2") if mixtral else ("gate_proj", "up_proj", "down_proj")
            sizes = ((hidden, width), (hidden, width), (width, hidden))
            for name, (inputs, outputs) in zip(names, sizes, strict=True):
                yield Module(
                    name=f"{at}.experts.0.{name}",
                    kind="linear",
                    part=part,
                    inputs=inputs,
                    outputs=outputs,
                    count=count,
                )
    if experts.shared_intermediate:
        name = "shared_expert" if experts.shared_gate else "shared_experts"
        yield from _mlp(shape, f"{at}.{name}", part, experts.shared_intermediate)
    if experts.shared_gate:
        yield Module(name=f"{at}.shared_expert_gate", kind="router", part=part, inputs=hidden, outputs=1)


def _layer(shape: Shape, at: str, part: Part, kind: str, sparse: bool) -> Iterator[Module]:
    if kind in _ATTENTION:
        yield from _attention(shape, f"{at}.self_attn", part, kind)
    elif kind == LINEAR:
        yield from _gated_delta(shape, f"{at}.linear_attn", part)
    if sparse:
        yield from _sparse(shape, at, part)
        if not shape.dense_beside_experts:
            return
    if shape.intermediate:
        yield from _mlp(shape, f"{at}.mlp", part, shape.intermediate)


def _mtp(shape: Shape) -> Iterator[Module]:
    """The multi-token-prediction head: full attention layers behind a projection of hidden state and embedding."""
    sparse = shape.experts is not None
    if shape.next_layers:
        for index in range(len(shape.kinds), len(shape.kinds) + shape.mtp_layers):
            at = f"{shape.prefix}layers.{index}"
            yield _linear(f"{at}.eh_proj", "mtp", 2 * shape.hidden, shape.hidden)
            yield from _layer(shape, at, "mtp", FULL, sparse)
        return
    yield _linear("mtp.fc", "mtp", 2 * shape.hidden, shape.hidden)
    for index in range(shape.mtp_layers):
        yield from _layer(shape, f"mtp.layers.{index}", "mtp", FULL, sparse)


def _vision(vision: VisionShape, text_hidden: int) -> Iterator[Module]:
    hidden, width = vision.hidden, vision.intermediate
    for index in range(vision.layers):
        if vision.fused:
            at = f"model.visual.blocks.{index}"
            yield _linear(f"{at}.attn.qkv", "vision", hidden, 3 * hidden, bias=True)
            yield _linear(f"{at}.attn.proj", "vision", hidden, hidden, bias=True)
            yield _linear(f"{at}.mlp.linear_fc1", "vision", hidden, width, bias=True)
            yield _linear(f"{at}.mlp.linear_fc2", "vision", width, hidden, bias=True)
            continue
        at = f"model.vision_tower.vision_model.encoder.layers.{index}"
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            yield _linear(f"{at}.self_attn.{name}", "vision", hidden, hidden, bias=True)
        yield _linear(f"{at}.mlp.fc1", "vision", hidden, width, bias=True)
        yield _linear(f"{at}.mlp.fc2", "vision", width, hidden, bias=True)
    merged = hidden * vision.merge**2
    if vision.fused:
        yield _linear("model.visual.merger.linear_fc1", "vision", merged, merged, bias=True)
        yield _linear("model.visual.merger.linear_fc2", "vision", merged, vision.outputs or text_hidden, bias=True)
        for index in range(vision.deepstack):
            at = f"model.visual.deepstack_merger_list.{index}"
            yield _linear(f"{at}.linear_fc1", "vision", merged, merged, bias=True)
            yield _linear(f"{at}.linear_fc2", "vision", merged, vision.outputs or text_hidden, bias=True)


def modules_of(shape: Shape) -> Iterator[Module]:
    """Every weight matrix of the model: embeddings, decoder layers, lm_head, MTP head and vision tower.

    Norms, convolutions and gates are not among them (see ``sizes``), nor layers of kinds that are not known here.
    """
    yield Module(
        name=f"{shape.prefix}embed_tokens",
        kind="embedding",
        part="embed_tokens",
        inputs=shape.hidden,
        outputs=shape.vocab,
    )
    sparse = shape.experts.sparse if shape.experts else ()
    for index, kind in enumerate(shape.kinds):
        yield from _layer(shape, f"{shape.prefix}layers.{index}", "body", kind, bool(sparse) and sparse[index])
    if not shape.tied:
        yield Module(name="lm_head", kind="lm_head", part="lm_head", inputs=shape.hidden, outputs=shape.vocab)
    if shape.mtp_layers:
        yield from _mtp(shape)
    if shape.vision:
        yield from _vision(shape.vision, shape.hidden)
