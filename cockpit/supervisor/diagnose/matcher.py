"""From what a log holds to one diagnosis: the first true exception, its symptom, its explanation and fixes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

import msgspec

from cockpit.supervisor.boot_state import BootState
from cockpit.supervisor.diagnose.arguments import Arguments
from cockpit.supervisor.diagnose.ends import silent_end
from cockpit.supervisor.diagnose.pattern import Pattern
from cockpit.supervisor.diagnose.shown import shown_exception
from cockpit.supervisor.diagnose.table import SYMPTOMS
from cockpit.supervisor.diagnose.types import Diagnosis, End, Evidence, Incident, Symptom

_PATTERNS = {symptom.id: tuple(map(Pattern, symptom.patterns)) for symptom in SYMPTOMS}
_FRAMES = {symptom.id: Pattern(symptom.frames) for symptom in SYMPTOMS if symptom.frames is not None}
_FATAL = tuple(symptom for symptom in SYMPTOMS if not symptom.notice)
_NOTICES = tuple(symptom for symptom in SYMPTOMS if symptom.notice)
_LINES = tuple(pattern for symptom in _FATAL for pattern in _PATTERNS[symptom.id] if pattern.literal)
_LOOKUPS = ("KeyError", "AttributeError", "ImportError", "ModuleNotFoundError", "HTTPError", "StopIteration")
"""What a library catches and explains in the next exception of the chain."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What was found in a log."""

    boot: BootState
    incidents: tuple[Incident, ...]
    wrappers: tuple[str, ...]
    arguments: Arguments
    notices: dict[str, Incident]
    """The first line of each notice, by symptom id."""
    counts: dict[str, int]
    """How often a notice was seen."""
    has_head: bool
    """Whether the start of the log is there, so that it is no excerpt."""
    stopping: bool
    """Whether somebody stopped it before anything failed."""


class _Finding(msgspec.Struct, frozen=True, kw_only=True):
    incident: Incident
    symptom: Symptom | None = None
    evidence: Evidence | None = None


def is_remarkable(text: str) -> bool:
    """Whether a line's text reads like a symptom that ends servers."""
    return any(pattern.search(text) for pattern in _LINES)


def notice_of(text: str) -> str | None:
    """The notice that a line's text is, by symptom id."""
    for symptom in _NOTICES:
        if any(pattern.search(text) for pattern in _PATTERNS[symptom.id]):
            return symptom.id
    return None


def conclude(reading: Reading, end: End) -> Diagnosis:
    """One diagnosis of everything that was read, and of what is known of the server's end."""
    notices = [found for found in (_notice(reading, name) for name in reading.notices) if found is not None]
    cause = _cause(reading, end)
    ready = reading.boot.ready
    grave = [found for found in notices if found.symptom is not None and found.symptom.notice == "grave"]
    about = cause
    if about is None:
        excerpt = notices if not reading.has_head and not ready else []
        about = next(iter([*grave, *excerpt]), None)
    symptom, evidence = (None, None) if about is None else (about.symptom, about.evidence)
    return Diagnosis(
        healthy=ready and cause is None and not grave,
        ready=ready,
        vllm_version=reading.boot.facts.vllm_version,
        symptom=None if symptom is None else symptom.id,
        first_exception=None if cause is None else shown_exception(cause.incident),
        place=None if cause is None else cause.incident.place or None,
        explanation=None if symptom is None or evidence is None else symptom.explain(evidence),
        fixes=() if symptom is None or evidence is None else tuple(symptom.fixes(evidence)),
        notes=tuple(
            found.symptom.explain(found.evidence)
            for found in notices
            if found is not about and found.symptom is not None and found.evidence is not None
        ),
        boot=reading.boot,
    )


def first_incident(reading: Reading) -> Incident | None:
    """The exception to show when the server is dead."""
    found = _choose(reading)
    return None if found is None else found.incident


def _cause(reading: Reading, end: End) -> _Finding | None:
    """Why it died; None when nothing says that it did."""
    if end.dead is False or reading.stopping or (end.asked_for and not reading.wrappers):
        return None
    if not reading.boot.ready or reading.wrappers or end.dead or _engine_failed(reading.incidents):
        found = _choose(reading)
        if found is not None:
            return found
        silent = silent_end(reading.wrappers, end)
        return None if silent is None else _match(reading, silent) or _Finding(incident=silent)
    return None


def _engine_failed(incidents: Iterable[Incident]) -> bool:
    return any(one.announced and one.depth < 2 for one in incidents)


def _choose(reading: Reading) -> _Finding | None:
    """Of the deepest process that raised anything, the first chain with a known symptom, else the first chain.

    An exception that nothing announced as fatal gives way to a known one of a process above it.
    """
    unknown: _Finding | None = None
    ranked = sorted(reading.incidents, key=lambda one: (one.depth, not one.announced, one.order))
    for _, group in groupby(ranked, key=lambda one: one.depth):
        chains = _chains(list(group))
        for chain in chains:
            known = _best(reading, chain)
            if known is not None:
                return known
        if unknown is None:
            unknown = _Finding(incident=_root_of(chains[0]))
        if unknown.incident.announced:
            break
    return unknown


def _chains(incidents: Sequence[Incident]) -> list[list[Incident]]:
    chains: dict[int, list[Incident]] = {}
    for one in incidents:
        chains.setdefault(one.chain, []).append(one)
    return list(chains.values())


def _best(reading: Reading, chain: Sequence[Incident]) -> _Finding | None:
    """The most specific symptom of a chain."""
    found = [match for match in (_match(reading, one) for one in chain) if match is not None and match.symptom]
    return min(found, key=lambda one: SYMPTOMS.index(one.symptom) if one.symptom else 0, default=None)


def _root_of(chain: Sequence[Incident]) -> Incident:
    for one in chain:
        name = one.text.partition(":")[0].rpartition(".")[2]
        if name not in _LOOKUPS:
            return one
    return chain[0]


def _match(reading: Reading, incident: Incident) -> _Finding | None:
    for symptom in _FATAL:
        found = _try(reading, symptom, incident)
        if found is not None:
            return found
    return None


def _notice(reading: Reading, name: str) -> _Finding | None:
    incident = reading.notices[name]
    return next((_try(reading, symptom, incident) for symptom in _NOTICES if symptom.id == name), None)


def _try(reading: Reading, symptom: Symptom, incident: Incident) -> _Finding | None:
    frames = _FRAMES.get(symptom.id)
    if frames is not None and not frames.search(incident.frames):
        return None
    for pattern in _PATTERNS[symptom.id]:
        match = pattern.search(incident.text)
        if match is None:
            continue
        groups = {name: text for name, text in match.groupdict().items() if text is not None}
        evidence = Evidence(
            incident=incident, groups=groups, arguments=reading.arguments, boot=reading.boot, counts=reading.counts
        )
        if symptom.when is None or symptom.when(evidence):
            return _Finding(incident=incident, symptom=symptom, evidence=evidence)
    return None
