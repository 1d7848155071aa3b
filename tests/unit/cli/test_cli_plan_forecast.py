"""The forecast that `cockpit plan` gives, as JSON and as text."""

from __future__ import annotations

from typing import Any

import pytest
from cli_done import Cockpit

from cockpit.units import GIB


def forecast(cockpit: Cockpit, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = cockpit("plan", *words, "--json").json["forecast"]
    return found


def test_int6_mixed_on_two_3090_has_the_pool_that_its_card_says(cockpit: Cockpit) -> None:
    """vLLM printed 8.97 GiB, 263,672 tokens, 1.01x, 12.36 GiB consumed, 1.53 GiB of activations and graphs."""
    found = forecast(cockpit, "vllm/qwen38-27b-int6-mixed", "--rig", "2x3090")
    assert found["kv"]["capacity_tokens"] == 263672
    assert round(found["kv"]["max_concurrency"], 2) == 1.01
    assert found["headroom_tokens"] == 1528
    assert (found["fits"], found["basis"], found["learned_from"]) == ("tight", "declared", None)
    for gpu in found["per_gpu"]:
        assert abs(gpu["kv_bytes"] / GIB - 8.97) < 0.35
        assert abs((gpu["weights_bytes"] + gpu["overhead_bytes"]) / GIB - 12.36) < 0.1
        assert abs((gpu["activation_bytes"] + gpu["graph_bytes"]) / GIB - 1.53) < 0.1
        parts = ("weights", "kv", "activation", "graph", "overhead")
        assert sum(gpu[f"{part}_bytes"] for part in parts) == gpu["budget_bytes"]
    assert [gpu["gpu"] for gpu in found["per_gpu"]] == [0, 1]
    assert found["kv_bytes"] == min(gpu["kv_bytes"] for gpu in found["per_gpu"])


@pytest.mark.parametrize(
    ("slug", "available_gib"),
    [("vllm/dual", 11.05), ("vllm/qwen-27b-dual-max", 5.33)],
)
def test_other_published_boots_on_two_3090_are_near(cockpit: Cockpit, slug: str, available_gib: float) -> None:
    found = forecast(cockpit, slug, "--rig", "2x3090")
    assert abs(found["per_gpu"][0]["kv_bytes"] / GIB - available_gib) < 0.1


def test_the_cpu_build_is_exact_as_its_pool_is_given(cockpit: Cockpit) -> None:
    found = forecast(cockpit, "cpu/tiny-qwen3")
    assert found["kv"]["capacity_tokens"] == 2097152
    assert (found["fits"], found["error_bytes"], found["per_gpu"]) == ("yes", 0, [])
    assert found["kv_bytes"] == GIB


def test_what_would_make_it_fit_is_text_that_set_takes(cockpit: Cockpit) -> None:
    result = cockpit("plan", "vllm/minimal", "--rig", "1x3090", "--set", "max_model_len=262144")
    assert result.code == 2
    assert "✕ does not fit" in result.err
    line = next(line for line in result.err.splitlines() if "--set max_model_len=" in line)
    setting = line.split("--set ")[1].split(":")[0]
    assert forecast(cockpit, "vllm/minimal", "--rig", "1x3090", "--set", setting)["fits"] == "yes"


def test_unknown_is_said_and_is_null(cockpit: Cockpit) -> None:
    found = forecast(cockpit, "vllm/qwen38-27b-dual-max", "--rig", "2x3090", "--set", "gpus=0,5")
    assert (found["fits"], found["kv"], found["kv_bytes"], found["headroom_tokens"]) == ("unknown", None, None, None)
    assert "no GPU 5" in found["reason"]


def test_too_few_gpus_are_the_same_word_in_plan_and_list(cockpit: Cockpit) -> None:
    slug = "vllm/qwen-27b-multi-fast"
    found = forecast(cockpit, slug, "--rig", "2x3090")
    (listed,) = (one["fits"] for one in cockpit("slugs", slug, "--rig", "2x3090", "--json").json)
    for one in (found, listed):
        assert (one["fits"], one["reason"]) == ("no", "it takes 4 GPUs, and this rig has 2")


def test_a_thousand_requests_are_written_as_tokens_are(cockpit: Cockpit) -> None:
    assert "1,024.00 requests of 2,048" in cockpit("plan", "cpu/tiny-qwen3", "--rig", "1x3090").err
