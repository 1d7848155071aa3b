"""What the command line says that vLLM's parser of flags does not take."""

from __future__ import annotations

import re

from cockpit.nearest import did_you_mean
from cockpit.supervisor.diagnose.shown import shown_exception
from cockpit.supervisor.diagnose.types import Evidence, Fix, Symptom
from cockpit.supervisor.diagnose.words import nearest

_REMOVED = {
    "--enable-reasoning": "It went in 0.10: --reasoning-parser alone turns it on.",
    "--swap-space": "It is gone: vLLM preempts by computing again.",
    "--disable-log-requests": "It is gone: requests are not logged unless --enable-log-requests says so.",
    "--guided-decoding-backend": "It is --structured-outputs-config.backend now.",
    "--num-scheduler-steps": "It is gone: leave it out.",
    "--device": "It is gone: the installed build decides.",
    "--use-v2-block-manager": "It is gone: leave it out.",
    "--max-seq-len-to-capture": "It is gone: leave it out.",
    "--rope-scaling": "It goes into --hf-overrides now.",
    "--rope-theta": "It goes into --hf-overrides now.",
    "--task": "It is --runner now.",
    "--cuda-graph-sizes": "It is --cudagraph-capture-sizes now.",
    "--speculative-model": "It goes into --speculative-config now.",
    "--num-speculative-tokens": "It goes into --speculative-config now.",
    "--preemption-mode": "It is gone: leave it out.",
    "--calculate-kv-scales": "It is gone since 0.28: leave it out.",
    "--max-num-partial-prefills": "It is gone since 0.27: leave it out.",
    "--max-long-partial-prefills": "It is gone since 0.27: leave it out.",
    "--enable-bf16x3-router-gemm": "It is gone since 0.32: leave it out.",
    "--lora-path": "An adapter is named with --enable-lora --lora-modules NAME=PATH.",
    "--temperature": "Sampling is chosen by each request, or by --override-generation-config.",
    "--override-attention-dtype": "It is gone since 0.28: leave it out.",
    "--cc": "It is -cc with one dash, or --compilation-config.",
    "--omni": "It belongs to vLLM-Omni: install vllm-omni of the same version beside this vLLM.",
    "--stage-configs-path": "It belongs to vLLM-Omni: install vllm-omni of the same version beside this vLLM.",
}
"""Flags of older vLLMs, and what became of them."""


_OFTEN = [
    "--api-key",
    "--chat-template",
    "--data-parallel-size",
    "--download-dir",
    "--dtype",
    "--enable-auto-tool-choice",
    "--enable-expert-parallel",
    "--enable-lora",
    "--enable-prefix-caching",
    "--enforce-eager",
    "--gpu-memory-utilization",
    "--hf-overrides",
    "--host",
    "--kv-cache-dtype",
    "--language-model-only",
    "--limit-mm-per-prompt",
    "--load-format",
    "--lora-modules",
    "--max-model-len",
    "--max-num-batched-tokens",
    "--max-num-seqs",
    "--model",
    "--pipeline-parallel-size",
    "--port",
    "--quantization",
    "--reasoning-parser",
    "--revision",
    "--seed",
    "--served-model-name",
    "--speculative-config",
    "--tensor-parallel-size",
    "--tokenizer",
    "--tokenizer-mode",
    "--tool-call-parser",
    "--trust-remote-code",
]
"""Flags that every vLLM since 0.23 has."""
_TYPED = 0.8
"""How alike a refused flag is to one of these few when it was mistyped; it may well be one that is not among them."""
_CONTAINER = re.compile(
    r"^(?:--(?:gpus|ipc|shm-size|runtime|volume|env|env-file|network|restart|publish|name|rm|privileged|ulimit|cap-add)"
    r"|-[vedit]{1,3})(?:[ =]|$)"
)
"""Options of docker run and podman run."""
_PORTS = re.compile(r"invalid \w+ value: '\d+:\d+")
_NUMBER = re.compile(r"invalid (?P<type>\w*(?:int|float)\w*) value: '(?P<value>[^'\n]{0,60})'")
_AFTER_IMAGE = Fix(text="Put the options of docker or podman before the image's name: what follows it goes to vLLM.")


def _together(seen: Evidence) -> bool:
    """Whether a flag that each vLLM has is refused with a value behind it: the two came as one word."""
    words = seen.groups.get("flag", "").split()
    return len(words) > 1 and words[0] in _OFTEN and not words[1].startswith("-")


def _flag(seen: Evidence) -> str:
    return seen.groups.get("flag", "").split()[0] if seen.groups.get("flag", "").strip() else "a flag"


def _unknown(seen: Evidence) -> str:
    if seen.groups.get("flag", "").startswith("serve"):
        return "The container's entry point is `vllm serve` already, and the command says serve again."
    if not _flag(seen).startswith("-") and "unrecognized" in seen.incident.text:
        return f"The command has {_flag(seen)} where a flag is expected."
    if _CONTAINER.match(seen.groups.get("flag", "")):
        return f"{_flag(seen)} is an option of the container and went to vLLM: it stands behind the image's name."
    if _together(seen):
        flag, value = seen.groups["flag"].split()[:2]
        return f"The command gives `{flag} {value}` as one word, which vLLM takes for the name of a flag."
    return f"This vLLM does not know {_flag(seen)}."


def _unknown_fixes(seen: Evidence) -> list[Fix]:
    flag = _flag(seen).partition("=")[0].replace("_", "-")
    if flag.startswith("serve"):
        return [Fix(text="Begin the container's command with the model.")]
    if seen.groups.get("flag", "").startswith(("/bin/", "bash", "sh ", "python")):
        return [
            Fix(text="The container's entry point is the server: give its flags only, or replace it (--entrypoint).")
        ]
    if _CONTAINER.match(seen.groups.get("flag", "")):
        return [_AFTER_IMAGE]
    if _together(seen):
        return [Fix(text=f"Give the flag and its value as two words of the list, or join them: {flag}=VALUE.")]
    if flag.startswith("-") and not flag.startswith("--") and len(flag) > 3:
        return [Fix(text=f"A long flag has two dashes: -{flag}.")]
    known = _REMOVED.get(flag)
    meant = did_you_mean(flag, _OFTEN, "", most=1, alike=_TYPED) if known is None and flag not in _OFTEN else ""
    fixes = [] if known is None else [Fix(text=f"{flag}: {known[:1].lower()}{known[1:]}")]
    fixes += [Fix(text=meant)] if meant else []
    return [
        *fixes,
        Fix(text="Take it out or correct it; `vllm serve --help=all` lists what the installed version takes."),
    ]


def _value(seen: Evidence) -> str:
    if "validation error" in seen.incident.text:
        why = shown_exception(seen.incident).partition(f"argument {seen.groups.get('flag', '')}: ")[2]
        return f"The value of {_flag(seen)} is refused: {why.rstrip('.')}."
    if _PORTS.search(seen.incident.text):
        return "Ports that the container publishes (-p) went to vLLM: the option stands behind the image's name."
    if "expected one argument" in seen.incident.text or "expected at least one argument" in seen.incident.text:
        return f"{_flag(seen)} has no value behind it, or one that begins with a dash."
    return f"The value of {_flag(seen)} is not one that this vLLM takes."


def _value_fixes(seen: Evidence) -> list[Fix]:
    if "cannot be converted to" in seen.incident.text or "JSON" in seen.incident.text:
        return [Fix(text=f"Give it as JSON in single quotes: {_flag(seen).partition('/')[0]} '{{\"name\": 1}}'.")]
    if "validation error" in seen.incident.text:
        return [Fix(text="Correct the part of it that the message names, or leave that out.")]
    if _PORTS.search(seen.incident.text):
        return [_AFTER_IMAGE]
    if "expected one argument" in seen.incident.text or "expected at least one argument" in seen.incident.text:
        flag = _flag(seen).partition("/")[0]
        return [
            Fix(
                text=f"Give it a value, joined with = if that begins with a dash: {flag}=VALUE; a variable was empty?"
            )
        ]
    number = _NUMBER.search(seen.incident.text)
    if number is not None:
        kind = "a whole number" if "int" in number["type"] else "a number"
        return [Fix(text=f"Give {_flag(seen).partition('/')[0]} {kind} instead of {number['value'] or 'nothing'}.")]
    return [*nearest(seen, "value"), Fix(text="Use one of the values that the message lists.")]


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        id="flag-value",
        patterns=(
            r"error: argument (?P<flag>-[^\s:]+): invalid \w+: '(?P<value>[^'\n]{1,80})'",
            r"error: argument (?P<flag>-[^\s:]+): (?:invalid|expected|not allowed)[^\n]*",
            r"error: ambiguous option: (?P<flag>\S+) could match",
            r"error: argument (?P<flag>[^:\n]{1,80}):",
        ),
        versions="any",
        explain=_value,
        fixes=_value_fixes,
    ),
    Symptom(
        id="unknown-flag",
        patterns=(
            r"error: unrecognized arguments: (?P<flag>[^\n]*)",
            r"error: no such option: (?P<flag>\S+)",
            r"error: the following arguments are required: (?P<flag>[^\n]*)",
            r"(?:Args|LLM)\.__init__\(\) got an unexpected keyword argument '(?P<flag>\w+)'",
            r"^(?:[\w.-]{1,60}\.py|vllm(?: [\w-]+)?): error: [^\n]*",
        ),
        versions="any",
        explain=_unknown,
        fixes=_unknown_fixes,
    ),
)
