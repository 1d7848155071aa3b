"""Forecasts of two cards, as the planner makes them."""

from __future__ import annotations

from typing import Any

import msgspec

from cockpit.planner.forecast_types import Change, Forecast, GpuForecast, LearnedFrom, Part
from cockpit.planner.types import KvForecast
from cockpit.units import GIB


def part(gib: float, basis: str = "measured", error_gib: float = 0.0) -> Part:
    """Bytes of one use, from GiB."""
    return Part(bytes=round(gib * GIB), basis=basis, error_bytes=round(error_gib * GIB))  # type: ignore[arg-type]


def gpu(index: int = 0, **changes: Any) -> GpuForecast:
    """A 24 GiB card under a 27B in 4 bits."""
    fields: dict[str, Any] = {
        "gpu": index,
        "name": "NVIDIA GeForce RTX 3090",
        "total_bytes": 24 * GIB,
        "free_bytes": round(23.5 * GIB),
        "budget_bytes": round(22.08 * GIB),
        "weights": part(9.1, "headers"),
        "activation": part(1.3, "estimated", 0.5),
        "graphs": part(0.1, "estimated", 0.1),
        "overhead": part(0.53, "estimated", 0.2),
        "kv": part(11.05, "estimated", 0.8),
    }
    return GpuForecast(**{**fields, **changes})


def kv(capacity: int = 623_873, concurrency: float = 2.38, fits: bool = True) -> KvForecast:
    """A pool of that many tokens."""
    return KvForecast(
        block_size_tokens=1568,
        bytes_per_block=27_295_744,
        blocks=434,
        blocks_per_request=182,
        capacity_tokens=capacity,
        max_concurrency=concurrency,
        fits=fits,
        bytes_needed=4_967_825_408,
    )


FITS = Forecast(
    fits="yes",
    per_gpu=(gpu(0), gpu(1)),
    kv=kv(),
    headroom_tokens=361_729,
    headroom_fraction=1.38,
    largest_max_model_len=262_144,
    error_bytes=GIB // 10,
    basis="estimated",
    learned_from=LearnedFrom(slug="vllm/dual", at=1_795_900_000.0, exact=True),
)
TIGHT = msgspec.structs.replace(
    FITS,
    fits="tight",
    reason="1,528 tokens beyond one request are less than the error of 0.40 GiB",
    kv=kv(263_672, 1.01),
    headroom_tokens=1528,
    headroom_fraction=0.0058,
    learned_from=None,
)
TOO_BIG = Forecast(
    fits="no",
    reason="one request of 262,144 tokens needs 8.9 GiB of KV pool a GPU, 5.8 GiB are left",
    per_gpu=tuple(gpu(index, weights=part(14.5, "headers"), kv=part(5.8, "estimated", 0.8)) for index in range(2)),
    kv=kv(171_000, 0.65, fits=False),
    headroom_tokens=-91_144,
    headroom_fraction=-0.348,
    largest_max_model_len=170_000,
    missing_bytes=round(3.1 * GIB),
    error_bytes=GIB // 2,
    basis="estimated",
    changes=(
        Change(set={"kv_cache_dtype": "fp8_e4m3"}, capacity_tokens=342_000, max_concurrency=1.3),
        Change(set={"max_model_len": 170_000}, capacity_tokens=171_000, max_concurrency=1.0),
        Change(set={"gpus": [0, 1, 2, 3], "tensor_parallel": 4}, capacity_tokens=900_000, max_concurrency=3.4),
    ),
)
UNKNOWN = Forecast(fits="unknown", reason="the size of the weights is not known")
