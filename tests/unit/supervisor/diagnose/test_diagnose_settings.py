"""A fix never advises what was already so, whatever the symptom."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from cockpit.supervisor.boot_state import BootFacts, BootState
from cockpit.supervisor.diagnose.arguments import Arguments
from cockpit.supervisor.diagnose.derived import SYMPTOMS as DERIVED
from cockpit.supervisor.diagnose.files import diagnose_lines
from cockpit.supervisor.diagnose.settings import offered
from cockpit.supervisor.diagnose.table import SYMPTOMS
from cockpit.supervisor.diagnose.types import End, Evidence, Fix, Incident, Symptom

ROWS = [*SYMPTOMS, *(row for row in DERIVED if row.id != "kv-pool-cold-start")]
BOOT = BootState(
    stages=(),
    current="config",
    facts=BootFacts(vllm_version="0.32.0", max_model_len=32768, architecture="Qwen3VLForConditionalGeneration"),
    ready=False,
    first_exception=None,
)
GROUPS = {
    "most": "4096",
    "free": "20.1",
    "total": "24.0",
    "share": "0.95",
    "derived": "8192",
    "wanted": "9000",
    "blocks": "95",
    "there": "1",
    "heads": "6",
    "ranks": "4",
    "tokens": "100",
    "experts": "64",
    "estimated": "5000",
    "name": "VLLM_FOO",
}
START: dict[str, Any] = {
    "gpu_memory_utilization": 0.92,
    "max_num_seqs": 256,
    "max_model_len": 32768,
    "tensor_parallel_size": 4,
    "kv_cache_dtype": "int8_per_token_head",
    "speculative_tokens": 3,
    "vision": "on",
    "int8": "on",
    "enforce_eager": False,
    "port": 8000,
}


def evidence(arguments: dict[str, Any]) -> Evidence:
    boot = msgspec.structs.replace(
        BOOT, facts=msgspec.structs.replace(BOOT.facts, max_model_len=arguments["max_model_len"])
    )
    return Evidence(
        incident=Incident(text="ValueError: x", order=1),
        groups=GROUPS,
        arguments=Arguments(arguments),
        boot=boot,
        counts={},
        has_head=True,
    )


def applied(fix: Fix, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a server that was started with the fix."""
    values = dict(fix.set)
    if "tensor_parallel" in values:
        values["tensor_parallel_size"] = values.pop("tensor_parallel")
    if "enforce_eager" in values:
        values["enforce_eager"] = values["enforce_eager"] == "on"
    return {**arguments, **values, "environment": {**arguments.get("environment", {}), **fix.env}}


@pytest.mark.parametrize("row", ROWS, ids=[f"{n}-{row.id}" for n, row in enumerate(ROWS)])
def test_a_fix_that_was_applied_is_not_offered_again(row: Symptom) -> None:
    for fix in offered(row, evidence(START)):
        if fix.set or fix.env:
            again = offered(row, evidence(applied(fix, START)))
            assert (fix.set, fix.env) not in [(one.set, one.env) for one in again]


@pytest.mark.parametrize("row", ROWS, ids=[f"{n}-{row.id}" for n, row in enumerate(ROWS)])
def test_a_flag_that_is_not_there_is_not_to_be_left_out_and_one_that_is_not_to_be_added(row: Symptom) -> None:
    for fix in row.fixes(evidence(START)):
        leave, add = (re.search(rf"{verb} --([\w-]+)", fix.text) for verb in ("[Ll]eave", "[Aa]dd"))
        assert leave is None or leave[1].replace("-", "_") == fix.drops, fix
        assert add is None or fix.adds, fix
        if fix.drops:
            assert fix not in offered(row, evidence(START))
            assert fix in offered(row, evidence({**START, fix.drops: "x"}))
        if fix.adds:
            name, _, value = fix.adds.partition("=")
            assert fix not in offered(row, evidence({**START, name: value or True}))


@pytest.mark.parametrize(
    ("log", "known", "name"),
    [
        ("torch._inductor.exc.InductorError: x", {"enforce_eager": True}, "enforce_eager"),
        ("torch._inductor.exc.InductorError: x", {"environment": {"VLLM_DISABLE_COMPILE_CACHE": "1"}}, None),
        ("ValueError: Selected backend X is not valid for this configuration. Reason: ['a']", {}, "kv_cache_dtype"),
        ("RuntimeError: NCCL error: unhandled cuda error", {"environment": {"NCCL_P2P_DISABLE": "1"}}, None),
    ],
)
def test_what_a_log_or_a_record_tells_is_not_advised(log: str, known: dict[str, Any], name: str | None) -> None:
    head = "(APIServer pid=1) INFO 06-02 10:00:00 [utils.py:299] non-default args: {'model_tag': 'a/b'}"
    diagnosis = diagnose_lines([head, log], End(arguments=known))
    assert diagnosis.fixes
    for fix in diagnosis.fixes:
        assert name not in fix.set
        assert not known.get("environment", {}).items() & fix.env.items()


def test_the_variables_of_a_command_in_a_report_count() -> None:
    command = "NCCL_P2P_DISABLE=1 vllm serve a/b --tensor-parallel-size 2"
    error = "RuntimeError: NCCL error: unhandled cuda error"
    assert any(fix.env for fix in diagnose_lines([error]).fixes)
    assert not any(fix.env for fix in diagnose_lines([command, error]).fixes)


def test_a_change_of_versions_is_said_of_what_a_version_can_be_to_blame_for() -> None:
    known = End(arguments={"earlier_version": "0.32.0", "engine_version": "0.33.0"})
    graphs = diagnose_lines(["torch._inductor.exc.InductorError: x"], known)
    assert graphs.symptom == "compile-failed" and any("0.32.0" in note for note in graphs.notes)
    port = diagnose_lines(["OSError: [Errno 98] Address already in use"], known)
    assert port.symptom == "port-in-use" and not port.notes
    never_seen = diagnose_lines(["ValueError: never seen"], known)
    assert never_seen.symptom == "nightly-regression" and not never_seen.notes


@pytest.mark.parametrize(
    ("log", "meant"),
    [
        ("KeyError: 'invalid tool call parser: qwen3_code (chose from { hermes,qwen3_coder,x })'", "qwen3_coder"),
        (
            "vllm serve: error: argument --dtype: invalid choice: 'bflot16' (choose from 'auto', 'bfloat16')",
            "bfloat16",
        ),
        (
            "ValueError: Unknown quantization method: gptq_marli. Must be one of ['awq', 'gptq_marlin'].",
            "gptq_marlin",
        ),
        (
            "ValueError: Unknown attention backend: 'FLASHINFR'. Valid options are: FLASH_ATTN, FLASHINFER.",
            "FLASHINFER",
        ),
        ("KeyError: \"Reasoning parser 'qwen' not found. Available parsers: deepseek_r1, qwen3\"", "qwen3"),
    ],
)
def test_a_word_that_is_nearly_right_is_named(log: str, meant: str) -> None:
    assert meant in diagnose_lines([log]).fixes[0].text and "mean" in diagnose_lines([log]).fixes[0].text


def test_a_long_message_is_cut_in_the_sentence_and_whole_below_it() -> None:
    words = " ".join(f"choice{number}" for number in range(100))
    frame = '  File "/v/lib/python3.12/site-packages/vllm/v1/worker/x.py", line 9, in go'
    diagnosis = diagnose_lines([frame, f"ValueError: take one of {words}"])
    assert diagnosis.explanation is not None and len(diagnosis.explanation) < 400 and "…" in diagnosis.explanation
    assert "choice99" in (diagnosis.first_exception or "")


def test_the_exception_is_shown_and_not_the_line_that_logged_it_first() -> None:
    lines = [
        "(APIServer pid=7) ERROR 11-30 08:32:54 [repo_utils.py:124] Error retrieving file list: Repo id must be in "
        "the form 'repo_name' or 'namespace/repo_name': '/nope/draft'.",
        "Traceback (most recent call last):",
        '  File "/v/lib/python3.12/site-packages/vllm/engine/arg_utils.py", line 9, in create_speculative_config',
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for SpeculativeConfig",
        "  Value error, Invalid repository ID or local directory specified: '/nope/draft'.",
    ]
    diagnosis = diagnose_lines(lines)
    assert diagnosis.symptom == "model-not-found" and "/nope/draft" in (diagnosis.explanation or "")
    assert (diagnosis.first_exception or "").startswith("ValidationError: SpeculativeConfig: Invalid repository ID")


def test_weights_that_a_load_format_passes_over_are_found_without_it() -> None:
    missing = (
        "(EngineCore pid=2) ERROR 06-02 10:02:00 [core.py:9] RuntimeError: Cannot find any model weights with `/m/a`"
    )
    for given, told in (("'load_format': 'safetensors'", True), ("'seed': 1", False)):
        head = f"(APIServer pid=1) INFO 06-02 10:00:00 [utils.py:299] non-default args: {{'model': '/m/a', {given}}}"
        fixes = [fix.text for fix in diagnose_lines([head, missing]).fixes]
        assert any("--load-format" in text for text in fixes) is told and any("hf download" in text for text in fixes)
