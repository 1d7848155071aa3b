"""Compute capability against the installed vLLM's own minimum for a quantization method."""

from __future__ import annotations

import msgspec
import pytest

from cockpit.catalog.slug import Slug, Weights
from cockpit.rig.types import Engine, Gpu, Rig
from cockpit.rules.capability import method_capability
from cockpit.rules.context import Context

ENGINE = Engine(
    id="path",
    path="/v/bin/vllm",
    python="/v/bin/python",
    package="/v/vllm",
    version="0.33.0",
    platform="cuda",
    min_capabilities={"fp8": 75, "modelopt_fp4": 75, "mxfp4": 80, "inc": 60},
)


def context(weights_format: str, capability: tuple[int, int] | None, engine: Engine | None = ENGINE) -> Context:
    weights = Weights(format=weights_format, repo="a/b")  # type: ignore[arg-type]
    gpu = Gpu(index=0, uuid="GPU-0", name="card", capability=capability)
    slug = Slug(name="vllm/x", model="x", weights=weights, max_model_len=2048)
    return Context(slug=slug, rig=Rig(gpus=(gpu,)), engine=engine, values={"gpus": (0,)})


@pytest.mark.parametrize(
    ("weights_format", "capability", "least"),
    [("fp8", (7, 0), "7.5"), ("mxfp4", (7, 5), "8.0"), ("nvfp4", (7, 0), "7.5"), ("auto-round", (5, 2), "6.0")],
)
def test_a_gpu_below_the_minimum_is_named_with_what_is_needed(weights_format, capability, least):
    (finding,) = method_capability(context(weights_format, capability))
    assert (finding.severity, finding.level) == ("block", "rig")
    assert f"need compute capability {least} in vLLM 0.33.0" in finding.message
    assert finding.message.endswith(f"has {capability[0]}.{capability[1]}")


@pytest.mark.parametrize(
    "ctx",
    [
        context("fp8", (7, 5)),
        context("mxfp4", (8, 0)),
        context("bf16", (5, 2)),
        context("fp8", None),
        context("fp8", (7, 0), None),
        context("fp8", (7, 0), msgspec.structs.replace(ENGINE, min_capabilities=None)),
        context("fp8", (7, 0), msgspec.structs.replace(ENGINE, platform="cpu")),
    ],
)
def test_nothing_is_said_of_gpus_that_are_new_enough_or_not_known(ctx):
    assert list(method_capability(ctx)) == []
