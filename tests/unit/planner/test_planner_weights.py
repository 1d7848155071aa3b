"""Bytes of the weights on one rank, against what vLLM has printed and against laws of sharing."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from cockpit.checkpoint.inspect import inspect
from cockpit.checkpoint.types import Checkpoint
from cockpit.planner.weights import rank_weights
from cockpit.units import GIB

CHECKPOINTS = Path(__file__).resolve().parents[2] / "fixtures" / "checkpoints"


def checkpoint(name: str) -> Checkpoint:
    return inspect(str(CHECKPOINTS / name))


@pytest.mark.parametrize(
    ("name", "drafted", "measured_gib"),
    [
        ("auto-round-w4", 0, 5.71),
        ("compressed-tensors-w4", 0, 5.68),
        ("auto-round-w4-hybrid", 3, 17.74),
        ("compressed-tensors-int6-flat", 3, 23.24),
        ("bf16-hybrid", 0, 50.22),
    ],
)
def test_one_rank_holds_what_vllm_said_it_loaded(name: str, drafted: int, measured_gib: float) -> None:
    """The boots of one H200 with vLLM 0.26.0, language model only."""
    weights = rank_weights(checkpoint(name), tensor_parallel=1, speculative_tokens=drafted, engine_version="0.26.0")
    assert weights is not None
    off = weights.bytes / GIB / measured_gib - 1
    print(f"{name:30} {weights.bytes / GIB:8.3f} GiB, measured {measured_gib:.2f} GiB, {off:+.2%}")
    assert abs(off) < 0.003
    assert abs(weights.bytes / GIB - measured_gib) <= weights.error_bytes / GIB + 0.005
    parts = (weights.sharded_bytes, weights.replicated_bytes, weights.table_bytes, weights.rounding_bytes)
    assert weights.bytes == sum(parts)


@pytest.mark.parametrize("name", ["auto-round-w4-hybrid", "bf16", "gpt-oss-mxfp4", "mixtral", "deepseek-v3"])
@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_ranks_divide_what_is_shared_and_repeat_the_rest(name: str, ranks: int) -> None:
    one = rank_weights(checkpoint(name), tensor_parallel=1, vision=True)
    many = rank_weights(checkpoint(name), tensor_parallel=ranks, vision=True)
    assert one is not None and many is not None
    assert many.replicated_bytes == one.replicated_bytes
    assert many.table_bytes == one.table_bytes
    assert one.sharded_bytes <= many.sharded_bytes * ranks <= one.sharded_bytes * 1.2
    assert many.bytes < one.bytes


def test_fewer_kv_heads_than_ranks_are_held_by_several() -> None:
    found = checkpoint("bf16-hybrid")
    four, eight = (rank_weights(found, tensor_parallel=ranks) for ranks in (4, 8))
    assert four is not None and eight is not None
    kv = sum(load.bytes for load in found.loads if load.split == "kv_heads" and load.part == "body")
    assert kv == 16 * 2 * 5120 * 4 * 256 * 2
    assert abs(eight.sharded_bytes - (four.sharded_bytes - kv // 4) / 2 - kv / 4) < 64


def test_vision_and_mtp_count_where_they_are_used() -> None:
    found = checkpoint("bf16-hybrid")
    assert found.sizes is not None
    plain = rank_weights(found, tensor_parallel=1)
    seeing = rank_weights(found, tensor_parallel=1, vision=True)
    drafting = rank_weights(found, tensor_parallel=1, speculative_tokens=2)
    assert plain is not None and seeing is not None and drafting is not None
    held = plain.bytes - plain.rounding_bytes
    assert seeing.bytes - seeing.rounding_bytes - held == found.sizes.vision
    assert drafting.bytes - drafting.rounding_bytes - held == found.sizes.mtp


def test_an_allocator_of_expandable_segments_rounds_nothing() -> None:
    found = checkpoint("auto-round-w4-hybrid")
    usual = rank_weights(found, tensor_parallel=1)
    exact = rank_weights(found, tensor_parallel=1, expandable_segments=True)
    assert usual is not None and exact is not None
    assert exact.rounding_bytes == 0 < usual.rounding_bytes
    assert exact.bytes == usual.bytes - usual.rounding_bytes


def test_a_draft_of_its_own_is_loaded_beside_the_model() -> None:
    model, small = checkpoint("bf16"), checkpoint("llama")
    alone = rank_weights(model, tensor_parallel=2)
    draft = rank_weights(small, tensor_parallel=2)
    both = rank_weights(model, tensor_parallel=2, speculative_tokens=4, speculative_method="eagle3", draft=small)
    assert alone is not None and draft is not None and both is not None
    assert both.bytes == alone.bytes + draft.bytes
    assert rank_weights(model, tensor_parallel=2, speculative_tokens=4, speculative_method="eagle3") is None
    assert rank_weights(model, tensor_parallel=2, speculative_tokens=4, speculative_method="ngram") == alone


def test_a_vocabulary_is_padded_to_64_rows() -> None:
    found = checkpoint("bf16")
    odd = msgspec.structs.replace(found, vocab_size=found.vocab_size - 1)
    assert rank_weights(found, tensor_parallel=1) != rank_weights(odd, tensor_parallel=1)
    embeddings = next(load.bytes for load in found.loads if load.part == "embed_tokens")
    assert embeddings == found.vocab_size * found.hidden_size * 2


def test_unknown_layers_have_no_figure() -> None:
    assert rank_weights(checkpoint("jamba"), tensor_parallel=1) is None
