"""What a list says of a slug's fit, and which of several quantizations comes first."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cockpit import paths
from cockpit.catalog.load import Catalog, load
from cockpit.catalog.quality import quality_bits, quality_key, quality_text
from cockpit.catalog.slug import Quality, Slug
from cockpit.launch.best import Candidate, judged, ranked
from cockpit.launch.plan import Facts
from cockpit.launch.slug_fit import SlugFit, fit_sentence, fit_text, rig_text
from cockpit.planner.declared import declared_checkpoint
from cockpit.planner.forecast_types import Forecast
from cockpit.planner.types import KvForecast
from cockpit.rig.described import load_rig
from cockpit.units import GIB


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load(paths.shipped("slugs"))


def pool(capacity: int, at_once: float, fits: bool = True) -> KvForecast:
    return KvForecast(
        block_size_tokens=16,
        bytes_per_block=1,
        blocks=1,
        blocks_per_request=1,
        capacity_tokens=capacity,
        max_concurrency=at_once,
        fits=fits,
        bytes_needed=1,
    )


def fit_of(fits: str, **changes: Any) -> SlugFit:
    forecast = Forecast(fits=fits, **changes)  # type: ignore[arg-type]
    return SlugFit(fits=forecast.fits, reason=forecast.reason, forecast=forecast)


CASES = [
    (fit_of("yes", kv=pool(623_873, 2.38), headroom_tokens=361_729), "2.38x +361,729", "fits: 623,873 tokens"),
    (fit_of("yes", kv=pool(2_097_152, 1024.0), headroom_tokens=2_095_104), "1,024x +2,095,104", "fits: 2,097,152"),
    (fit_of("tight", kv=pool(263_672, 1.01), headroom_tokens=1528, reason="close"), "tight +1,528", "tight: 263,672"),
    (
        fit_of("tight", kv=pool(25_486, 0.78, False), headroom_tokens=-7282, error_bytes=1, reason="close"),
        "tight -7,282 ±25,486",
        "tight: 25,486 tokens of KV pool, 0.78 requests at full context, close",
    ),
    (
        fit_of("tight", kv=pool(25_486, 0.1, False), headroom_tokens=-1_007_282, error_bytes=2_000_000),
        "tight -1,007,282",
        "tight: 25,486",
    ),
    (fit_of("tight", headroom_tokens=-7282, reason="close"), "tight -7,282", "tight: close"),
    (
        fit_of("no", missing_bytes=round(3.1 * GIB), reason="too big"),
        "no: needs 3.1 GiB more",
        "does not fit: too big",
    ),
    (fit_of("no", missing_bytes=round(13.1 * GIB), reason="too big"), "needs 13.1 GiB more", "does not fit: too big"),
    (fit_of("no", reason="others hold it"), "no: memory in use", "does not fit: others hold it"),
    (fit_of("unknown", reason="its size is not declared"), "?", "its size is not declared"),
]


@pytest.mark.parametrize(("fit", "text", "sentence"), CASES)
def test_a_fit_in_a_word_and_in_a_sentence(fit: SlugFit, text: str, sentence: str) -> None:
    assert fit_text(fit) == text and len(text) <= 22
    assert fit_sentence(fit).startswith(sentence) and not fit_sentence(fit).endswith(".")


@pytest.mark.parametrize(
    ("fit", "text"),
    [
        (fit_of("no", missing_bytes=round(3.1 * GIB)), "needs 3.1 GiB more"),
        (fit_of("no", missing_bytes=round(113.1 * GIB)), "needs 113.1 GiB more"),
        (fit_of("no"), "no: memory in use"),
        (
            fit_of("tight", kv=pool(25_486, 0.1, False), headroom_tokens=-107_282, error_bytes=2_000_000),
            "tight -107,282",
        ),
    ],
)
def test_a_fit_in_less_room_leaves_whole_words_out(fit: SlugFit, text: str) -> None:
    assert fit_text(fit, 20) == text and len(text) <= 20


def test_what_would_fit_is_said_where_the_context_does_not() -> None:
    fit = fit_of(
        "no", missing_bytes=GIB, reason="too long", largest_max_model_len=131_072, kv=pool(131_072, 0.5, False)
    )
    assert fit_sentence(fit) == "does not fit: too long; 131,072 tokens would fit"


def facts_for(slug_name: str, rig: str, catalog: Catalog) -> Facts:
    """The facts of a described rig, with the checkpoint that the slug declares."""
    entry = catalog.get(slug_name)
    declared = declared_checkpoint(entry.slug.weights, entry.architecture_file)
    return Facts(rig=load_rig(rig), declared=declared, engine=None, environ={}, free_port=8000, cwd="/")


def judge(slug_name: str, rig: str, catalog: Catalog, length: int = 262_144) -> Candidate:
    return judged(catalog.get(slug_name).slug, length, facts_for(slug_name, rig, catalog))


FAMILY = ("int6-mixed", "int6-flat", "int5-flat", "dual-fast", "dual-max", "multi4-fast", "multi8-fast")


def family(rig: str, catalog: Catalog, length: int = 262_144) -> list[Candidate]:
    return list(ranked(judge(f"vllm/qwen38-27b-{name}", rig, catalog, length) for name in FAMILY))


def test_int6_mixed_is_the_best_27b_on_two_24_gb_cards_at_full_context(catalog: Catalog) -> None:
    found = family("2x3090", catalog)
    assert [one.slug.short_name for one in found[:3]] == [
        "qwen38-27b-int6-mixed",
        "qwen38-27b-int6-flat",
        "qwen38-27b-int5-flat",
    ]
    assert found[0].state == "fits" and found[0].set == {}
    eight_bit = next(one for one in found if one.slug.short_name == "qwen38-27b-dual-max")
    assert eight_bit.state == "fits-small-kv"
    assert "only with its fp8_e4m3 KV cache" in eight_bit.why and "GiB more a GPU" in eight_bit.why
    assert {one.slug.tensor_parallel for one in found if one.state == "out"} == {4, 8}
    assert all("this rig has 2" in one.why for one in found if one.state == "out")


def test_with_room_the_8_bit_weights_come_first(catalog: Catalog) -> None:
    first = family("4x3090", catalog, 32_768)[0]
    assert first.slug.short_name == "qwen38-27b-dual-max" and first.state == "fits"
    assert first.set == {"kv_cache_dtype": "auto"}, "its figures are those of a 16-bit KV cache"
    assert first.declared.forecast.kv is not None and first.fit.forecast.kv is not None
    assert first.declared.forecast.kv.capacity_tokens > first.fit.forecast.kv.capacity_tokens


def test_on_one_card_nothing_of_it_fits_and_each_says_why(catalog: Catalog) -> None:
    found = family("1x3090", catalog)
    assert all(one.state == "out" and one.why for one in found)
    assert fit_text(found[0].declared) == "needs 2 GPUs"


def test_a_context_beyond_the_models_own_is_out_with_the_rules_words(catalog: Catalog) -> None:
    one = judge("vllm/qwen38-27b-int5-flat", "4x3090", catalog, 300_000)
    assert one.state == "out" and "longer than the model's own" in one.why


def test_without_a_known_size_there_is_no_verdict(catalog: Catalog) -> None:
    slug = catalog.get("vllm/dual").slug
    bare = Facts(rig=load_rig("2x3090"), engine=None, environ={}, free_port=8000, cwd="/")
    one = judged(slug, 262_144, bare)
    assert one.state == "uncertain" and one.why and fit_text(one.declared) == "?"


def slug_of(name: str, quality: Quality | None = None, **weights: Any) -> Slug:
    fields = {"format": "gptq", "repo": "a/b", **weights}
    body = {"name": f"x/{name}", "model": "M", "max_model_len": 1024, "weights": fields}
    return msgspec.structs.replace(msgspec.convert(body, Slug), quality=quality)


def test_quality_is_by_class_then_figures_then_bits() -> None:
    slugs = [
        slug_of("four", bits=4),
        slug_of("plain", format="bf16"),
        slug_of("five", bits=5),
        slug_of("six", Quality(kld=0.001, top1_fraction=0.98), bits=6),
        slug_of("six-worse", Quality(kld=0.002, top1_fraction=0.99), bits=6),
        slug_of("top1-only", Quality(top1_fraction=0.97), bits=4),
        slug_of("eight", format="fp8"),
    ]
    order = [slug.short_name for slug in sorted(slugs, key=quality_key)]
    assert order == ["plain", "eight", "six", "six-worse", "top1-only", "five", "four"]


def test_bits_are_the_best_that_the_slug_says() -> None:
    assert quality_bits(slug_of("a", widths=[5, 6, 7, 8], bits_per_weight=7.3).weights) == 7.3
    assert quality_bits(slug_of("a", widths=[4, 8]).weights) == 6
    assert quality_bits(slug_of("a", format="nvfp4").weights) == 4.5
    assert quality_bits(slug_of("a").weights) == 0


def test_figures_as_text() -> None:
    assert quality_text(slug_of("a", Quality(kld=0.00099, top1_fraction=0.9894))) == "KLD 0.00099 · Top-1 98.94 %"
    assert quality_text(slug_of("a")) == ""


def test_a_rig_in_words() -> None:
    assert rig_text(load_rig("2x3090")) == "2x RTX 3090 24 GiB"
