"""What an exception that no row knows names of the command, and how its words are given."""

from __future__ import annotations

import pytest

from cockpit.supervisor.diagnose.files import diagnose_lines
from cockpit.supervisor.diagnose.types import Diagnosis

PACKAGES = "/usr/local/lib/python3.12/dist-packages/"
ENGINE = "(EngineCore pid=2) ERROR 06-02 10:02:00 [core.py:1510] "


def death(error: str, arguments: str = "", at: str = "vllm/v1/worker/odd.py", version: str = "0.32.0") -> Diagnosis:
    """A boot that one exception ended, with flags as vLLM prints them."""
    return diagnose_lines(
        [
            f"(APIServer pid=1) INFO 06-02 10:00:00 [utils.py:300] version {version}",
            f"(APIServer pid=1) INFO 06-02 10:00:00 [utils.py:299] non-default args: {{'model': 'a/b'{arguments}}}",
            f"{ENGINE}EngineCore failed to start.",
            f"{ENGINE}Traceback (most recent call last):",
            f'{ENGINE}  File "{PACKAGES}{at}", line 10, in check',
            f"{ENGINE}    raise ValueError(",
            *(f"{ENGINE}{line}" for line in error.split("\n")),
        ]
    )


def texts(diagnosis: Diagnosis) -> list[str]:
    return [fix.text for fix in diagnosis.fixes]


@pytest.mark.parametrize(
    ("error", "arguments", "flag"),
    [
        ("ValueError: --odd-size must be even", "'odd_size': 7", "--odd-size"),
        ("ValueError: odd_size and other.odd_size exclude each other", "'odd_size': 7", "--odd-size"),
        ("NotImplementedError: FlexAttention does not do this yet", "'attention_backend': 'FLEX_ATTENTION'", "--att"),
        ("NotImplementedError: HPC attention only does four heads", "'attention_backend': 'HPC_ATTN'", "--att"),
        ("ValueError: the b12x experts are not for this card here", "'moe_backend': 'b12x'", "--moe-backend"),
    ],
)
def test_a_flag_that_it_names_is_to_be_left_out_where_it_was_given(error: str, arguments: str, flag: str) -> None:
    said = [text for text in texts(death(error, f", {arguments}")) if text.startswith(f"Leave {flag}")]
    assert len(said) == 1
    assert not any(text.startswith(f"Leave {flag}") for text in texts(death(error)))


def test_a_key_of_a_flags_json_that_it_names_is_told_with_its_flag() -> None:
    error = "ValueError: odd_size and max_model_len are odd here"
    said = texts(death(error, ", 'speculative_config': {'method': 'mtp', 'odd_size': 3}"))
    assert "Leave odd_size of --speculative-config out, or give it another value: the message names it." in said
    assert not any("--odd-size" in text for text in said)


def test_a_server_keeps_the_flags_that_it_does_not_do_without() -> None:
    error = "ValueError: tensor_parallel_size and model and max_model_len are odd here"
    said = texts(death(error, ", 'tensor_parallel_size': 2, 'max_model_len': 4096"))
    assert not any(text.startswith("Leave --") for text in said)


def test_a_setting_is_undone_by_its_toggle() -> None:
    fixes = death("ValueError: kv_cache_dtype is odd for this one", ", 'kv_cache_dtype': 'fp8'").fixes
    assert {"kv_cache_dtype": "auto"} in [fix.set for fix in fixes]
    fixes = death("ValueError: enforce_eager is odd for this one", ", 'enforce_eager': True").fixes
    assert {"enforce_eager": "off"} in [fix.set for fix in fixes]


@pytest.mark.parametrize("error", ["ValueError: the odd one is off here", "RuntimeError: odd. Use the even one now."])
def test_a_refusal_is_told_before_a_version_that_is_no_release(error: str) -> None:
    assert death(error, version="0.30.1.dev3+g12").symptom == "vllm-fault"
    assert death("RuntimeError: odd", version="0.30.1.dev3+g12").symptom == "nightly-regression"


def test_a_fault_is_told_with_its_words() -> None:
    assert "(odd 4x4)" in (death("AssertionError: odd 4x4").explanation or "")
    assert "()" not in (death("AssertionError").explanation or "")


def test_a_kv_type_that_it_speaks_of_is_left_to_the_model_where_it_was_chosen() -> None:
    error = "ValueError: Only some odd scaling factor for fp8 KV cache"
    assert {"kv_cache_dtype": "auto"} in [fix.set for fix in death(error, ", 'kv_cache_dtype': 'fp8'").fixes]
    assert not any(fix.set for fix in death(error).fixes)


def test_weights_that_were_to_lie_in_memory_do_so_with_the_older_runner() -> None:
    error = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 96.00 MiB."
    at = "vllm/model_executor/model_loader/base_loader.py"
    fixes = death(error, ", 'cpu_offload_gb': 12", at=at, version="0.26.0").fixes
    assert {"VLLM_USE_V2_MODEL_RUNNER": "0"} in [fix.env for fix in fixes]
    assert not any(fix.env for fix in death(error, at=at, version="0.26.0").fixes)


def test_the_experts_of_one_gpu_are_not_split_over_fewer() -> None:
    at = "vllm/model_executor/layers/fused_moe/fused_moe.py"
    error = "AssertionError: intermediate_size must be divisible by 128 here"
    alone = death(error, at=at)
    assert alone.symptom == "kernel-divides" and not any(fix.set for fix in alone.fixes)
    four = death(
        "AssertionError: intermediate_size must be divisible by 128 here", ", 'tensor_parallel_size': 4", at=at
    )
    assert four.fixes[0].set == {"tensor_parallel": 2}


def test_an_encoder_that_a_kernel_refuses_may_have_another_kernel() -> None:
    lines = [
        f"{ENGINE}EngineCore failed to start.",
        f"{ENGINE}Traceback (most recent call last):",
        f'{ENGINE}  File "{PACKAGES}vllm/model_executor/layers/attention/mm_encoder_attention.py", line 1, in run',
        f'{ENGINE}  File "{PACKAGES}vllm/vllm_flash_attn/flash_attn_interface.py", line 1, in call',
        f"{ENGINE}RuntimeError: an odd tensor must be on CUDA",
    ]
    diagnosis = diagnose_lines(lines)
    assert diagnosis.symptom == "kernel-failed" and "TORCH_SDPA" in diagnosis.fixes[3].text
    assert not any("Delete what it compiled" in fix.text for fix in diagnosis.fixes)


def test_a_budget_beside_other_weights_fits_into_what_is_free() -> None:
    error = (
        "ValueError: Free memory on device cuda:0 (9.21/23.55 GiB) on startup is less than the engine's budget after "
        "excluding external process's weights (0.92, 13.4 GiB)."
    )
    assert death(error).fixes[0].set == {"gpu_memory_utilization": 0.73}


def test_a_variable_that_it_blames_is_to_be_removed() -> None:
    at = "vllm/model_executor/layers/quantization/odd.py"
    fixes = death("NotImplementedError: VLLM_ODD_BACKEND=w4a8 requires sizes that are even", at=at).fixes
    assert fixes[0].env == {"VLLM_ODD_BACKEND": None}
    asked_for = death("NotImplementedError: the odd one is off, set VLLM_ODD_BACKEND to use it", at=at).fixes
    assert not any(fix.env for fix in asked_for)


def test_an_attention_that_vllm_chose_may_be_another() -> None:
    at = "vllm/v1/attention/backends/odd.py"
    error = "NotImplementedError: the odd one has no soft cap"
    assert any("--attention-backend" in text for text in texts(death(error, at=at)))
    chosen = texts(death(error, ", 'attention_backend': 'FLASHINFER'", at=at))
    assert not any("chose by itself" in text for text in chosen) and any("Leave --att" in text for text in chosen)
