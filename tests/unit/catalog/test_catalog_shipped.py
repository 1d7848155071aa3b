"""Every shipped slug: it loads, and says what is published about its model."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from cockpit import paths
from cockpit.catalog.load import load
from cockpit.launch.plan import Facts, context_for, toggle_states
from cockpit.launch.toggles import TOGGLES
from cockpit.rig.types import Rig

SHIPPED = paths.shipped("slugs")
CATALOG = load(SHIPPED)
FILES = sorted(path.relative_to(SHIPPED).as_posix() for path in SHIPPED.rglob("*.yaml"))
ANYWHERE = Facts(rig=Rig(), engine=None, environ={}, free_port=8000, cwd="/")

LORBUS = "Lorbus/Qwen3.6-27B-int4-AutoRound"
INTEL = "Intel/Qwen3.6-35B-A3B-int4-mixed-AutoRound"
FROZENLOCK = "Frozenlock/Qwen3.8-27B-int4-AutoRound"
INT6_MIXED = "Minachist/Qwen3.8-27B-INT6-Mixed-AutoRound"
INT6_FLAT = "Minachist/Qwen3.8-27B-INT6-Flat-6.6bpw-AutoRound"
INT5_FLAT = "Minachist/Qwen3.8-27B-INT5-Flat-5.7bpw-AutoRound"
THINKINGCAP = "LeaderboardModel1/ThinkingCap-Qwen3.6-27B-AutoRound-W4A16-Tuning"
FULL = 262144
FP8_KV = "fp8_e4m3"
CT = "compressed-tensors"
W4 = ("auto-round", 4)
MTP3, MTP4 = ("mtp", 3), ("mtp", 4)
TABLE = [
    # name, aliases, repository, format and bits, TP, context, KV, draft, int8 (None is blocked)
    ("vllm/dual", ["vllm/qwen-27b-dual-fast"], LORBUS, W4, 2, FULL, FP8_KV, MTP3, "off"),
    ("vllm/minimal", [], LORBUS, W4, 1, 32768, FP8_KV, None, "off"),
    ("vllm/qwen-27b-multi-fast", [], LORBUS, W4, 4, FULL, FP8_KV, MTP3, "off"),
    ("vllm/qwen-27b-dual-max", [], "Qwen/Qwen3.6-27B-FP8", ("fp8", 8), 2, FULL, FP8_KV, MTP3, None),
    ("vllm/qwen-27b-single-nvfp4", [], "nvidia/Qwen3.6-27B-NVFP4", ("nvfp4", 4), 1, 32768, FP8_KV, None, None),
    ("vllm/qwen-27b-dual-nvfp4", [], "nvidia/Qwen3.6-27B-NVFP4", ("nvfp4", 4), 2, FULL, FP8_KV, MTP3, None),
    ("vllm/qwen-35b-a3b-dual", [], INTEL, W4, 2, FULL, FP8_KV, None, None),
    ("vllm/qwen38-27b-dual-fast", [], FROZENLOCK, W4, 2, FULL, FP8_KV, MTP4, "on"),
    ("vllm/qwen38-27b-multi4-fast", [], FROZENLOCK, W4, 4, FULL, FP8_KV, MTP4, "on"),
    ("vllm/qwen38-27b-multi8-fast", [], FROZENLOCK, W4, 8, FULL, FP8_KV, MTP4, "on"),
    ("vllm/qwen38-27b-int6-mixed", [], INT6_MIXED, (CT, None), 2, FULL, "auto", MTP3, None),
    ("vllm/qwen38-27b-int6-flat", [], INT6_FLAT, (CT, 6), 2, FULL, "auto", MTP3, None),
    ("vllm/qwen38-27b-int5-flat", [], INT5_FLAT, (CT, 5), 2, FULL, "auto", MTP3, None),
    ("vllm/qwen38-27b-dual-max", [], "Qwen/Qwen3.8-27B-FP8", ("fp8", 8), 2, FULL, FP8_KV, MTP3, None),
    ("vllm/thinkingcap-dual", [], THINKINGCAP, W4, 2, FULL, FP8_KV, MTP3, "on"),
    ("cpu/tiny-qwen3", [], None, ("bf16", 16), 1, 2048, "auto", None, None),
]  # fmt: skip


def test_every_shipped_file_loads() -> None:
    assert CATALOG.problems == ()
    assert len(CATALOG.entries) == len(FILES)
    assert all(entry.shipped for entry in CATALOG.entries)


def test_the_table_names_every_shipped_slug() -> None:
    assert sorted(row[0] for row in TABLE) == [entry.slug.name for entry in CATALOG.entries]


@pytest.mark.parametrize("row", TABLE, ids=[row[0] for row in TABLE])
def test_a_shipped_slug_says_what_is_published(row: tuple[Any, ...]) -> None:
    name, aliases, repo, (kind, bits), parallel, context, kv_cache_dtype, draft, int8 = row
    slug = CATALOG.get(name).slug
    assert slug.aliases == aliases
    assert slug.weights.repo == repo
    assert (slug.weights.format, slug.weights.bits) == (kind, bits)
    assert slug.tensor_parallel == parallel
    assert slug.max_model_len == context
    assert slug.kv_cache_dtype == kv_cache_dtype
    assert (slug.speculative and (slug.speculative.method, slug.speculative.tokens)) == draft
    ctx = context_for(slug, {}, ANYWHERE)
    state = toggle_states(ctx)["int8"].state
    assert (ctx.values["int8"] if state == "offered" else None) == int8


@pytest.mark.parametrize("row", TABLE, ids=[row[0] for row in TABLE])
def test_a_slug_asks_for_no_more_context_than_its_model_has(row: tuple[Any, ...]) -> None:
    slug = CATALOG.get(row[0]).slug
    assert slug.weights.native_max_model_len is not None
    assert slug.max_model_len <= slug.weights.native_max_model_len


@pytest.mark.parametrize("row", TABLE, ids=[row[0] for row in TABLE])
def test_what_a_slug_sets_could_also_be_typed(row: tuple[Any, ...]) -> None:
    slug = CATALOG.get(row[0]).slug
    for toggle in TOGGLES:
        value = toggle.default(slug)
        if value not in (None, ()):
            assert toggle.kind.parse(toggle.kind.show(value)) == value, toggle.id


@pytest.mark.parametrize("file", FILES)
def test_on_stays_a_word_and_the_editor_finds_the_schema(file: str) -> None:
    text = (SHIPPED / file).read_text(encoding="utf-8")
    first = text.splitlines()[0]
    schema = first.partition("$schema=")[2]
    assert ((SHIPPED / file).parent / schema).resolve() == SHIPPED / "slug.schema.json"
    assert not re.search(r"\s['\"](?:on|off)['\"]", text)


def test_the_quality_figures_are_comparable_within_one_group() -> None:
    rated = {entry.slug.name: entry.slug.quality for entry in CATALOG.entries if entry.slug.quality}
    figures = {name: (quality.kld, quality.top1_fraction) for name, quality in rated.items()}
    assert figures == {
        "vllm/qwen38-27b-int5-flat": (0.00373, 0.981),
        "vllm/qwen38-27b-int6-flat": (0.00151, 0.9873),
        "vllm/qwen38-27b-int6-mixed": (0.00099, 0.9894),
    }
    assert len({quality.group for quality in rated.values()}) == 1


def test_the_tiny_model_lies_beside_its_recipe() -> None:
    source = Path(CATALOG.get("cpu/tiny-qwen3").model_source)
    assert source.is_absolute()
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    assert config["architectures"] == ["Qwen3ForCausalLM"]
    assert config["max_position_embeddings"] == 4096


def test_labels_say_the_width_in_a_few_words() -> None:
    labels = {entry.slug.name: entry.slug.weights.label for entry in CATALOG.entries}
    assert labels["vllm/dual"] == "AutoRound W4"
    assert labels["vllm/qwen-35b-a3b-dual"] == "AutoRound W4 MoE"
    assert labels["vllm/qwen38-27b-int6-mixed"] == "INT5/6/7/8 mixed"
    assert labels["vllm/qwen-27b-dual-max"] == "FP8"
    assert labels["cpu/tiny-qwen3"] == "BF16"
