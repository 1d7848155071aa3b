"""The flags a server ran with, as its log tells them."""

from __future__ import annotations

import re
from typing import Any

from cockpit.supervisor.diagnose.number import number_of

_NON_DEFAULT = re.compile(r"['\"](?P<name>\w{2,60})['\"]: (?P<value>'[^']{0,200}'|\"[^\"]{0,200}\"|[\w.+-]{1,60}|\{)")
_CONFIG = re.compile(r"(?P<name>[a-z]\w{2,60})=(?P<value>'[^']{0,200}'|[\w.+-]{1,60})")
_FLAG = re.compile(
    r"(?:^|\s)--(?P<name>[a-z][\w-]{1,60})(?:[ =](?P<value>'[^']{0,200}'|\"[^\"]{0,200}\"|[^\s\\-]\S{0,200}))?"
)
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
_WHOLE = re.compile(r"[+-]?\d+")
_SHORT = {"tp": "tensor_parallel_size", "pp": "pipeline_parallel_size", "q": "quantization"}


class Arguments:
    """Flags by vLLM's name with underscores; what the log says wins over what was known before."""

    def __init__(self, known: dict[str, Any] | None = None) -> None:
        self._known = dict(known or {})
        self.environment: dict[str, str | None] = dict(self._known.pop("environment", None) or {})
        """Variables that the server was given, as far as they are known; None is one that was taken away."""
        self._told: dict[str, Any] = {}
        self._effective: dict[str, Any] = {}

    def non_default(self, text: str) -> None:
        """Read the ``non-default args: {…}`` line, whole or cut."""
        for match in _NON_DEFAULT.finditer(text):
            self._told.setdefault(match["name"], _value(match["value"]))

    def config(self, text: str) -> None:
        """Read the engine's ``Initializing a V1 LLM engine … with config: …`` line, or an ``args: Namespace(…)``."""
        for match in _CONFIG.finditer(text):
            name = _CONFIG_NAMES.get(match["name"])
            if name is not None:
                self._effective.setdefault(name, _value(match["value"]))

    def command(self, text: str) -> None:
        """Read a ``vllm serve …`` command that a report or a script shows, with the variables before it."""
        for match in _VARIABLE.finditer(text):
            self.environment.setdefault(match["name"], match["value"].strip("'\""))
        for match in _FLAG.finditer(text):
            name = match["name"].replace("-", "_")
            self._told.setdefault(_SHORT.get(name, name), True if match["value"] is None else _value(match["value"]))

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


def _value(text: str) -> Any:
    if text[:1] in "'\"":
        text = text[1:-1]
    words: dict[str, Any] = {"True": True, "true": True, "False": False, "false": False, "None": None, "null": None}
    if text in words:
        return words[text]
    number = None if "," in text else number_of(text)
    if number is None:
        return text
    return int(number) if _WHOLE.fullmatch(text) else number
