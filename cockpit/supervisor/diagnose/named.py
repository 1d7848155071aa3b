"""The flags of the command that an exception names, by themselves or by their value."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cockpit.supervisor.diagnose.settings import in_use
from cockpit.supervisor.diagnose.types import Evidence, Fix, Fixes
from cockpit.supervisor.diagnose.words import no_draft, plain_kv, without

_WORD = re.compile(r"--([a-z][a-z0-9-]+)|\b([a-z][a-z0-9]*(?:_[a-z0-9]+)+)\b")
_VARIABLE = re.compile(
    r"(?<![Ss]et )(?<!`)\b(VLLM_[A-Z0-9_]{3,60})(=\w+)?(?= (?:requires|is|needs|only|does|must|cannot))"
)
_KV_TYPE = re.compile(r"\b(?:fp8|nvfp4|int8|quantized) kv[ _-]?cache|kv[ _-]?cache (?:d?type|quant)", re.IGNORECASE)
_NOT_TO_LEAVE = frozenset(
    (
        "api_key",
        "gpu_memory_utilization",
        "host",
        "max_model_len",
        "model",
        "model_tag",
        "pipeline_parallel_size",
        "port",
        "served_model_name",
        "tensor_parallel_size",
        "tokenizer",
        "trust_remote_code",
    )
)
"""Flags that a server does not do without."""
_BY_VALUE = ("attention_backend", "moe_backend", "linear_backend", "all2all_backend", "mamba_backend", "load_format")
"""Flags whose value a message names in place of the flag."""


def named(seen: Evidence) -> list[Fix]:
    """To leave out, or to change, what the message names and the command gave."""
    text = seen.incident.text
    words = [(flag or word).replace("-", "_") for flag, word in _WORD.findall(text)]
    flags = (fix for name in _given(words, text, seen) for fix in _undone(name, seen))
    return [*_variables(text, seen), *flags, *_parts(words, seen)]


def _variables(text: str, seen: Evidence) -> list[Fix]:
    """Variables that the message blames with their value, or that the server is known to have."""
    told = seen.arguments.environment
    names = [name for name, value in _VARIABLE.findall(text) if value or told.get(name) is not None]
    return [Fix(text=f"Remove {name} from the environment.", env={name: None}) for name in dict.fromkeys(names)]


def _given(words: list[str], text: str, seen: Evidence) -> Iterator[str]:
    plain = _plain(text)
    values = {name: _plain(str(seen.arguments.get(name))) for name in _BY_VALUE if seen.arguments.chosen(name)}
    if _KV_TYPE.search(text):
        words = [*words, "kv_cache_dtype"]
    by_value = [name for name, value in values.items() if len(value) > 2 and value in plain]
    for name in dict.fromkeys([*words, *by_value]):
        if seen.arguments.chosen(name) and name not in _NOT_TO_LEAVE and seen.arguments.get(name) is not False:
            yield name


def _parts(words: list[str], seen: Evidence) -> Iterator[Fix]:
    """Keys in a flag's JSON that the message names."""
    for name in dict.fromkeys(words):
        flag = None if seen.arguments.chosen(name) else seen.arguments.holder(name)
        if flag is not None:
            of = f"{name} of --{flag.replace('_', '-')}"
            yield Fix(text=f"Leave {of} out, or give it another value: the message names it.")


def _plain(text: str) -> str:
    """FLASH_ATTN and FlashAttention alike."""
    return re.sub(r"[^a-z0-9]", "", text.lower().replace("attention", "attn"))


def _undone(name: str, seen: Evidence) -> list[Fix]:
    if name == "kv_cache_dtype":
        return plain_kv(seen)
    if name == "speculative_config":
        return no_draft(seen)
    if name == "enforce_eager" and in_use(name, seen) == "on":
        return [Fix(text="Leave eager mode off.", set={"enforce_eager": "off"})]
    return [without(name, ", or give it another value: the message names it")]


def once(*parts: Fixes) -> Fixes:
    """The fixes of all parts in their order, each flag and setting once."""

    def made(seen: Evidence) -> list[Fix]:
        kept: list[Fix] = []
        for fix in (fix for part in parts for fix in part(seen)):
            if not any((fix.drops and fix.drops == one.drops) or (fix.set and fix.set == one.set) for one in kept):
                kept.append(fix)
        return kept

    return made
