"""Findings about the host: each from one fact, and none for a rig that is only described."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.catalog.slug import Slug, Weights
from cockpit.rig.flags import EngineFlags
from cockpit.rig.help_text import Flag
from cockpit.rig.types import Engine, Gpu, HostFacts, Rig
from cockpit.rules.context import Context
from cockpit.rules.finding import Finding
from cockpit.rules.host import flag_findings, host_findings
from cockpit.units import GIB

GPUS = tuple(Gpu(index=index, uuid=f"GPU-{index}", name="RTX 3090", capability=(8, 6)) for index in (0, 1))
ENGINE = Engine(
    id="e", path="/e/vllm", python="/e/python", package="/e", version="0.33.0", platform="cuda", cuda=(13, 0)
)
W4 = Weights(format="auto-round", repo="o/n", bits=4, size_gib=18)
GOOD = {
    "shared_memory_total_bytes": 8 * GIB,
    "shared_memory_free_bytes": 8 * GIB,
    "compiler": "/usr/bin/gcc",
    "token": "HF_TOKEN",
    "model_cache": "/cache",
    "model_cache_free_bytes": 100 * GIB,
}


def found(
    host: dict[str, Any] | None = None,
    slug: dict[str, Any] | None = None,
    rig: dict[str, Any] | None = None,
    values: dict[str, Any] | None = None,
    engine: Engine | None = ENGINE,
) -> list[Finding]:
    """The findings for a plan that nothing stands against, with changes."""
    ctx = Context(
        slug=Slug(**{"name": "vllm/a", "model": "A", "weights": W4, "max_model_len": 4096, **(slug or {})}),
        rig=Rig(**{"gpus": GPUS, "driver_cuda": (13, 0), **(rig or {})}),
        engine=engine,
        host=HostFacts(**{**GOOD, **(host or {})}),
        values={"tensor_parallel": 2, "gpus": (0, 1), "enforce_eager": "off", **(values or {})},
    )
    return list(host_findings(ctx))


def rules(findings: list[Finding]) -> dict[str, str]:
    return {finding.rule: finding.severity for finding in findings}


CPU = {"platform": "cpu"}
WSL = {"wsl": True}
SEGMENTS = "expandable_segments:True"


def test_nothing_stands_against_a_good_host() -> None:
    assert found() == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"host": {"shared_memory_free_bytes": GIB}}, {"shared-memory": "warn"}),
        ({"host": {"shared_memory_free_bytes": 64 << 20}}, {"shared-memory": "block"}),
        ({"host": {"shared_memory_free_bytes": 64 << 20}, "values": {"tensor_parallel": 1}}, {}),
        ({"host": {"shared_memory_free_bytes": None}}, {}),
        ({"host": {"compiler": None}}, {"compiler-missing": "block"}),
        ({"host": {"compiler": None}, "slug": CPU}, {"compiler-missing": "block"}),
        ({"host": {"compiler": None}, "slug": CPU, "values": {"enforce_eager": "on"}}, {}),
        ({"host": {"compiler": None}, "values": {"enforce_eager": "on"}}, {"compiler-missing": "block"}),
        ({"rig": {"driver_cuda": (12, 8)}}, {"driver-cuda": "block"}),
        ({"rig": {"driver_cuda": (12, 8)}, "slug": CPU}, {}),
        ({"rig": {"driver_cuda": None}}, {}),
        ({"rig": WSL}, {"wsl": "note"}),
        ({"rig": WSL, "slug": CPU}, {}),
        ({"rig": WSL, "host": {"expandable_segments": True}}, {"wsl-segments": "block", "wsl": "note"}),
        ({"rig": WSL, "slug": {"env": {"PYTORCH_ALLOC_CONF": SEGMENTS}}}, {"wsl-segments": "block", "wsl": "note"}),
        ({"host": {"expandable_segments": True}}, {}),
        ({"host": {"inherited": ("VLLM_A",)}}, {"inherited-variables": "warn"}),
        ({"host": {"inherited": ("VLLM_A",)}, "slug": {"env": {"VLLM_A": "1"}}}, {}),
        ({"host": {"inherited": ("VLLM_MARLIN_INPUT_DTYPE",)}}, {}),
        ({"host": {"token": None}}, {"no-token": "note"}),
        ({"host": {"token": None, "cached_repos": frozenset({"o/n"})}}, {}),
        ({"host": {"token": None}, "slug": {"weights": Weights(format="bf16", path="/m")}}, {}),
        ({"host": {"offline": True}}, {"download-offline": "block"}),
        ({"host": {"offline": True, "cached_repos": frozenset({"o/n"})}}, {}),
        ({"slug": {"env": {"HF_HUB_OFFLINE": "1"}}}, {"download-offline": "block"}),
        ({"host": {"offline": True}, "slug": {"env": {"HF_HOME": "/else"}}}, {}),
        ({"host": {"offline": True}, "slug": {"flags": {"download-dir": "/else"}}}, {}),
        ({"host": {"model_cache_free_bytes": 10 * GIB}}, {"download-room": "block"}),
        ({"host": {"model_cache_free_bytes": 10 * GIB, "cached_repos": frozenset({"o/n"})}}, {}),
    ],
)
def test_each_fact_has_its_finding(changes: dict[str, Any], expected: dict[str, str]) -> None:
    findings = found(**changes)
    assert rules(findings) == expected
    assert all(finding.fix or finding.severity == "note" for finding in findings)
    assert all(finding.level == "rig" for finding in findings if finding.severity == "block")


def test_missing_headers_are_a_warning() -> None:
    engine = Engine(
        id="e", path="/e", python="/p", package="/v", version="0.33.0", platform="cuda", python_headers=False
    )
    assert rules(found(engine=engine)) == {"python-headers": "warn"}
    assert found(engine=engine, slug=CPU) == []


@given(
    st.fixed_dictionaries(
        {
            "compiler": st.none(),
            "shared_memory_free_bytes": st.integers(0, GIB),
            "inherited": st.just(("VLLM_A",)),
            "token": st.none(),
            "offline": st.booleans(),
            "expandable_segments": st.booleans(),
        }
    )
)
def test_this_host_says_nothing_about_a_described_rig(host: dict[str, Any]) -> None:
    assert found(host=host, rig={"described": "2x3090", "driver_cuda": None}) == []
    assert rules(found(host=host, rig={"described": "2x3090", "driver_cuda": None, "wsl": True})) == {"wsl": "note"}


def test_facts_that_were_not_gathered_raise_nothing() -> None:
    ctx = Context(
        slug=Slug(name="vllm/a", model="A", weights=W4, max_model_len=4096), rig=Rig(), values={"tensor_parallel": 8}
    )
    assert list(host_findings(ctx)) == []


def test_a_flag_that_the_installed_vllm_does_not_know_is_refused_with_the_nearest() -> None:
    known = Flag(names=("--max-num-seqs",), takes_value=True)
    flags = EngineFlags(version="0.33.0", flags={"--max-num-seqs": known})
    argv = ["vllm", "serve", "m", "--max-num-seqs", "2", "--max-num-sequences", "2"]
    (finding,) = flag_findings(argv, flags)
    assert (finding.severity, finding.level, finding.rule) == ("block", "rig", "flag-unknown")
    assert finding.message == "vLLM 0.33.0 does not know --max-num-sequences (nearest: --max-num-seqs)"
    assert list(flag_findings(argv, None)) == []
