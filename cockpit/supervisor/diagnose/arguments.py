"""The flags a server ran with, as its log tells them."""

from __future__ import annotations

import re
from typing import Any

from cockpit.supervisor.diagnose.reprs import plain_value, read_arguments, read_dict

_FLAG = re.compile(
    r"(?:^|\s)-(?:-(?P<name>[a-z][\w-]{1,60})|(?P<short>tp|pp|dp|dcp|pcp|ep|cc)(?![\w-]))"
    r"(?P<parts>(?:\.[A-Za-z]\w{0,60}){1,4})?"
    r"(?:[ =](?P<value>'[^']{0,2000}'|\"[^\"]{0,200}\"|[^\s\\-]\S{0,200}))?"
)
_ENGINE = re.compile(r"(?:with config: |args: Namespace\()")
_VARIABLE = re.compile(r"(?:^|\s)(?P<name>[A-Z][A-Z0-9]{1,20}_[A-Z0-9_]{1,60})=(?P<value>'[^']{0,200}'|\S{0,200})")
_CONFIG_NAMES = {
    "max_seq_len": "max_model_len",
    "kv_cache_dtype": "kv_cache_dtype",
    "enforce_eager": "enforce_eager",
    "quantization": "quantization",
    "tensor_parallel_size": "tensor_parallel_size",
    "pipeline_parallel_size": "pipeline_parallel_size",
    "dtype": "dtype",
    "model": "model",
    "port": "port",
    "gpu_memory_utilization": "gpu_memory_utilization",
    "max_model_len": "max_model_len",
    "max_num_seqs": "max_num_seqs",
    "kv_cache_memory_bytes": "kv_cache_memory_bytes",
    "device_config": "platform",
}
"""Words of the engine's config line, and of older servers' list of all arguments, by flag."""
_SHORT = {
    "tp": "tensor_parallel_size",
    "pp": "pipeline_parallel_size",
    "dp": "data_parallel_size",
    "dcp": "decode_context_parallel_size",
    "pcp": "prefill_context_parallel_size",
    "ep": "enable_expert_parallel",
    "cc": "compilation_config",
    "q": "quantization",
}
"""Short names of flags (vllm/engine/arg_utils.py); -q with one dash is an option of docker run as well."""


class Arguments:
    """Flags by vLLM's name with underscores; what the log says wins over what was known before."""

    def __init__(self, known: dict[str, Any] | None = None) -> None:
        self._known = dict(known or {})
        self.environment: dict[str, str | None] = dict(self._known.pop("environment", None) or {})
        """Variables that the server was given, as far as they are known; None is one that was taken away."""
        self._told: dict[str, Any] = {}
        self._effective: dict[str, Any] = {}

    def non_default(self, text: str) -> None:
        """Read the ``non-default args: {…}`` line, whole or cut; a flag whose value is cut was given all the same."""
        for name, value in read_dict(text.partition("non-default args")[2]).items():
            self._told.setdefault(name, value)

    def config(self, text: str) -> None:
        """Read the engine's ``Initializing a V1 LLM engine … with config: …`` line, or an ``args: Namespace(…)``."""
        start = _ENGINE.search(text)
        for told, value in read_arguments(text[start.end() :]).items() if start else ():
            name = _CONFIG_NAMES.get(told)
            if name is not None:
                self._effective.setdefault(name, value)

    def command(self, text: str) -> None:
        """Read a ``vllm serve …`` command that a report or a script shows, with the variables before it."""
        for match in _VARIABLE.finditer(text):
            self.environment.setdefault(match["name"], match["value"].strip("'\""))
        for match in _FLAG.finditer(text):
            given = (match["name"] or match["short"]).replace("-", "_")
            name = _SHORT.get(given, given)
            value = True if match["value"] is None else _given(match["value"])
            if match["parts"] is None:
                self._told.setdefault(name, value)
            else:
                _put(self._told.setdefault(name, {}), match["parts"].split(".")[1:], value)

    def get(self, name: str) -> Any:
        """The value in use; None is not known."""
        for source in (self._told, self._effective, self._known):
            if source.get(name) is not None:
                return source[name]
        return None

    def number(self, name: str) -> float | None:
        """The value when it is a number."""
        value = self.get(name)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None

    def chosen(self, name: str) -> bool:
        """Whether the user set it."""
        return name in self._told or self._known.get(name) is not None

    def holder(self, key: str) -> str | None:
        """The flag that was given with this key in its value, at any depth; None where none was."""
        return next((name for name, value in self._told.items() if _has(value, key)), None)


def _has(value: Any, key: str) -> bool:
    if isinstance(value, dict):
        return key in value or any(_has(part, key) for part in value.values())
    return isinstance(value, list) and any(_has(part, key) for part in value)


def _put(place: Any, names: list[str], value: Any) -> None:
    """``--flag.name.name value``, as vLLM's parser nests it."""
    for name in names[:-1]:
        place = place.setdefault(name, {}) if isinstance(place, dict) else None
    if isinstance(place, dict):
        place.setdefault(names[-1], value)


def _given(text: str) -> Any:
    """A value of a command line, with the quotes of its shell; JSON is read."""
    if text[:1] in "'\"":
        text = text[1:-1]
    return read_dict(text) if text[:1] == "{" else plain_value(text)
