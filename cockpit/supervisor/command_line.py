"""Command lines of vLLM servers: which they are, and what they were told to serve."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

_MODULES = ("vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server")
_CLI_MODULES = ("vllm", "vllm.entrypoints.cli.main")
_INTERPRETERS = ("python", "pypy", "vllm")
_HELP = re.compile(r"-h|--help(?:=.*)?")
_OPENING_WORDS = 8
"""Interpreter and its options come before what it runs."""
_SWITCHES = """
--aggregate-engine-logging --allow-credentials --allow-deprecated-quantization --async-scheduling
--cohere-is-reasoning-model --cudagraph-metrics --data-parallel-external-lb --data-parallel-hybrid-lb
--data-parallel-multi-port-external-lb --dcp-q-replicate --enforce-eager --exclude-tools-when-tool-choice-none
--fail-on-environ-validation --fully-sharded-loras --grpc --headless --interleave-mm-strings --jit-monitor-verbose
--kv-cache-metrics --kv-sharing-fast-prefill --language-model-only --log-error-stack
--long-prefill-token-threshold-adaptive --mm-device-do-normalize --mm-encoder-only --numa-bind
--ray-workers-use-nsight --return-sampling-mask --return-tokens-as-token-ids --scheduler-reserve-full-isl
--skip-mm-profiling --skip-tokenizer-init --sleep-mode-offload-cudagraph --specialize-active-lora
--swa-bounded-replay --tokens-only --trust-remote-code --trust-request-chat-template --trust-request-mm-kwargs
--use-fp64-gumbel --use-replayssm --use-tqdm-on-load --use-v2-block-manager -dpe -dph -dpm -ep -h
"""
_SWITCH_PREFIXES = ("--enable-", "--disable-", "--no-")
"""Flags without a value, as the parser of 0.32 has them, with some that it has no more."""
_LISTS = """
--allowed-media-domains --api-key --collect-detailed-traces --cpu-offload-params --cudagraph-capture-sizes
--ignore-patterns --kv-cache-dtype-skip-layers --logits-processors --lora-modules --lora-target-modules
--numa-bind-cpus --numa-bind-nodes --offload-params --prompt-adapters --served-model-name
--sleep-preserve-parameter-names
"""
"""Flags that take every word up to the next flag."""
_NUMBER = re.compile(r"-\.?\d.*")
_LEVEL = re.compile(r"-O\S+")


def serve_words(argv: Sequence[str]) -> list[str] | None:
    """What follows ``vllm serve`` (or the API server's module) in a command line; None when it runs no server.

    A shell, an editor or a search whose words merely name vLLM is none: an interpreter must come first. Neither is
    one that only prints its help.
    """
    if not argv or not Path(argv[0]).name.startswith(_INTERPRETERS) or any(map(_HELP.fullmatch, argv)):
        return None
    for at, word in enumerate(argv[:_OPENING_WORDS]):
        following = list(argv[at + 1 :])
        if word == "-c":
            return None
        if word == "-m":
            if following[:1] and following[0] in _MODULES:
                return following[1:]
            return (
                following[2:] if following[:1] and following[0] in _CLI_MODULES and _serves(following[1:]) else None
            )
        if Path(word).name == "vllm" and _serves(following):
            return following[1:]
        if word.endswith("vllm/entrypoints/openai/api_server.py"):
            return following
    return None


def _serves(words: Sequence[str]) -> bool:
    return list(words[:1]) == ["serve"]


def option(words: Sequence[str], name: str) -> str | None:
    """The last value of ``--name VALUE`` or ``--name=VALUE``; underscores are dashes, as vLLM reads them."""
    found = None
    for at, word in enumerate(words):
        flag, equals, value = word.partition("=")
        if flag.startswith("--") and flag[2:].replace("_", "-") == name:
            found = value if equals else next(iter(words[at + 1 : at + 2]), None)
    return found


def model_of(words: Sequence[str]) -> str | None:
    """The model of a server's words; None where they name none, as when a ``--config`` file does.

    ``--model`` wins over a word of its own (parse_args of utils/argparse_utils.py). Without a model vLLM serves a
    default that changes with its version.
    """
    told = option(words, "model")
    return told or next((word for word in _free_words(words) if word), None)


def _free_words(words: Sequence[str]) -> Iterator[str]:
    """Words that are neither flags nor their values."""
    takes = 0.0
    for at, word in enumerate(words):
        if word == "--":
            yield from words[at + 1 :]
            return
        if _is_flag(word):
            takes = _values_of(word)
        elif takes > 0:
            takes -= 1
        else:
            yield word


def _is_flag(word: str) -> bool:
    return word.startswith("-") and word != "-" and not _NUMBER.fullmatch(word)


def _values_of(flag: str) -> float:
    """How many words follow that belong to it."""
    name = flag.partition("=")[0]
    if name.startswith("--"):
        name = name.replace("_", "-")
    if "=" in flag or name in _SWITCHES.split() or name.startswith(_SWITCH_PREFIXES) or _is_level(name):
        return 0
    return float("inf") if name in _LISTS.split() else 1


def _is_level(flag: str) -> bool:
    """``-O3``, which holds its value; a part of a setting (``-O.mode 3``) does not."""
    return _LEVEL.fullmatch(flag) is not None and "." not in flag
