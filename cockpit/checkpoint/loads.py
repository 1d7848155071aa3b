"""Which rank holds what of the weights when vLLM has loaded them with tensor parallelism, by a module's name.

Linear layers, embeddings and experts are shared by all ranks (layers/linear.py, layers/vocab_parallel_embedding.py,
layers/fused_moe); keys and values by as many as there are KV heads (QKVParallelLinear); norms, routers, the low-rank
inputs of latent attention and what belongs to no matrix lie on every rank.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from cockpit.checkpoint.modules import Module
from cockpit.checkpoint.safetensors import Tensor
from cockpit.checkpoint.shape import Shape
from cockpit.checkpoint.sizes import module_bytes, small_loads
from cockpit.checkpoint.stored import module_of, part_of
from cockpit.checkpoint.types import Load, Method, Part, Split, WeightScheme

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


def _split(module: str, piece: str, dimensions: int, shape: Shape, method: Method) -> Split:
    """How a tensor lies on the ranks; ``piece`` is what of the module it is: ``weight``, ``bias``, ``scales``, …"""
    words = module.split(".")
    last = words[-1]
    if not _COPIED.isdisjoint(words[-2:]) or (last in _NARROW and method in _MARLIN_METHODS):
        return "copied"
    if dimensions < 2 and last not in _VECTORS_OF_HEADS and (piece != "bias" or last in _CUT_BY_INPUTS):
        return "copied"
    return "kv_heads" if last in ("k_proj", "v_proj") and not shape.latent else "ranks"


def _dropped(module: str, part: Part, shape: Shape) -> bool:
    """What vLLM leaves out: a tied lm_head, and the embeddings of an MTP head (llm_base_proposer.py)."""
    if part == "lm_head":
        return shape.tied
    return part == "mtp" and (module.endswith(("embed_tokens", "lm_head", "shared_head.head")))


def _shared(module: str, part: Part, split: Split, size: int, shape: Shape) -> Iterator[Load]:
    """The load of one tensor; one that holds queries, keys and values is taken apart."""
    if split == "ranks" and module.endswith(".qkv_proj"):
        keys = size * 2 * shape.kv_heads // (shape.heads + 2 * shape.kv_heads)
        yield Load(part=part, split="kv_heads", bytes=keys)
        size -= keys
    yield Load(part=part, split=split, bytes=size)


def _summed(loads: Iterable[Load]) -> tuple[Load, ...]:
    total: dict[tuple[Part, Split], int] = {}
    for one in loads:
        total[one.part, one.split] = total.get((one.part, one.split), 0) + one.bytes
    return tuple(Load(part=part, split=split, bytes=size) for (part, split), size in total.items() if size)


def _estimated(shape: Shape, modules: Iterable[tuple[Module, WeightScheme | None]], method: Method) -> Iterator[Load]:
    yield from small_loads(shape)
    for module, scheme in modules:
        if not _dropped(module.name, module.part, shape):
            size = module_bytes(module, scheme, method, shape.bytes_per_element)
            split = _split(module.name, "weight", 2, shape, method)
            yield from _shared(module.name, module.part, split, size, shape)


def estimated_loads(
    shape: Shape, modules: Iterable[tuple[Module, WeightScheme | None]], method: Method
) -> tuple[Load, ...]:
    """What is loaded of a checkpoint whose config alone is known; ``modules`` are its own, each with its scheme."""
    return _summed(_estimated(shape, modules, method))


def stored_loads(tensors: Mapping[str, Tensor], shape: Shape, method: Method) -> tuple[Load, ...]:
    """What is loaded of the tensors that the files hold."""

    def loads() -> Iterator[Load]:
        for name, tensor in tensors.items():
            module, piece = module_of(name)
            part = part_of(name, len(shape.kinds))
            if not _dropped(module, part, shape):
                split = _split(module, piece, len(tensor.shape), shape, method)
                yield from _shared(module, part, split, tensor.size, shape)

    return _summed(loads())
