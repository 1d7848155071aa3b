"""Weights of checkpoints that only their slugs describe."""

from __future__ import annotations

import json
import math
from pathlib import Path

import msgspec
import pytest

from cockpit import paths
from cockpit.catalog.load import Entry, load
from cockpit.catalog.slug import Weights
from cockpit.checkpoint.inspect import inspect
from cockpit.errors import CockpitError
from cockpit.planner.declared import declared_checkpoint, declared_weights
from cockpit.planner.families import kv_model
from cockpit.planner.kv import forecast_kv
from cockpit.planner.types import KvForecast, KvModel, KvSettings
from cockpit.planner.weights import rank_weights
from cockpit.units import GIB

CATALOG = load(paths.shipped("slugs"))
CHECKPOINTS = Path(__file__).resolve().parents[2] / "fixtures" / "checkpoints"
ARCHITECTURE = paths.shipped("slugs") / "architectures" / "qwen3.5-27b.json"


def entry(name: str) -> Entry:
    return CATALOG.get(name)


def test_int6_mixed_holds_what_its_card_says_on_two_rtx_3090() -> None:
    """Measured on each card: 12.19 GiB of weights, 0.17 GiB outside PyTorch, 1.53 GiB of activations and graphs."""
    mixed = entry("vllm/qwen38-27b-int6-mixed")
    found = declared_checkpoint(mixed.slug.weights, mixed.architecture_file)
    assert found is not None
    weights = declared_weights(
        found,
        mixed.slug.weights,
        tensor_parallel=2,
        speculative_tokens=3,
        vision=True,
        engine_version="0.27.2",
    )
    assert weights is not None
    assert weights.basis == "declared"
    assert abs(weights.bytes / GIB - 12.19) < weights.error_bytes / GIB < 0.35
    available = math.ceil(0.97 * 23.57 * GIB) - weights.bytes - round((0.17 + 1.53) * GIB)
    assert abs(available / GIB - 8.97) < 0.35
    model = kv_model(found)
    assert isinstance(model, KvModel)
    settings = KvSettings(max_model_len=262144, tensor_parallel=2, speculative_tokens=3, prefix_caching=True)
    forecast, printed = (forecast_kv(model, settings, size) for size in (available, round(8.97 * GIB)))
    assert isinstance(forecast, KvForecast) and isinstance(printed, KvForecast)
    assert printed.capacity_tokens == 263672
    assert abs(forecast.capacity_tokens - 263672) < 263672 * 0.35 / 8.97
    print(f"{weights.bytes / GIB:.2f} ± {weights.error_bytes / GIB:.2f} GiB, {forecast.capacity_tokens:,} tokens")


@pytest.mark.parametrize("name", [one.slug.name for one in CATALOG.entries if one.slug.weights.repo is not None])
def test_every_shipped_slug_of_a_repository_has_its_architecture_and_weights(name: str) -> None:
    slug, file = entry(name).slug, entry(name).architecture_file
    found = declared_checkpoint(slug.weights, file)
    assert found is not None and found.sizes is not None
    weights = declared_weights(found, slug.weights, tensor_parallel=slug.tensor_parallel, vision=True)
    assert weights is not None
    assert found.moe == slug.weights.moe
    assert found.max_model_len == slug.weights.native_max_model_len
    assert (found.mtp_layers > 0, found.vision) == (slug.weights.mtp, slug.weights.vision)
    assert isinstance(kv_model(found), KvModel)
    if slug.weights.size_bytes is not None:
        assert found.sizes.total == slug.weights.size_bytes
    assert weights.error_bytes < weights.bytes / 5


@pytest.mark.parametrize(
    ("fixture", "declared"),
    [
        ("auto-round-w4-hybrid", {"format": "auto-round", "bits": 4}),
        (
            "compressed-tensors-int6-mixed",
            {"format": "compressed-tensors", "widths": [5, 6, 7, 8], "embedding_bits": 8},
        ),
        ("compressed-tensors-int6-flat", {"format": "compressed-tensors", "bits": 6}),
        ("bf16-hybrid", {"format": "bf16"}),
    ],
)
@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("vision", [True, False])
@pytest.mark.parametrize("drafted", [0, 3])
def test_declared_weights_are_within_their_error_of_what_the_config_says(
    fixture: str, declared: dict[str, object], ranks: int, vision: bool, drafted: int
) -> None:
    found = inspect(str(CHECKPOINTS / fixture))
    assert found.sizes is not None
    size = round(found.sizes.total / GIB, 1)
    weights = msgspec.convert(
        {"repo": "a/b", "mtp": True, "vision": True, "size_gib": size, **declared}, type=Weights
    )
    made = declared_checkpoint(weights, ARCHITECTURE)
    assert made is not None
    guess = declared_weights(made, weights, tensor_parallel=ranks, speculative_tokens=drafted, vision=vision)
    known = rank_weights(found, tensor_parallel=ranks, speculative_tokens=drafted, vision=vision)
    assert guess is not None and known is not None
    assert abs(guess.bytes - known.bytes) <= guess.error_bytes
    assert guess.error_bytes < (0.04 if drafted else 0.07) * guess.bytes


def test_a_size_that_the_widths_cannot_have_gives_no_figure() -> None:
    weights = Weights(format="auto-round", repo="a/b", bits=4, mtp=True, vision=True, size_gib=40)
    assert declared_checkpoint(weights, ARCHITECTURE) is None


def test_without_an_architecture_nothing_is_known() -> None:
    assert declared_checkpoint(Weights(format="bf16", repo="a/b", size_gib=50), None) is None


def test_an_architecture_that_is_no_config_is_named(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"architectures": ["X"]}), encoding="utf-8")
    with pytest.raises(CockpitError, match="num_hidden_layers"):
        declared_checkpoint(Weights(format="bf16", repo="a/b"), file)
