"""Bytes of the loaded weights on one rank, as vLLM prints them: ``Model loading took … GiB``.

A share of what is cut, all of what every rank holds, and the tables of the rotary embedding.
"""

from __future__ import annotations

from cockpit.checkpoint.loads import LOADED_BYTES
from cockpit.checkpoint.types import Checkpoint, Load
from cockpit.planner.forecast_types import Basis
from cockpit.planner.types import Frozen
from cockpit.planner.versions import has, release_of

_VOCABULARY_MULTIPLE = 64
"""DEFAULT_VOCAB_PADDING_SIZE of layers/vocab_parallel_embedding.py."""
_MROPE_POSITIONS = 4
"""MRotaryEmbedding makes its table for so many times the positions, for videos."""
_AS_LONG_AS_CONTEXT = ("qwen3_vl", "qwen3_5")
"""Beginnings of the model types whose later versions leave that to those who prune videos."""
_MEASURED = frozenset({"none", "auto-round", "compressed-tensors", "gptq"})
"""Formats whose kernels keep what the files hold, as boots have shown; others write more or less."""
_ERROR_SHARE, _UNMEASURED_SHARE = 0.005, 0.025
_SEGMENT_BYTES, _SMALLEST_OF_ITS_OWN, _LEFT_WHOLE_BYTES = 2 << 20, 10 << 20, 1 << 20
"""PyTorch's allocator: tensors of 10 MiB and more get a segment of whole 2 MiB, and what is left of one, up to 1 MiB,
is not split off (c10/cuda/CUDACachingAllocator)."""
_HOLE_BYTES = round(0.6 * (1 << 20))
"""Scales of 1 to 10 MiB are written anew for their kernel, into holes that others have left, with so much to spare:
the mean of five boots of 8B and 27B models, which it makes right within 0.04 GiB."""
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
    rounding_bytes: int
    """What the allocator hands out beyond what was asked for."""


def _padded(load: Load, vocab_size: int) -> int:
    """Bytes of a load with the rows that vLLM adds to a vocabulary."""
    if load.part not in ("embed_tokens", "lm_head"):
        return load.bytes
    rows = -(-vocab_size // _VOCABULARY_MULTIPLE) * _VOCABULARY_MULTIPLE
    return load.bytes * rows // vocab_size


def table_bytes(checkpoint: Checkpoint, engine_version: str | None) -> int | None:
    """Bytes of the rotary tables, in the model's own number type; None where one of them is not known."""
    if checkpoint.rotary_tables is None:
        return None
    release = release_of(engine_version)
    as_context = release is not None and has("mrope-positions", release)
    times = 1 if as_context and checkpoint.model_type.startswith(_AS_LONG_AS_CONTEXT) else _MROPE_POSITIONS
    return sum(
        one.positions * (times if one.multimodal else 1) * one.width * (one.element_bytes or LOADED_BYTES)
        for one in checkpoint.rotary_tables
    )


def _rounding(size: int, scales: bool) -> int:
    """Bytes that the allocator adds to a tensor of ``size`` bytes."""
    if size >= _SMALLEST_OF_ITS_OWN:
        rest = -size % _SEGMENT_BYTES
        return rest if rest <= _LEFT_WHOLE_BYTES else 0
    return _HOLE_BYTES if scales and size > _LEFT_WHOLE_BYTES else 0


def _unused(speculative: bool, vision: bool) -> set[str]:
    return ({"mtp"} if not speculative else set()) | ({"vision"} if not vision else set())


def _own(
    checkpoint: Checkpoint, tensor_parallel: int, unused: set[str], tables: int, expandable_segments: bool
) -> RankWeights:
    ranks = {"ranks": tensor_parallel, "kv_heads": min(tensor_parallel, checkpoint.kv_heads), "copied": 1}
    totals = {"ranks": 0, "kv_heads": 0, "copied": 0}
    for load in checkpoint.loads:
        if load.part not in unused:
            totals[load.split] += -(-_padded(load, checkpoint.vocab_size) // ranks[load.split])
    rounding = 0
    for one in checkpoint.tensors:
        if one.part not in unused and not expandable_segments:
            share = one.ranks_bytes // ranks["ranks"] + one.kv_heads_bytes // ranks["kv_heads"]
            rounding += one.count * _rounding(share, one.scales)
    held = sum(totals.values()) + tables
    share_off = _ERROR_SHARE if checkpoint.quantization.method in _MEASURED else _UNMEASURED_SHARE
    return RankWeights(
        bytes=held + rounding,
        basis="config" if checkpoint.sizes is None or checkpoint.sizes.estimated else "headers",
        error_bytes=round(held * share_off) + rounding // 2,
        sharded_bytes=totals["ranks"] + totals["kv_heads"],
        replicated_bytes=totals["copied"],
        table_bytes=tables,
        rounding_bytes=rounding,
    )


def rank_weights(
    checkpoint: Checkpoint,
    *,
    tensor_parallel: int,
    speculative_tokens: int = 0,
    speculative_method: str = "mtp",
    vision: bool = False,
    draft: Checkpoint | None = None,
    engine_version: str | None = None,
    expandable_segments: bool = False,
) -> RankWeights | None:
    """The weights of ``checkpoint`` on one of ``tensor_parallel`` ranks; None where the files do not tell.

    ``draft`` is a draft model of its own, which lies on the ranks as the model does. ``expandable_segments`` is that
    setting of PYTORCH_CUDA_ALLOC_CONF, with which the allocator rounds nothing.
    """
    tables = table_bytes(checkpoint, engine_version)
    if not checkpoint.loads or tables is None:
        return None
    drafted = speculative_tokens > 0 and speculative_method not in _WITHOUT_DRAFT
    with_mtp = drafted and speculative_method == "mtp"
    own = _own(checkpoint, tensor_parallel, _unused(with_mtp, vision), tables, expandable_segments)
    if not drafted or with_mtp:
        return own
    other = None
    if draft is not None:
        other = rank_weights(
            draft,
            tensor_parallel=tensor_parallel,
            engine_version=engine_version,
            expandable_segments=expandable_segments,
        )
    return None if other is None else _together(own, other)


def _together(own: RankWeights, other: RankWeights) -> RankWeights:
    return RankWeights(
        bytes=own.bytes + other.bytes,
        basis="config" if "config" in (own.basis, other.basis) else "headers",
        error_bytes=own.error_bytes + other.error_bytes,
        sharded_bytes=own.sharded_bytes + other.sharded_bytes,
        replicated_bytes=own.replicated_bytes + other.replicated_bytes,
        table_bytes=own.table_bytes + other.table_bytes,
        rounding_bytes=own.rounding_bytes + other.rounding_bytes,
    )
