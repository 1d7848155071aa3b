"""Programs, plugins and files around vLLM that do not go with it."""

from __future__ import annotations

import re

from cockpit.supervisor.diagnose.types import Evidence, Symptom
from cockpit.supervisor.diagnose.words import do, say

_LIBRARIES = re.compile(
    r"^(?:vllm|torch|transformers|transformers_modules|triton|flashinfer|huggingface_hub|pydantic|uvicorn|fastapi"
    r"|starlette|ray|compressed_tensors|xgrammar|outlines|tokenizers|modelscope|peft|safetensors|openai|mistral_common)/"
)


def _from_outside(seen: Evidence) -> bool:
    """Whether a program around vLLM raised it, and no library of its own."""
    last = seen.incident.modules.rpartition("\n")[2]
    return bool(last) and _LIBRARIES.match(last) is None


def _shadowed(seen: Evidence) -> str:
    name = seen.groups.get("name", "a package")
    if "file" in seen.groups:
        return f"Python takes the file {seen.groups['file']} for the package {name}, because it has its name."
    return (
        f"Python takes a folder for {name}, because it has its name: one in the folder that the server starts from, "
        "or what an uninstall left behind."
    )


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        id="remote-code-modules",
        patterns=(r"No module named 'transformers_modules",),
        versions="any",
        explain=say(
            "The model's own code is not where this process looks for it: another node does not have it, or the "
            "folder of such code (HF_MODULES_CACHE) is another one or cannot be written."
        ),
        fixes=do(
            "Give every node and process the same HF_HOME (or HF_MODULES_CACHE), writable, and --trust-remote-code.",
        ),
    ),
    Symptom(
        id="plugin-version",
        patterns=(r"cannot import name '(?P<part>\w+)' from '(?P<name>vllm(?:\.\w+)*)' \(/",),
        when=lambda seen: not seen.incident.modules.rpartition("\n")[2].startswith("vllm/"),
        versions="any",
        explain=say(
            "A plugin or program beside vLLM asks {name} for {part}, which this release does not have: the two are "
            "made for different versions.",
            "A plugin or program beside vLLM is made for another version of it.",
        ),
        fixes=do(
            "Install the plugin's release for this vLLM, or the vLLM that it names.",
            "Or start without plugins to see whether the rest works: VLLM_PLUGINS= (empty), or uninstall it.",
        ),
    ),
    Symptom(
        id="plugin-version",
        patterns=(r"^TypeError: (?:[\w.]+\.)?(?P<name>\w+)\(\) got an unexpected keyword argument '(?P<part>\w+)'",),
        frames=r"^\w*(?:model|vllm\w*|engine|server|worker|plugin|platform|backend)\.py:\w+$",
        when=_from_outside,
        versions="any",
        explain=say(
            "A program around vLLM gives {part} to {name}, which this release does not take: the two are made for "
            "different versions.",
            "A program around vLLM is made for another version of it.",
        ),
        fixes=do(
            "Install the vLLM that the program names, or the program's release for this vLLM.",
        ),
    ),
    Symptom(
        id="command-broken",
        patterns=(r"(?:^|[\s:])(?P<flag>--[a-z][\w-]+): (?:command )?not found\b",),
        versions="any",
        explain=say(
            "The shell took {flag} for a command of its own: the line before it ends without a backslash, or has a "
            "space after it, or JSON on it is not quoted.",
            "The shell took a flag for a command of its own.",
        ),
        fixes=do("End each line but the last with a backslash and nothing after it; put JSON into single quotes."),
    ),
    Symptom(
        id="module-shadowed",
        patterns=(
            r"cannot import name '[^'\n]+' from '(?P<name>\w+)' \(unknown location\)",
            r"from partially initialized module '(?P<name>\w+)' \(most likely due to a circular import\) "
            r"\((?!\S*(?:site|dist)-packages)(?P<file>[^)\n]+)\)",
        ),
        versions="any",
        explain=_shadowed,
        fixes=do(
            "Give the file or folder another name, or start the server from another folder.",
            "If it stays so, install the package anew.",
        ),
    ),
)
