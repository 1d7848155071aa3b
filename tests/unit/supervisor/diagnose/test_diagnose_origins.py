"""What no row of the table knows: the first true exception, where it was raised, and a next step by its origin."""

from __future__ import annotations

import pytest

from cockpit.supervisor.diagnose.files import diagnose_lines
from cockpit.supervisor.diagnose.incidents import module_path
from cockpit.supervisor.diagnose.types import Diagnosis

PACKAGES = "/v/lib/python3.12/site-packages/"
HEAD = "(APIServer pid=1) INFO 06-02 10:00:00 [utils.py:299] non-default args: {'model_tag': 'a/b'}"
ENGINE = "(EngineCore pid=2) ERROR 06-02 10:02:00 [core.py:1510] "
WRAPPER = (
    "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': 1}"
)


def death(*frames: str, error: str, root: str = PACKAGES) -> Diagnosis:
    """A boot that an exception ended, with the wrappers, as vLLM 0.2x and 0.3x write it."""
    lines = [HEAD, f"{ENGINE}EngineCore failed to start.", f"{ENGINE}Traceback (most recent call last):"]
    for frame in ("vllm/v1/engine/core.py:run_engine_core", "vllm/v1/worker/gpu_worker.py:load_model", *frames):
        module, _, function = frame.partition(":")
        lines += [f'{ENGINE}  File "{root}{module}", line 10, in {function}', f"{ENGINE}    return call()"]
    lines += [f"{ENGINE}{error}", "(EngineCore pid=2) Process EngineCore:"]
    lines += [
        "(APIServer pid=1) Traceback (most recent call last):",
        f'(APIServer pid=1)   File "{root}vllm/v1/engine/utils.py", line 1031, in wait_for_engine_startup',
        f"(APIServer pid=1) {WRAPPER}",
        "[rank0]:[W602 10:02:01.1 ProcessGroupNCCL.cpp:1496] Warning: destroy_process_group() was not called "
        "before program exit, which can leak resources.",
        "/usr/lib/python3.12/multiprocessing/resource_tracker.py:254: UserWarning: resource_tracker: There appear to "
        "be 1 leaked shared_memory objects to clean up at shutdown",
    ]
    return diagnose_lines(lines)


@pytest.mark.parametrize(
    ("frame", "error", "symptom", "says"),
    [
        (
            "vllm/model_executor/layers/quantization/new.py:check",
            "ValueError: odd bits",
            "quantization-failed",
            "odd",
        ),
        ("vllm/v1/attention/backends/new.py:build", "RuntimeError: odd heads", "attention-failed", "odd heads"),
        ("vllm/v1/attention/backends/new.py:build", "TypeError: 'x' is no int", "vllm-fault", "attention code"),
        ("vllm/model_executor/layers/fused_moe/new.py:run", "ValueError: 3 odd experts", "experts-failed", "3 odd"),
        (
            "vllm/model_executor/models/new.py:load_weights",
            "ValueError: no such tensor",
            "checkpoint-mismatch",
            "no such",
        ),
        ("vllm/model_executor/model_loader/new.py:go", "ValueError: odd format", "weights-failed", "odd format"),
        ("vllm/v1/spec_decode/new.py:propose", "ValueError: odd tokens", "draft-failed", "odd tokens"),
        ("vllm/lora/new.py:add", "ValueError: odd rank", "lora-failed", "odd rank"),
        ("vllm/multimodal/new.py:plan", "ValueError: odd image", "vision-failed", "odd image"),
        ("transformers/models/new.py:__init__", "ValueError: odd config", "model-files-failed", "odd config"),
        (
            "vllm/distributed/parallel_state.py:go",
            "AssertionError: the world has three ranks",
            "ranks-failed",
            "three",
        ),
        ("vllm/distributed/kv_transfer/new.py:go", "ValueError: no peer", "kv-connector-failed", "no peer"),
        (
            "vllm/v1/core/kv_cache_utils.py:get",
            "AssertionError: two groups of one size",
            "kv-layout-failed",
            "two groups",
        ),
        ("triton/runtime/new.py:run", "RuntimeError: odd block", "kernel-failed", "odd block"),
        ("torch/_inductor/new.py:run", "RuntimeError: odd node", "compile-failed", "odd node"),
        ("huggingface_hub/new.py:get", "HfHubHTTPError: 418", "hub-failed", "418"),
        ("ray/new.py:init", "ValueError: odd ray", "ray-failed", "odd ray"),
        ("vllm/v1/structured_output/new.py:go", "ValueError: odd grammar", "parser-failed", "odd grammar"),
        ("vllm/engine/arg_utils.py:check", "ValueError: odd flag", "config-refused", "odd flag"),
        ("vllm/model_executor/models/new.py:forward", "ValueError: odd patch", "vllm-fault", "model's class"),
        ("vllm/v1/worker/new.py:go", "RuntimeError: odd step", "vllm-fault", "odd step"),
        ("torch/nn/new.py:go", "RuntimeError: odd shape", "vllm-fault", "odd shape"),
        ("elsewhere/new.py:go", "RuntimeError: odd", "vllm-fault", "odd"),
    ],
)
@pytest.mark.parametrize("root", [PACKAGES, "/usr/local/lib/python3.12/dist-packages/"])
def test_an_unknown_death_is_told_by_its_origin(frame: str, error: str, symptom: str, says: str, root: str) -> None:
    diagnosis = death(frame, error=error, root=root)
    module, _, function = frame.partition(":")
    assert (diagnosis.first_exception, diagnosis.place) == (error, f"{module.rpartition('/')[2]}:{function}")
    assert diagnosis.symptom == symptom
    assert diagnosis.explanation is not None and says in diagnosis.explanation
    assert diagnosis.explanation.endswith(".") and diagnosis.fixes


def test_frames_that_lie_on_every_way_do_not_hide_the_layer() -> None:
    diagnosis = death(
        "vllm/compilation/decorators.py:__call__",
        "vllm/v1/attention/backends/new.py:forward",
        "torch/nn/modules/module.py:_call_impl",
        "torch/_ops.py:__call__",
        error="RuntimeError: odd stride",
    )
    assert (diagnosis.symptom, diagnosis.place) == ("attention-failed", "_ops.py:__call__")


def test_an_exception_of_no_known_origin_has_a_next_step() -> None:
    diagnosis = diagnose_lines(['  File "/x/odd.py", line 7, in check', "ValueError: never seen"])
    assert (diagnosis.symptom, diagnosis.explanation, diagnosis.place) == (None, None, "odd.py:check")
    assert diagnosis.fixes and not any(fix.set or fix.env for fix in diagnosis.fixes)


def test_a_validator_is_placed_where_vllm_called_it() -> None:
    lines = [
        HEAD,
        "(APIServer pid=1) Traceback (most recent call last):",
        f'(APIServer pid=1)   File "{PACKAGES}vllm/engine/arg_utils.py", line 9, in create_model_config',
        f'(APIServer pid=1)   File "{PACKAGES}pydantic/_internal/_dataclasses.py", line 1, in __init__',
        "(APIServer pid=1) pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig",
        "(APIServer pid=1)   Value error, a new reason [type=value_error, input_value=ArgsKwargs(()), input_type=x]",
    ]
    diagnosis = diagnose_lines(lines)
    assert (diagnosis.symptom, diagnosis.place) == ("config-refused", "arg_utils.py:create_model_config")


@pytest.mark.parametrize(
    ("path", "module"),
    [
        ("/opt/vllm/lib/python3.12/site-packages/vllm/v1/engine/core.py", "vllm/v1/engine/core.py"),
        ("/usr/local/lib/python3.12/dist-packages/torch/_ops.py", "torch/_ops.py"),
        ("/workspace/vllm/vllm/v1/worker/gpu_worker.py", "vllm/v1/worker/gpu_worker.py"),
        ("/usr/lib/python3.12/multiprocessing/process.py", "multiprocessing/process.py"),
        ("C:\\venv\\Lib\\site-packages\\vllm\\envs.py", "vllm/envs.py"),
        ("/x/odd.py", "x/odd.py"),
        ("odd.py", "odd.py"),
    ],
)
def test_a_file_is_known_by_its_package(path: str, module: str) -> None:
    assert module_path(path) == module
