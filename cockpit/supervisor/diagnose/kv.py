"""The KV pool: too small, too small for one request, too small for the sequences."""

from __future__ import annotations

from cockpit.supervisor.diagnose.types import Evidence, Fix, Symptom
from cockpit.supervisor.diagnose.words import budget, count, more_room


def _explain_max_len(seen: Evidence) -> str:
    wanted, needed, there = seen.number("wanted"), seen.number("needed"), seen.number("available")
    sizes = (
        "" if needed is None or there is None else f": {needed:g} GiB of KV cache are needed, {there:g} GiB are there"
    )
    return f"One request of {count(wanted)} tokens does not fit the KV pool{sizes}. {budget(seen)}".strip()


def _fix_max_len(seen: Evidence) -> list[Fix]:
    fits = seen.number("fits")
    fixes = []
    if fits is not None and fits >= 16:
        fixes.append(
            Fix(text=f"Start again with a context of {count(fits)} tokens.", set={"max_model_len": int(fits)})
        )
    return [*fixes, *more_room(seen)]


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        id="kv-max-len",
        patterns=(
            r"max seq len \((?P<wanted>[\d,]+)\), \((?P<needed>[\d.]+).*? memory \((?P<available>[\d.]+)"
            r".*?estimated maximum model length is (?P<fits>[\d,]+)",
        ),
        versions="0.8 to 0.33",
        explain=_explain_max_len,
        fixes=_fix_max_len,
    ),
)
