"""What the parser of flags refuses, and what the user meant by it."""

from __future__ import annotations

import pytest

from cockpit.supervisor.diagnose.files import diagnose_lines


@pytest.mark.parametrize(
    ("line", "symptom", "fix"),
    [
        (
            "vllm: error: unrecognized arguments: --host 127.0.0.1 --port 6379",
            "unknown-flag",
            "join them: --host=VALUE",
        ),
        ("vllm: error: unrecognized arguments: --dtype auto", "unknown-flag", "two words of the list"),
        (
            "api_server.py: error: unrecognized arguments: --gpus all --ipc=host",
            "unknown-flag",
            "before the image's name",
        ),
        ("vllm: error: unrecognized arguments: -v /models:/models", "unknown-flag", "before the image's name"),
        (
            "api_server.py: error: argument --pipeline-parallel-size/-pp: invalid int value: '8000:8000'",
            "flag-value",
            "before the image's name",
        ),
        ("vllm: error: unrecognized arguments: --cc {mode: 3}", "unknown-flag", "-cc with one dash"),
        (
            "vllm: error: unrecognized arguments: --max-model-length 4096",
            "unknown-flag",
            "Did you mean --max-model-len?",
        ),
        ("vllm: error: unrecognized arguments: --omni", "unknown-flag", "vllm-omni"),
        (
            "vllm serve: error: argument --tensor-parallel-size/-tp: invalid int value: 'two'",
            "flag-value",
            "Give --tensor-parallel-size a whole number instead of two.",
        ),
        (
            "vllm serve: error: argument --gpu-memory-utilization: invalid float value: '90%'",
            "flag-value",
            "a number instead of 90%",
        ),
        ("vllm serve: error: argument --api-key: expected at least one argument", "flag-value", "--api-key=VALUE"),
        ("run.sh: line 9: --hf_overrides: command not found", "command-broken", "backslash"),
        (
            "vllm serve: error: argument --lora-modules: Invalid fields: ['/adapters/sql']. Each must be name=path.",
            "lora-modules",
            "NAME=PATH",
        ),
        ("vllm: error: unrecognized arguments: --odd-thing", "unknown-flag", "Take it out or correct it"),
    ],
)
def test_a_refused_word_is_told_with_what_was_meant(line: str, symptom: str, fix: str) -> None:
    diagnosis = diagnose_lines(["usage: vllm serve [model_tag] [options]", line])
    assert diagnosis.symptom == symptom
    assert fix in diagnosis.fixes[0].text
