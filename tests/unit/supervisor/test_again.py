"""Starting again: what of the old values is kept, what a fix changes, and how it is said."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from test_boot_history import record

from cockpit.catalog.slug import Slug, Weights
from cockpit.launch.types import LaunchPlan
from cockpit.supervisor.again import Change, chosen_of, command_changes, fix_words, usable_fix, with_env
from cockpit.supervisor.boot_state import BootDraft
from cockpit.supervisor.diagnose.types import Diagnosis, Fix

SLUG = Slug(name="vllm/dual", model="A", weights=Weights(format="bf16", repo="o/n"), max_model_len=262_144)
WORDS = Fix(text="Free some memory.")


def diagnosis(*fixes: Fix) -> Diagnosis:
    return Diagnosis(
        healthy=False,
        ready=False,
        vllm_version=None,
        symptom=None,
        first_exception=None,
        place=None,
        explanation=None,
        fixes=fixes,
        notes=(),
        boot=BootDraft().snapshot(None),
    )


def plan(argv: tuple[str, ...], env: dict[str, str | None] | None = None) -> LaunchPlan:
    return LaunchPlan(
        slug="vllm/dual",
        model="o/n",
        served_model_name="dual",
        argv=argv,
        env=env or {},
        cwd="/",
        host="127.0.0.1",
        port=8000,
        gpus=(0, 1),
        platform="cuda",
        engine="e",
        values={},
        findings=(),
    )


def test_the_first_fix_that_can_be_set_counts() -> None:
    sets = Fix(text="Shorter.", set={"max_model_len": 188_416})
    assert usable_fix(diagnosis(WORDS, sets), "cuda") == sets
    assert usable_fix(diagnosis(WORDS), "cuda") is None
    assert usable_fix(diagnosis(Fix(text="?", set={"no_such_toggle": 1})), "cuda") is None
    assert usable_fix(None, "cuda") is None


def test_the_cpu_build_is_not_started_again_with_what_only_a_gpu_has() -> None:
    share, shorter = (
        Fix(text="More.", set={"gpu_memory_utilization": 0.95}),
        Fix(text="Less.", set={"max_model_len": 64}),
    )
    assert usable_fix(diagnosis(share, shorter), "cpu") == shorter
    assert usable_fix(diagnosis(share, shorter), "cuda") == share
    assert usable_fix(diagnosis(share), "cpu") is None


def test_what_only_fills_the_log_is_no_fix_to_start_again_with() -> None:
    logged, sets = (
        Fix(text="A fuller log.", env={"VLLM_LOGGING_LEVEL": "DEBUG"}, aid=True),
        Fix(text="x", env={"A": "1"}),
    )
    assert usable_fix(diagnosis(logged), "cuda") is None
    assert usable_fix(diagnosis(logged, sets), "cuda") == sets


@pytest.mark.parametrize(
    ("fix", "words"),
    [
        (Fix(text="", set={"max_model_len": 188_416}), "--max-model-len 188416"),
        (Fix(text="", env={"NCCL_P2P_DISABLE": "1"}), "NCCL_P2P_DISABLE=1"),
        (Fix(text="", env={"VLLM_USE_V1": None}), "without VLLM_USE_V1"),
        (Fix(text="", set={"max_num_seqs": 8}, env={"A": "b"}), "--max-num-seqs 8 A=b"),
        (Fix(text="", set={"kv_cache_dtype": "auto"}), "KV cache auto"),
        (Fix(text="", set={"prefix_caching": "off"}), "--no-enable-prefix-caching"),
    ],
)
def test_a_fix_is_said_as_flags_and_variables(fix: Fix, words: str) -> None:
    assert fix_words(fix, SLUG) == words


def test_the_values_of_a_record_that_differ_from_the_slug_are_kept() -> None:
    values: dict[str, Any] = {"max_model_len": 4096, "gpus": [0], "tensor_parallel": 1, "port": 9, "host": "0.0.0.0"}
    assert chosen_of(record(1.0, values=values), SLUG) == {"max_model_len": 4096}


def test_what_changes_is_shown_flag_by_flag_without_secrets() -> None:
    old = ("vllm", "serve", "o/n", "--max-model-len", "262144", "--port", "8000", "--enforce-eager")
    new = ("vllm", "serve", "o/n", "--max-model-len", "188416", "--port", "8000", "--gpus=-1")
    before = record(1.0, argv=old, env={"HF_TOKEN": "<redacted>", "OLD": "1", "KEPT": "x"})
    after = plan(new, {"HF_TOKEN": "s3cret", "KEPT": "x", "NCCL_P2P_DISABLE": "1"})
    assert command_changes(before, after) == (
        Change("--max-model-len 262144", "--max-model-len 188416"),
        Change("--enforce-eager", None),
        Change(None, "--gpus=-1"),
        Change("OLD=1", None),
        Change(None, "NCCL_P2P_DISABLE=1"),
    )


def test_variables_of_a_fix_are_kept_for_the_start_after_it() -> None:
    fixed = with_env(plan(("vllm",), {"A": "1"}), {"B": "2", "GONE": None, "SAME": "x"}, {"SAME": "x", "GONE": "y"})
    assert fixed.env == {"A": "1", "B": "2", "GONE": None}
    assert fixed.extra_env == {"B": "2", "GONE": None, "SAME": "x"}
    assert with_env(plan(("vllm",)), {}, {}) == plan(("vllm",))
    assert msgspec.structs.replace(fixed, extra_env={}).env == fixed.env
