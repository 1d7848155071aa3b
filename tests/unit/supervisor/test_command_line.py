"""Command lines of vLLM servers, told from those that only name it."""

from __future__ import annotations

import pytest

from cockpit.supervisor.command_line import model_of, option, serve_words


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["/v/bin/python3", "/v/bin/vllm", "serve", "m", "--port", "1"], ["m", "--port", "1"]),
        (["python3.12", "-u", "/v/bin/vllm", "serve", "m"], ["m"]),
        (["/usr/local/bin/vllm", "serve", "m"], ["m"]),
        (["python", "-m", "vllm.entrypoints.openai.api_server", "--model", "m"], ["--model", "m"]),
        (["python", "-m", "vllm.entrypoints.cli.main", "serve", "m"], ["m"]),
        (["python", "-m", "vllm", "serve", "m"], ["m"]),
        (["pypy3", "/x/vllm/entrypoints/openai/api_server.py", "--model", "m"], ["--model", "m"]),
        (["python", "/v/bin/vllm", "bench", "serve"], None),
        (["python", "/v/bin/vllm", "chat"], None),
        (["python", "/v/bin/vllm", "serve", "--help=all"], None),
        (["python", "/v/bin/vllm", "serve", "m", "-h"], None),
        (["python", "-c", "vllm serve", "vllm", "serve"], None),
        (["bash", "-c", "vllm serve m"], None),
        (["grep", "vllm", "serve"], None),
        (["docker", "run", "vllm", "serve"], None),
        (["sudo", "vllm", "serve", "m"], None),
        (["python", "-m"], None),
        (["python", "-m", "pytest", "vllm", "serve"], None),
        (["python"], None),
        ([], None),
        ([""], None),
    ],
)
def test_a_server_is_what_an_interpreter_runs(argv: list[str], words: list[str] | None) -> None:
    assert serve_words(argv) == words


def test_options_are_read_as_vllm_reads_them() -> None:
    words = ["m", "--port=1", "--served_model_name", "a", "--port", "2", "--host"]
    assert option(words, "port") == "2"
    assert option(words, "served-model-name") == "a"
    assert option(words, "host") is None and option(words, "model") is None


@pytest.mark.parametrize(
    ("command", "model"),
    [
        ("vllm serve org/model --port 1", "org/model"),
        ("vllm serve --port 1 org/model", "org/model"),
        ("vllm serve --port=1 org/model --enforce-eager", "org/model"),
        ("vllm serve --enforce-eager org/model", "org/model"),
        ("vllm serve --enable_prefix_caching --no-enable-chunked-prefill org/model", "org/model"),
        ("vllm serve -tp 2 org/model", "org/model"),
        ("vllm serve -O3 -ep org/model", "org/model"),
        ("vllm serve -O.level 3 org/model", "org/model"),
        ("vllm serve --hf-overrides.rope_scaling.factor 4 org/model", "org/model"),
        ("vllm serve --max-model-len -1 org/model", "org/model"),
        ("vllm serve --trust-remote-code -- org/model", "org/model"),
        ("vllm serve --model org/model", "org/model"),
        ("vllm serve --model=org/model --port 1", "org/model"),
        ("vllm serve one --model org/model", "org/model"),
        ("vllm serve --served-model-name a b --tensor-parallel-size 2 org/model", "org/model"),
        ("python -m vllm.entrypoints.openai.api_server --model org/model", "org/model"),
        ("python -m vllm.entrypoints.openai.api_server --port 1 --model=org/model", "org/model"),
        ("python -m vllm.entrypoints.cli.main serve --dtype half org/model", "org/model"),
        # What does not say is not guessed.
        ("vllm serve --config server.yaml", None),
        ("vllm serve --config=server.yaml --port 1", None),
        ("vllm serve --config server.yaml org/model", "org/model"),
        ("vllm serve --served-model-name a org/model", None),
        ("vllm serve --port 1", None),
        ("vllm serve", None),
    ],
)
def test_the_model_is_found_wherever_it_stands(command: str, model: str | None) -> None:
    words = serve_words(command.split())
    assert words is not None
    assert model_of(words) == model
