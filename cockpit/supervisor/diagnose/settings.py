"""What a server ran with, by the names that a fix sets: a fix never advises what was already so."""

from __future__ import annotations

from typing import Any

from cockpit.supervisor.diagnose.types import Evidence, Fix, Symptom

_FLAGS = {"tensor_parallel": "tensor_parallel_size"}
"""Toggle id → vLLM's name, where they differ."""
_ALIASES = {"fp8": "fp8_e4m3"}


def _draft_tokens(seen: Evidence) -> Any:
    draft = seen.arguments.get("speculative_config")
    told = draft.get("num_speculative_tokens") if isinstance(draft, dict) else None
    known = seen.arguments.get("speculative_tokens") if told is None else told
    if known is not None or seen.arguments.chosen("speculative_config"):
        return known
    return 0 if seen.has_head else None


def _vision(seen: Evidence) -> Any:
    return "off" if seen.arguments.get("language_model_only") is True else seen.arguments.get("vision")


def _eager(seen: Evidence) -> Any:
    return {True: "on", False: "off"}.get(seen.arguments.get("enforce_eager"))


def _kv_type(seen: Evidence) -> Any:
    told = seen.arguments.get("kv_cache_dtype")
    if told is None:
        return "auto" if seen.has_head else None
    return _ALIASES.get(str(told), told)


def _context(seen: Evidence) -> Any:
    told = seen.arguments.number("max_model_len")
    return seen.boot.facts.max_model_len if told is None else told


def in_use(name: str, seen: Evidence) -> Any:
    """The value of a toggle that the log or the record tells; None is not known."""
    special = {
        "speculative_tokens": _draft_tokens,
        "vision": _vision,
        "enforce_eager": _eager,
        "kv_cache_dtype": _kv_type,
        "max_model_len": _context,
    }.get(name)
    if special is not None:
        return special(seen)
    told = seen.arguments.get(_FLAGS.get(name, name))
    return 1 if told is None and name == "tensor_parallel" and seen.has_head else told


def _is_added(flag: str, seen: Evidence) -> bool:
    name, _, value = flag.partition("=")
    told = seen.arguments.get(name)
    return told not in (None, False) and value in ("", str(told).removeprefix("torch."))


def is_so(fix: Fix, seen: Evidence) -> bool:
    """Whether all that a fix would do is so already; of plain advice nobody can tell."""
    if fix.drops:
        return seen.has_head and not seen.arguments.chosen(fix.drops)
    if fix.adds:
        return _is_added(fix.adds, seen)
    if not fix.set and not fix.env:
        return False
    settings = all(in_use(name, seen) == value for name, value in fix.set.items())
    told = seen.arguments.environment
    return settings and all(name in told and told[name] == value for name, value in fix.env.items())


def offered(symptom: Symptom, seen: Evidence) -> tuple[Fix, ...]:
    """What a symptom advises for this server, best first."""
    return tuple(fix for fix in symptom.fixes(seen) if not is_so(fix, seen))
