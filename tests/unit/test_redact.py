"""Secrets in text: told by name, by look or as a value that this process knows, and nothing else is touched."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.redact import REDACTED, is_secret, redact, secret_values

SECRET = "Zq9secretvalue77"


@pytest.mark.parametrize(
    "text",
    [
        "non-default args: {'model': 'm', 'api_key': ['Zq9secretvalue77'], 'port': 8000}",
        "non-default args: {'api_key': 'Zq9secretvalue77', 'port': 8000}",
        "non-default args: {'api_key': ['Zq9secretvalue77', 'b'",
        "Namespace(api_key='Zq9secretvalue77', port=8000)",
        'config {"api_key": "Zq9secretvalue77", "x": 1}',
        '{"args": "{\\"api_key\\": \\"Zq9secretvalue77\\"}"}',
        "vllm serve m --api-key Zq9secretvalue77 --port 8000",
        "vllm serve m --api-key=Zq9secretvalue77 --port 8000",
        "['vllm', 'serve', '--api-key', 'Zq9secretvalue77']",
        "['vllm', '--hf-token', 'Zq9secretvalue77']",
        "VLLM_API_KEY=Zq9secretvalue77 vllm serve",
        "HF_TOKEN=Zq9secretvalue77",
        "hf_token: Zq9secretvalue77",
        "AWS_SECRET_ACCESS_KEY=Zq9secretvalue77",
        "Authorization: Bearer Zq9secretvalue77",
        "headers={'authorization': 'Bearer Zq9secretvalue77'}",
        "sent Bearer Zq9secretvalue77 to it",
        "proxy http://user:Zq9secretvalue77@proxy.lan:3128/",
        "password = 'Zq9secretvalue77'",
        "token hf_Zq9secretvalue77abcdef",
        "key sk-Zq9secretvalue77abcdef",
    ],
)
def test_a_secret_goes_and_the_text_around_it_stays(text: str) -> None:
    shown = redact(text)
    assert SECRET not in shown and REDACTED in shown
    assert redact(shown) == shown


def test_what_follows_a_secret_stays() -> None:
    shown = redact("args: {'api_key': ['a-secret'], 'port': 8000, 'hf_token': 'b-secret', 'dtype': 'auto'}")
    assert shown == "args: {'api_key': <redacted>, 'port': 8000, 'hf_token': <redacted>, 'dtype': 'auto'}"


@pytest.mark.parametrize(
    "text",
    [
        "GPU KV cache size: 623,873 tokens, Maximum concurrency for 262,144 tokens per request: 2.38x",
        "max_num_batched_tokens=2048, tokenizer='m', skip_tokenizer_init=False, tokenizer_mode=auto",
        "eos_token_id=2 bos_token='<s>' pad_token: <pad> stop_token_ids: [1, 2]",
        "api_key=None, hf_token=None",
        "{'api_key': None, 'hf_token': False}",
        "Chunked prefill is enabled with max_num_batched_tokens=8192.",
        "KeyError: 'qwen3_5'",
        "http://127.0.0.1:8000/v1/models",
        "Avg prompt throughput: 38.8 tokens/s, key: value",
        "num_key_value_heads: 8, key_cache: 1",
    ],
)
def test_ordinary_lines_of_vllm_stay_as_they_are(text: str) -> None:
    assert redact(text) == text


@given(st.text(), st.text(min_size=6).filter(str.strip))
def test_a_known_value_never_comes_through(text: str, value: str) -> None:
    if value not in REDACTED:
        assert value not in redact(f"{text}{value}{text}", {value}).replace(REDACTED, "\0")


def test_values_come_from_variables_that_name_secrets_and_are_long_enough() -> None:
    environ = {"VLLM_API_KEY": SECRET, "HF_TOKEN": "hf_x1234", "MODE": "longer than six", "MY_PASSWORD": "abc"}
    assert secret_values(environ) == {SECRET, "hf_x1234"}
    assert is_secret("MY_ApiKey") and not is_secret("TOKENIZERS_PARALLELISM")


_WORDS = st.sampled_from(
    (
        *("api", "private", "access", "hf", "hub", "auth", "bearer", "refresh", "session", "key", "keys", "token"),
        *(
            "tokens",
            "secret",
            "password",
            "Authorization",
            "Basic",
            "http://",
            "u@h",
            "HF_",
            "sk-",
            "abcdefghijklmnopqr",
        ),
        *("--", "-", "_", " ", "=", ": ", "'", '"', "[", "/s", "9", "K", "KV cache"),
    )
)


@given(st.lists(_WORDS, max_size=12).map("".join))
def test_the_quick_look_never_passes_over_what_the_patterns_know(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cockpit.redact._may_hold_a_secret", lambda _: True)
        thorough = redact(text)
    assert redact(text) == thorough
