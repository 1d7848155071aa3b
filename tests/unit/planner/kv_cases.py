"""Made-up models and launches as the driver of vLLM's planning functions takes them, planned by this planner."""

from __future__ import annotations

from typing import Any

from cockpit.checkpoint.types import LinearAttention
from cockpit.planner.kv import bytes_needed_for_one_request, forecast_kv, largest_max_model_len
from cockpit.planner.types import AttentionLayers, KvForecast, KvModel, KvSettings


def model_of_case(case: dict[str, Any]) -> KvModel:
    """The model of a case."""
    gdn = case["gdn"]
    return KvModel(
        attention=tuple(
            AttentionLayers(layers=one["layers"], kv_heads=one["heads"], head_dim=one["dim"], window=one["window"])
            for one in case["attention"]
        ),
        gated_delta=gdn
        and LinearAttention(
            key_heads=gdn["nk"],
            value_heads=gdn["nv"],
            key_head_dim=gdn["dk"],
            value_head_dim=gdn["dv"],
            conv_kernel=gdn["k"],
            state_bytes=gdn["bytes"],
        ),
        gated_delta_layers=gdn["layers"] if gdn else 0,
    )


def settings_of_case(case: dict[str, Any]) -> KvSettings:
    """The launch of a case."""
    # The draft's own layers are in the case's layers already: to the planner it drafts without a model.
    windowed = any(one["window"] for one in case["attention"])
    return KvSettings(
        max_model_len=case["length"],
        tensor_parallel=case["ranks"],
        kv_cache_dtype=case["dtype"],
        speculative_tokens=0 if windowed else case["spec"],
        speculative_method="ngram",
        prefix_caching=case["prefix"],
        platform=case["platform"],
        engine_version="0.32.0",
        max_num_batched_tokens=case["batch"],
    )


def planned(case: dict[str, Any]) -> dict[str, Any]:
    """What this planner makes of a case, in the words of the driver's answers."""
    model, settings = model_of_case(case), settings_of_case(case)
    forecast = forecast_kv(model, settings, case["available"])
    assert isinstance(forecast, KvForecast), f"{forecast} for {case}"
    needed = bytes_needed_for_one_request(model, settings)
    assert isinstance(needed, int)
    return {
        "block_bytes": forecast.bytes_per_block,
        "needed": needed - forecast.bytes_per_block,  # without the null block
        "blocks": forecast.blocks,
        "tokens": forecast.capacity_tokens,
        "concurrency": forecast.max_concurrency,
        "fits": forecast.fits,
        "longest": largest_max_model_len(model, settings, case["available"], limit=case["length"]),
    }
