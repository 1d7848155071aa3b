"""The longest context that vLLM takes, by version, scaling and override."""

from __future__ import annotations

from typing import Any

import pytest
from made_checkpoints import checkpoint

from cockpit.catalog.slug import Slug, Weights
from cockpit.checkpoint.scaling import read_scaling
from cockpit.checkpoint.types import RopeScaling
from cockpit.rig.types import Engine, HostFacts, Rig
from cockpit.rules.context import Context
from cockpit.rules.longest import context_length, longest

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}


def context(
    version: str | None = "0.33.0",
    scaling: RopeScaling | None = None,
    flags: dict[str, Any] | None = None,
    length: int = 131_072,
    env: dict[str, str] | None = None,
    inherited: tuple[str, ...] = (),
) -> Context:
    engine = None
    if version is not None:
        engine = Engine(id="e", path="/v", python="/p", package="/e", version=version, platform="cuda")
    return Context(
        slug=Slug(
            name="vllm/a",
            model="A",
            weights=Weights(format="bf16", repo="o/n"),
            max_model_len=4096,
            flags=flags or {},
            env=env or {},
        ),
        checkpoint=checkpoint(rope_scaling=scaling),
        rig=Rig(),
        engine=engine,
        host=HostFacts(inherited=inherited),
        values={"max_model_len": length},
    )


def overrides(**more: Any) -> dict[str, Any]:
    return {"hf-overrides": {"rope_parameters": YARN, **more}}


def scaled(kind: str, factor: float | None = 4.0, original: int | None = 32768) -> RopeScaling:
    return RopeScaling(kind=kind, factor=factor, original=original)


@pytest.mark.parametrize(
    ("ctx", "tokens"),
    [
        (context(), 40_960),
        (context(scaling=scaled("yarn")), 40_960),
        (context("0.28.0", scaled("yarn")), 131_072),
        (context("0.20.0", scaled("deepseek_yarn")), 163_840),
        (context(None, scaled("yarn")), 131_072),
        (context(scaling=scaled("linear", 2.0)), 81_920),
        (context(scaling=scaled("dynamic", 2.0)), 81_920),
        (context(scaling=scaled("llama3", 8.0)), 40_960),
        (context(scaling=scaled("longrope")), 40_960),
        (context(scaling=scaled("ntk-by-parts", None)), None),
        (context("0.28.0", flags=overrides()), 131_072),
        (context(flags=overrides()), 40_960),
        (context(flags=overrides(max_position_embeddings=131_072)), 131_072),
        (context(flags={"hf-overrides": {"text_config": {"max_position_embeddings": 99_999}}}), 99_999),
        (context(flags={"hf-overrides": '{"max_position_embeddings": 99999}'}), 99_999),
        (context("0.28.0", flags={"hf-overrides": {"rope_scaling": {**YARN, "type": "yarn"}}}), 131_072),
        (context(flags={"hf-overrides": "my_module:function"}), None),
        (context(flags={"hf-overrides": {"architectures": ["X"]}}), 40_960),
    ],
)
def test_the_longest_context(ctx: Context, tokens: int | None) -> None:
    assert longest(ctx) == tokens
    blocked = [finding.severity for finding in context_length(ctx)]
    assert blocked == ([] if tokens is None or tokens >= 131_072 else ["block"])


def test_a_yarn_override_of_a_newer_vllm_is_told_what_it_lacks() -> None:
    (finding,) = context_length(context(flags=overrides()))
    assert "max_position_embeddings=131072 in hf-overrides" in finding.fix


@pytest.mark.parametrize(
    ("env", "inherited", "severity"),
    [
        ({"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}, (), "warn"),
        ({"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "0"}, ("VLLM_ALLOW_LONG_MAX_MODEL_LEN",), "block"),
        ({}, ("VLLM_ALLOW_LONG_MAX_MODEL_LEN",), "warn"),
        ({}, (), "block"),
    ],
)
def test_who_allows_any_length_is_only_warned(env: dict[str, str], inherited: tuple[str, ...], severity: str) -> None:
    (finding,) = context_length(context(env=env, inherited=inherited))
    assert finding.severity == severity


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ({"rope_scaling": YARN}, "yarn"),
        ({"rope_scaling": {"type": "linear", "factor": 2}}, "linear"),
        ({"rope_parameters": {"full_attention": {**YARN}, "sliding_attention": {"rope_type": "default"}}}, "yarn"),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}, None),
        ({"rope_scaling": None}, None),
        ({"rope_scaling": {"type": 7, "factor": "x"}}, None),
        ({"rope_scaling": [1, 2]}, None),
        ({}, None),
    ],
)
def test_scalings_of_configs_old_and_new(text: dict[str, Any], kind: str | None) -> None:
    found = read_scaling(text)
    assert (found.kind if found else None) == kind
