"""Which rank holds what of the weights when vLLM has loaded them with tensor parallelism, by a module's name.

Linear layers, embeddings and experts are shared by all ranks (layers/linear.py, layers/vocab_parallel_embedding.py,
layers/fused_moe); keys and values by as many as there are KV heads (QKVParallelLinear); norms, routers, the low-rank
inputs of latent attention and what belongs to no matrix lie on every rank.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from cockpit.checkpoint.layers import FULL
from cockpit.checkpoint.modules import Module
from cockpit.checkpoint.safetensors import Tensor
from cockpit.checkpoint.shape import Shape
from cockpit.checkpoint.sizes import module_pieces, small_loads
from cockpit.checkpoint.stored import module_of, part_of
from cockpit.checkpoint.types import Load, Method, Part, Split, Tensors, WeightScheme

_COPIED = frozenset(
    {"gate", "router", "shared_expert_gate", "q_a_proj", "kv_a_proj_with_mqa", "eh_proj"}
    | {"patch_embed", "patch_embedding", "pos_embed", "position_embedding"}
)
"""Last words of modules that every rank holds whole (ReplicatedLinear and plain torch modules)."""
_CUT_BY_INPUTS = frozenset({"o_proj", "down_proj", "out_proj", "w2", "proj", "fc2", "linear_fc2"})
"""RowParallelLinear: their biases are whole on every rank."""
_VECTORS_OF_HEADS = frozenset({"A_log", "dt_bias", "sinks", "D"})
_NARROW = frozenset({"in_proj_a", "in_proj_b"})
"""Of GDN layers; for Marlin they are too narrow once they are cut (maybe_disable_tp of qwen_gdn_linear_attn.py)."""
_MARLIN_METHODS = frozenset({"auto-round", "gptq", "awq"})
_FUSED_INTO = {
    **dict.fromkeys(("q_proj", "k_proj", "v_proj"), "qkv_proj"),
    **dict.fromkeys(("gate_proj", "up_proj", "w1", "w3"), "gate_up_proj"),
    **dict.fromkeys(("in_proj_qkv", "in_proj_z"), "in_proj_qkvz"),
    **dict.fromkeys(("in_proj_b", "in_proj_a"), "in_proj_ba"),
}
"""packed_modules_mapping of the model classes."""
_WEIGHTS = frozenset({"weight", "weight_packed", "qweight", "blocks", "bias", ""})
"""What of a module is no scale or zero point."""
_LAYER = re.compile(r"\.layers\.(\d{1,6})\.")
_EXPERT = re.compile(r"\.experts\.\d+\.")
LOADED_BYTES = 2
"""Of an unquantized number: vLLM takes a float32 checkpoint down to 16 bits (_resolve_auto_dtype of config/model)."""
_FLOAT32 = frozenset({"weight", "bias"})
"""Tensors that the model's own number type decides on; scales in float32 stay so."""
LARGE_BYTES = 1 << 20
"""From here on PyTorch's allocator hands out more than was asked for."""


def _split(module: str, piece: str, dimensions: int, shape: Shape, method: Method) -> Split:
    """How a tensor lies on the ranks; ``piece`` is what of the module it is: ``weight``, ``bias``, ``scales``, …"""
    words = module.split(".")
    last = words[-1]
    if not _COPIED.isdisjoint(words[-2:]) or (last in _NARROW and method in _MARLIN_METHODS):
        return "copied"
    if piece == "bias" and last in _CUT_BY_INPUTS:
        return "copied"
    if dimensions < 2 and last not in _VECTORS_OF_HEADS and piece != "bias":
        return "copied"
    return "kv_heads" if last in ("k_proj", "v_proj") and not shape.latent else "ranks"


def _dropped(module: str, part: Part, shape: Shape) -> bool:
    """What vLLM leaves out: a tied lm_head, and the embeddings of an MTP head (llm_base_proposer.py)."""
    if part == "lm_head":
        return shape.tied
    return part == "mtp" and (module.endswith(("embed_tokens", "lm_head", "shared_head.head")))


class Piece(NamedTuple):
    """One tensor, or part of a fused one, with how it lies on the ranks."""

    module: str
    piece: str
    load: Load
    scales: bool


def _keys_twice(module: str, shape: Shape) -> bool:
    """Whether vLLM keeps these keys a second time, as the values (``k_eq_v_shards`` of models/gemma4.py)."""
    layer = _LAYER.search(module)
    if not shape.keys_are_values or layer is None or not module.endswith(".k_proj"):
        return False
    index = int(layer.group(1))
    return index < len(shape.kinds) and shape.kinds[index] == FULL


def _pieces(module: str, piece: str, load: Load, scales: bool, shape: Shape) -> Iterator[Piece]:
    """A tensor's pieces: one, but one that holds queries, keys and values is taken apart."""
    if _keys_twice(module, shape):
        load = Load(part=load.part, split=load.split, bytes=2 * load.bytes)
    if load.split == "ranks" and module.endswith(".qkv_proj"):
        keys = load.bytes * 2 * shape.kv_heads // (shape.heads + 2 * shape.kv_heads)
        yield Piece(module, piece, Load(part=load.part, split="kv_heads", bytes=keys), scales)
        load = Load(part=load.part, split="ranks", bytes=load.bytes - keys)
    yield Piece(module, piece, load, scales)


def estimated_pieces(
    shape: Shape, modules: Iterable[tuple[Module, WeightScheme | None]], method: Method
) -> Iterator[Piece]:
    """What is loaded of a checkpoint whose config alone is known; ``modules`` are its own, each with its scheme."""
    for small in small_loads(shape, LOADED_BYTES):
        yield Piece("", "", small, False)
    for module, scheme in modules:
        if _dropped(module.name, module.part, shape):
            continue
        *pieces, bias = module_pieces(module, scheme, method, LOADED_BYTES)
        split = _split(module.name, "weight", 2, shape, method)
        for number, size in enumerate(pieces):
            load = Load(part=module.part, split=split, bytes=size)
            yield from _pieces(module.name, str(number), load, number > 0 and scheme is not None, shape)
        load = Load(part=module.part, split=_split(module.name, "bias", 1, shape, method), bytes=bias)
        yield from _pieces(module.name, "bias", load, False, shape)


def stored_pieces(tensors: Mapping[str, Tensor], shape: Shape, method: Method) -> Iterator[Piece]:
    """What is loaded of the tensors that the files hold."""
    for name, tensor in tensors.items():
        module, piece = module_of(name)
        part = part_of(name, len(shape.kinds))
        if not _dropped(module, part, shape):
            split = _split(module, piece, len(tensor.shape), shape, method)
            narrowed = tensor.dtype == "F32" and piece in _FLOAT32
            load = Load(part=part, split=split, bytes=tensor.size // 2 if narrowed else tensor.size)
            yield from _pieces(module, piece, load, piece not in _WEIGHTS, shape)


def loads_of(pieces: Iterable[Piece]) -> tuple[Load, ...]:
    """The pieces' bytes by part and split."""
    total: dict[tuple[Part, Split], int] = {}
    for one in pieces:
        key = (one.load.part, one.load.split)
        total[key] = total.get(key, 0) + one.load.bytes
    return tuple(Load(part=part, split=split, bytes=size) for (part, split), size in total.items() if size)


def _fused_name(module: str) -> str:
    """The module of vLLM that a module of the files becomes part of."""
    before, _, last = _EXPERT.sub(".experts.", module).rpartition(".")
    return f"{before}.{_FUSED_INTO.get(last, last)}"


def tensors_of(pieces: Iterable[Piece]) -> tuple[Tensors, ...]:
    """The pieces put together as vLLM fuses them; small ones and those of every rank are left out."""
    fused: dict[tuple[str, str], list[Piece]] = {}
    for one in pieces:
        if one.load.split != "copied":
            fused.setdefault((_fused_name(one.module), one.piece), []).append(one)
    counts: Counter[tuple[Part, int, int, bool]] = Counter()
    for members in fused.values():
        ranks = sum(one.load.bytes for one in members if one.load.split == "ranks")
        heads = sum(one.load.bytes for one in members if one.load.split == "kv_heads")
        if ranks + heads > LARGE_BYTES:
            counts[members[0].load.part, ranks, heads, any(one.scales for one in members)] += 1
    return tuple(
        Tensors(part=part, ranks_bytes=ranks, kv_heads_bytes=heads, scales=scales, count=count)
        for (part, ranks, heads, scales), count in counts.items()
    )
