"""A refusal that no row of the table knows: what to do is read from its own sentence. The sentences are vLLM's."""

from __future__ import annotations

import time

import pytest

from cockpit.supervisor.diagnose.files import diagnose_lines
from cockpit.supervisor.diagnose.types import Diagnosis

FALLBACK = "Change or leave out what the message names."


def refusal(sentence: str, given: str = "", what: str = "VllmConfig") -> Diagnosis:
    """A boot that the configuration refuses, as vLLM 0.32 writes it."""
    frame = '(APIServer pid=1)   File "/v/lib/python3.12/site-packages/vllm/'
    return diagnose_lines(
        [
            "(APIServer pid=1) INFO 06-02 10:00:00 [api_utils.py:339] version 0.32.0",
            f"(APIServer pid=1) INFO 06-02 10:00:00 [api_utils.py:273] non-default args: {{'model': 'a/b'{given}}}",
            "(APIServer pid=1) Traceback (most recent call last):",
            f'{frame}engine/arg_utils.py", line 2000, in create_engine_config',
            f'{frame}config/any.py", line 20, in __post_init__',
            f"(APIServer pid=1) pydantic_core._pydantic_core.ValidationError: 1 validation error for {what}",
            f"(APIServer pid=1)   Value error, {sentence} [type=value_error, input_value=ArgsKwargs((), {{}}), "
            "input_type=ArgsKwargs]",
            "(APIServer pid=1)     For further information visit https://errors.pydantic.dev/2.12/v/value_error",
        ]
    )


@pytest.mark.parametrize(
    ("sentence", "given", "what", "fixes"),
    [
        (
            "max_cpu_loras (4) must be >= max_loras (8).",
            ", 'max_loras': 8, 'max_cpu_loras': 4",
            "LoRAConfig",
            ["Raise --max-cpu-loras to 8 or more.", "Or lower --max-loras to 4."],
        ),
        (
            "long_prefill_token_threshold (65536) cannot be greater than the max_model_len (32768).",
            ", 'long_prefill_token_threshold': 65536",
            "SchedulerConfig",
            ["Lower --long-prefill-token-threshold to 32768 or less."],
        ),
        (
            "prompt_lookup_min=5 must be <= prompt_lookup_max=3",
            ", 'speculative_config': {'method': 'ngram'}",
            "SpeculativeConfig",
            ["Lower prompt_lookup_min of --speculative-config to 3 or less."],
        ),
        (
            "alpha_flag is incompatible with prompt_lookup_max",
            ", 'speculative_config': {'method': 'ngram', 'prompt_lookup_max': 3}",
            "",
            ["Leave prompt_lookup_max of --speculative-config out."],
        ),
        (
            "draft_size (4) must be >= max_loras (8).",
            ", 'max_loras': 8, 'speculative_config': {'draft_size': 4, 'max_loras': 2}",
            "",
            ["Raise draft_size of --speculative-config to 8 or more.", "Or lower --max-loras to 4."],
        ),
        ("log_balancedness_interval must be greater than 0.", "", "", ["Raise log_balancedness_interval above 0."]),
        (
            "Parameter `normalize` was removed; use `use_activation` instead.",
            "",
            "PoolerConfig",
            ["Give use_activation of --pooler-config instead of normalize."],
        ),
        (
            "'tensor_parallel_size' is not a valid argument in the speculative_config. "
            "Please pass 'draft_tensor_parallel_size' instead.",
            "",
            "SpeculativeConfig",
            ["Give draft_tensor_parallel_size of --speculative-config instead of tensor_parallel_size."],
        ),
        (
            "Embedding models do not support `--runner generate`. Use `--runner pooling` or `--runner auto` for "
            "embedding models.",
            ", 'runner': 'generate'",
            "ModelConfig",
            ["Use `--runner pooling` or `--runner auto` for embedding models."],
        ),
        ("This model does not support `--runner generate`.", ", 'runner': 'generate'", "", ["Leave --runner out."]),
        (
            "disable_any_whitespace is only supported for xgrammar and guidance backends.",
            "",
            "StructuredOutputsConfig",
            [
                "Leave disable_any_whitespace of --structured-outputs-config out.",
                "Or see to what it needs: xgrammar and guidance backends.",
            ],
        ),
        ("RecoverSSM requires --mamba-backend triton", "", "", ["Give it what it needs: --mamba-backend triton."]),
        (
            "Adaptive verification is not currently compatible with LoRA",
            "",
            "",
            ["Do without one of the two: Adaptive verification, or LoRA."],
        ),
        ("Sleep mode is not supported on current platform.", "", "", ["Do without Sleep mode."]),
        (
            "'mm_encoder_fp8_scale_save_path' cannot be used with 'mm_encoder_fp8_scale_path' (saving requires "
            "dynamic scaling).",
            ", 'mm_encoder_fp8_scale_save_path': '/x'",
            "",
            ["Leave --mm-encoder-fp8-scale-save-path out."],
        ),
        (
            "Unknown Mamba SSU backend: 'fast'. Valid options are: triton, flashinfer",
            "",
            "",
            ["Give one of: triton, flashinfer."],
        ),
        (
            "Invalid middleware token_auth.authentication. Must be a function or a class.",
            "",
            "",
            ["Give another middleware than token_auth.authentication: it must be a function or a class."],
        ),
        ("Unknown dtype: 'int3'", "", "", ["Give another dtype than int3: this vLLM does not know it."]),
        (
            "suffix_decoding_min_token_prob=7 must be in [0, 1]",
            "",
            "SpeculativeConfig",
            ["Change suffix_decoding_min_token_prob of --speculative-config: it must be in [0, 1]."],
        ),
    ],
)
def test_what_a_refusal_asks_for_is_told(sentence: str, given: str, what: str, fixes: list[str]) -> None:
    diagnosis = refusal(sentence, given, what or "VllmConfig")
    assert diagnosis.symptom == "config-refused"
    assert [fix.text for fix in diagnosis.fixes] == fixes


@pytest.mark.parametrize(
    "sentence",
    [
        "hidden_size (4096) must be >= intermediate_size (8192).",
        "num_attention_heads must be a multiple of 8.",
        "Something is odd. Please open an issue on GitHub.",
        "To bypass, set `--allow-deprecated-quantization`.",
        "This is odd. Set VLLM_ALLOW_ODD=1 to go on.",
        "Try increasing gpu_memory_utilization.",
        "odd",
    ],
)
def test_what_no_command_can_change_or_what_cures_nothing_is_not_told(sentence: str) -> None:
    assert [fix.text for fix in refusal(sentence).fixes] == [FALLBACK]


def test_a_flag_that_the_command_does_not_have_is_not_to_be_left_out() -> None:
    told = refusal("alpha_flag is incompatible with beta_flag", ", 'beta_flag': True")
    assert [fix.text for fix in told.fixes] == ["Leave --beta-flag out."]


@pytest.mark.parametrize("name", ["a_", "'a_", "--a", "a-"])
def test_a_sentence_made_to_be_slow_is_not_read_again_and_again(name: str) -> None:
    def cost(length: int) -> float:
        """Of a processor, which others may be using too: the least of some looks."""
        looks = []
        for _ in range(5):
            began = time.process_time()
            refusal(f"one two three {name * (length // len(name))}")
            looks.append(time.process_time() - began)
        return min(looks)

    cost(100)
    assert cost(960) < 24 * cost(120), "not sixty-four times"
