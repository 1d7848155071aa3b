"""Pool reports that others published, reproduced to the token from the models' own config fields."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fixture_yaml import read_yaml
from kv_evidence import FIXTURES, GIB, rounding

from cockpit.checkpoint.inspect import inspect
from cockpit.planner.families import kv_model
from cockpit.planner.kv import bytes_needed_for_one_request, forecast_layout, largest_max_model_len
from cockpit.planner.layout import kv_layout
from cockpit.planner.types import KvLayout, KvModel, KvSettings

PUBLISHED: dict[str, Any] = read_yaml(FIXTURES / "kv-published.yaml")
KINDS = {"s": "sliding_attention", "f": "full_attention", "l": "linear_attention"}
COMMON = {"vocab_size": 151936, "intermediate_size": 4096, "max_position_embeddings": 262144, "dtype": "bfloat16"}
MOST_BLOCKS = 100_000


def model_of(name: str, folder: Path) -> KvModel:
    said = PUBLISHED["models"][name]
    config = {**COMMON, **said["config"]}
    if "layer_types" in said:
        letters, times = said["layer_types"]
        config["layer_types"] = [KINDS[letter] for letter in letters] * times
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    model = kv_model(inspect(str(folder)))
    assert isinstance(model, KvModel), model
    return model


def settings_of(row: dict[str, Any]) -> KvSettings:
    return KvSettings(
        max_model_len=row["max_model_len"],
        tensor_parallel=row.get("tensor_parallel", 1),
        kv_cache_dtype=row.get("kv_cache_dtype", "auto"),
        speculative_tokens=row.get("speculative_tokens", 0),
        prefix_caching=row.get("prefix_caching"),
        engine_version=row.get("engine_version"),
        max_num_batched_tokens=row.get("batched_tokens"),
    )


@pytest.mark.parametrize("row", PUBLISHED["rows"], ids=lambda row: f"{row['model']}-{row['tokens']}")
def test_a_published_pool_comes_out_to_the_token(row: dict[str, Any], tmp_path: Path) -> None:
    layout = kv_layout(model_of(row["model"], tmp_path), settings_of(row))
    assert isinstance(layout, KvLayout), layout
    counts = range(1, MOST_BLOCKS)
    if row["available_gib"] is not None:
        low, high = rounding(row["available_gib"])
        counts = range(low // layout.bytes_per_block, high // layout.bytes_per_block + 1)
    made = (forecast_layout(layout, row["max_model_len"], count * layout.bytes_per_block) for count in counts)
    found = [one for one in made if one.capacity_tokens == row["tokens"]]
    assert len(found) == 1
    assert round(found[0].max_concurrency, 2) == row["concurrency"]
    assert layout.block_size_tokens == row.get("block_size", layout.block_size_tokens)


@pytest.mark.parametrize("row", PUBLISHED["refusals"], ids=lambda row: row["model"])
def test_a_published_refusal_comes_out(row: dict[str, Any], tmp_path: Path) -> None:
    model, settings = model_of(row["model"], tmp_path), settings_of(row)
    needed = bytes_needed_for_one_request(model, settings)
    assert isinstance(needed, int) and round(needed / GIB, 2) == row["needed_gib"]
    longest = [largest_max_model_len(model, settings, size) for size in rounding(row["available_gib"])]
    assert isinstance(longest[0], int) and isinstance(longest[1], int)
    assert longest[0] <= row["longest"] <= longest[1]
