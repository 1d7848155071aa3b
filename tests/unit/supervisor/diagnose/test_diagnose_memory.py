"""The part of the server whose allocation failed, and the setting that is its own."""

from __future__ import annotations

import pytest

from cockpit.supervisor.diagnose.files import diagnose_lines
from cockpit.supervisor.diagnose.types import Diagnosis

PACKAGES = "/usr/local/lib/python3.12/dist-packages/"
FULL = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
READY = ["(APIServer pid=1) INFO:     Application startup complete."]
LOADED = [
    "(EngineCore pid=2) INFO 06-02 10:01:00 [gpu_model_runner.py:1] Model loading took 17.20 GiB and 14.1 seconds"
]


def death(*frames: str, arguments: str = "", above: tuple[str, ...] = (), error: str = FULL) -> Diagnosis:
    """A server that an allocation ended, after the lines ``above``."""
    engine = "(EngineCore pid=2) ERROR 06-02 10:02:00 [core.py:1510] "
    head = f"(APIServer pid=1) INFO 06-02 10:00:00 [utils.py:299] non-default args: {{'model': 'a/b'{arguments}}}"
    starts = "(EngineCore pid=2) INFO 06-02 10:00:30 [gpu_model_runner.py:1] Starting to load model a/b..."
    lines = [head, starts, *above, f"{engine}EngineCore encountered a fatal error."]
    lines += [f"{engine}Traceback (most recent call last):"]
    for frame in ("vllm/v1/engine/core.py:run_engine_core", *frames):
        module, _, function = frame.partition(":")
        lines += [f'{engine}  File "{PACKAGES}{module}", line 10, in {function}', f"{engine}    return call()"]
    return diagnose_lines([*lines, f"{engine}{error}"])


@pytest.mark.parametrize(
    ("frames", "above", "symptom"),
    [
        (("vllm/lora/layers/column_parallel_linear.py:create_lora_weights",), LOADED, "lora-oom"),
        (("vllm/model_executor/warmup/kernel_warmup.py:kernel_warmup",), LOADED, "warm-up-oom"),
        (
            ("vllm/model_executor/warmup/kernel_warmup.py:kernel_warmup", "flashinfer/autotuner.py:choose_one"),
            LOADED,
            "warm-up-oom",
        ),
        (
            ("vllm/v1/worker/gpu_model_runner.py:capture_model", "flashinfer/autotuner.py:choose_one"),
            LOADED,
            "cudagraph",
        ),
        (("vllm/v1/worker/gpu_model_runner.py:_execute_mm_encoder",), [*LOADED, *READY], "encoder-oom-runtime"),
        (("vllm/v1/worker/gpu_model_runner.py:_execute_mm_encoder",), LOADED, "profile-oom"),
        (("vllm/distributed/device_communicators/custom_all_reduce.py:__init__",), [], "reclaim-timing"),
        (("vllm/model_executor/layers/quantization/fp8.py:create_weights",), [], "weights-oom"),
    ],
)
def test_memory_is_told_by_the_part_that_asked_for_it(
    frames: tuple[str, ...], above: list[str], symptom: str
) -> None:
    diagnosis = death(*frames, above=tuple(above))
    assert (diagnosis.symptom or "").startswith(symptom)
    assert diagnosis.fixes


def test_weights_that_are_made_small_while_they_load_need_their_room_first() -> None:
    at = "vllm/model_executor/layers/quantization/fp8.py:create_weights"
    assert "quantized already" in death(at, arguments=", 'quantization': 'fp8'").fixes[0].text
    assert "quantized already" not in death(at).fixes[0].text


def test_a_pool_in_the_host_s_memory_has_a_size_of_its_own() -> None:
    error = "RuntimeError: [enforce fail at alloc_cpu.cpp:121] err == 0. DefaultCPUAllocator: can't allocate memory"
    diagnosis = death(
        "vllm/v1/worker/cpu_model_runner.py:_allocate_kv_cache_tensors", above=tuple(LOADED), error=error
    )
    assert diagnosis.symptom == "kv-memory-cpu" and "VLLM_CPU_KVCACHE_SPACE" in diagnosis.fixes[0].env
