"""Bytes of the loaded weights on one rank, as vLLM prints them: ``Model loading took … GiB``.

A share of what is cut, all of what every rank holds, and the tables of the rotary embedding.
"""

from __future__ import annotations

from cockpit.checkpoint.types import Checkpoint, Load, RotaryTable
from cockpit.planner.forecast_types import Basis
from cockpit.planner.types import Frozen
from cockpit.planner.versions import has, release_of

_VOCABULARY_MULTIPLE = 64
"""DEFAULT_VOCAB_PADDING_SIZE of layers/vocab_parallel_embedding.py."""
_MROPE_POSITIONS = 4
"""MRotaryEmbedding makes its table for so many times the positions, for videos."""
_ERROR = {"headers": 0.02, "config": 0.025}
"""Share of the bytes that packing for a kernel, the allocator's rounding and unlisted tensors come to at most."""
_WITHOUT_DRAFT = frozenset({"ngram", "ngram_gpu", "suffix"})


class RankWeights(Frozen, frozen=True, kw_only=True):
    """The weights on one rank."""

    bytes: int
    basis: Basis
    error_bytes: int
    sharded_bytes: int
    """Shares of what the ranks divide among them."""
    replicated_bytes: int
    """What every rank holds whole."""
    table_bytes: int
    """Tables of the rotary embedding."""


def _padded(load: Load, vocab_size: int) -> int:
    """Bytes of a load with the rows that vLLM adds to a vocabulary."""
    if load.part not in ("embed_tokens", "lm_head"):
        return load.bytes
    rows = -(-vocab_size // _VOCABULARY_MULTIPLE) * _VOCABULARY_MULTIPLE
    return load.bytes * rows // vocab_size


def table_bytes(tables: tuple[RotaryTable, ...], element_bytes: int, engine_version: str | None) -> int:
    """Bytes of rotary tables in the model's own number type."""
    release = release_of(engine_version)
    long = release is not None and not has("mrope-positions", release)
    rows = sum(one.positions * one.width * (_MROPE_POSITIONS if one.multimodal and long else 1) for one in tables)
    return rows * element_bytes


def rank_weights(
    checkpoint: Checkpoint,
    *,
    tensor_parallel: int,
    speculative_tokens: int = 0,
    speculative_method: str = "mtp",
    vision: bool = False,
    draft: Checkpoint | None = None,
    engine_version: str | None = None,
) -> RankWeights | None:
    """The weights of ``checkpoint`` on one of ``tensor_parallel`` ranks; None where the files do not tell.

    ``draft`` is a draft model of its own, which lies on the ranks as the model does.
    """
    if not checkpoint.loads or checkpoint.sizes is None or checkpoint.rotary_tables is None:
        return None
    drafted = speculative_tokens > 0 and speculative_method not in _WITHOUT_DRAFT
    unused = {"mtp"} if not drafted or speculative_method != "mtp" else set()
    unused |= set() if vision else {"vision"}
    sharded = replicated = 0
    for load in checkpoint.loads:
        if load.part in unused:
            continue
        size = _padded(load, checkpoint.vocab_size)
        ranks = {"ranks": tensor_parallel, "kv_heads": min(tensor_parallel, checkpoint.kv_heads), "copied": 1}
        share = -(-size // ranks[load.split])
        if load.split == "copied":
            replicated += share
        else:
            sharded += share
    element = 4 if checkpoint.dtype == "float32" else 2
    tables = table_bytes(checkpoint.rotary_tables, element, engine_version)
    total = sharded + replicated + tables
    basis: Basis = "config" if checkpoint.sizes.estimated else "headers"
    own = RankWeights(
        bytes=total,
        basis=basis,
        error_bytes=round(total * _ERROR[basis]),
        sharded_bytes=sharded,
        replicated_bytes=replicated,
        table_bytes=tables,
    )
    if not drafted or speculative_method == "mtp":
        return own
    other = None if draft is None else rank_weights(draft, tensor_parallel=tensor_parallel)
    return None if other is None else _together(own, other)


def _together(own: RankWeights, other: RankWeights) -> RankWeights:
    return RankWeights(
        bytes=own.bytes + other.bytes,
        basis="config" if "config" in (own.basis, other.basis) else "headers",
        error_bytes=own.error_bytes + other.error_bytes,
        sharded_bytes=own.sharded_bytes + other.sharded_bytes,
        replicated_bytes=own.replicated_bytes + other.replicated_bytes,
        table_bytes=own.table_bytes + other.table_bytes,
    )
