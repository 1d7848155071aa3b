"""From what a log holds to one diagnosis: the first true exception, its symptom, its explanation and fixes."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby

import msgspec

from cockpit.supervisor.boot_state import STAGES, BootState
from cockpit.supervisor.diagnose.arguments import Arguments
from cockpit.supervisor.diagnose.derived import OF_THE_MACHINE, derived, unknown
from cockpit.supervisor.diagnose.ends import signal_of, silent_end
from cockpit.supervisor.diagnose.pattern import Pattern
from cockpit.supervisor.diagnose.pattern_set import PatternSet
from cockpit.supervisor.diagnose.settings import offered
from cockpit.supervisor.diagnose.shown import shown_exception
from cockpit.supervisor.diagnose.table import SYMPTOMS
from cockpit.supervisor.diagnose.types import COLLATERAL, Diagnosis, End, Evidence, Fix, Incident, Notice, Symptom

_KNOWN = {text: Pattern(text) for text in dict.fromkeys(text for one in SYMPTOMS for text in one.patterns)}
_PATTERNS = tuple(tuple(_KNOWN[text] for text in symptom.patterns) for symptom in SYMPTOMS)
"""In the order of the table."""
_FATAL = tuple(index for index, symptom in enumerate(SYMPTOMS) if not symptom.notice)
_NOTICES = tuple(index for index, symptom in enumerate(SYMPTOMS) if symptom.notice)
_NOTICE_PATTERNS = tuple(
    (pattern.literal, pattern, SYMPTOMS[index].id) for index in _NOTICES for pattern in _PATTERNS[index]
)
_LINES = PatternSet(
    dict.fromkeys(_KNOWN[text] for one in SYMPTOMS if not one.notice and not one.frames for text in one.patterns)
)
"""Every line is held against them that is not harmless by its level."""
_NOT_LISTENING = "error while attempting to bind on address"
_KILLS = (signal.SIGKILL, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL)
_NEXT_STEPS = (
    Fix(text="Look at the lines above this exception, and for its words in the issues of vLLM or of the library."),
    Fix(text="Give the whole log: the frames above an exception tell what it was about."),
)
"""Of an exception that nothing is known of."""
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
    figures: dict[str, float]
    """As Evidence has them."""
    has_head: bool
    """Whether the start of the log is there, so that it is no excerpt."""
    stopping: bool
    """Whether somebody stopped it before anything failed."""


class _Finding(msgspec.Struct, frozen=True, kw_only=True):
    incident: Incident
    symptom: Symptom | None = None
    evidence: Evidence | None = None
    rank: int = len(SYMPTOMS)
    """Place in the table."""

    @property
    def name(self) -> str | None:
        """Id of its symptom."""
        return None if self.symptom is None else self.symptom.id

    @property
    def level(self) -> Notice:
        """Of its symptom."""
        return "" if self.symptom is None else self.symptom.notice

    @property
    def explanation(self) -> str | None:
        """What its symptom says of it."""
        return None if self.symptom is None or self.evidence is None else self.symptom.explain(self.evidence)

    @property
    def fixes(self) -> tuple[Fix, ...]:
        """What its symptom advises."""
        if self.symptom is None or self.evidence is None:
            return _NEXT_STEPS if self.incident.order else ()
        return offered(self.symptom, self.evidence) or (_NEXT_STEPS[:1] if self.incident.order else ())


def is_remarkable(text: str) -> bool:
    """Whether a line's text reads like a symptom that ends servers."""
    return any(pattern.search(text) for pattern in _LINES.candidates(text))


def notice_of(text: str) -> str | None:
    """The notice that a line's text is, by symptom id."""
    for literal, pattern, name in _NOTICE_PATTERNS:
        if literal in text and pattern.search(text):
            return name
    return None


def conclude(reading: Reading, end: End) -> Diagnosis:
    """One diagnosis of everything that was read, and of what is known of the server's end."""
    cause = _cause(reading, end)
    ready = reading.boot.ready
    notices = [
        one
        for one in _all_notices(reading)
        if _holds(one.level, ready, cause) and (cause is None or one.symptom != cause.symptom)
        if not (cause and cause.name in OF_THE_MACHINE and one.name == "nightly-regression")
    ]
    about = cause or _trouble(reading, notices, end)
    return Diagnosis(
        healthy=ready and cause is None and not any(one.level == "grave" for one in notices),
        ready=ready,
        vllm_version=reading.boot.facts.vllm_version,
        symptom=None if about is None else about.name,
        first_exception=None if cause is None or cause.incident.order == 0 else shown_exception(cause.incident),
        place=None if cause is None else cause.incident.place or None,
        explanation=None if about is None else about.explanation,
        fixes=() if about is None else about.fixes,
        notes=tuple(said for said in _said(notices, about) if about is None or said != about.explanation),
        boot=reading.boot,
    )


def _said(notices: Iterable[_Finding], about: _Finding | None) -> Iterator[str]:
    yield from (one.explanation for one in notices if one is not about and one.explanation)


def _holds(level: Notice, ready: bool, cause: _Finding | None) -> bool:
    if level in ("maybe", "hang"):
        return cause is None and not ready
    return cause is not None if level == "dead" else True


def _trouble(reading: Reading, notices: Sequence[_Finding], end: End) -> _Finding | None:
    """The notice that is the symptom: a grave one, where a log ends, or whatever an excerpt is about."""
    levels = ("grave", "warn", "hang") if end.dead is None else ("grave", "warn")
    grave = [one for one in notices if one.level in levels]
    excerpt = notices if not reading.has_head and not reading.boot.ready else []
    return next(iter([*grave, *excerpt]), None)


def _all_notices(reading: Reading) -> list[_Finding]:
    found = [one for one in map(partial(_notice, reading), reading.notices) if one is not None]
    evidence = _evidence(reading, Incident(text=""), {})
    return [
        *found,
        *(_Finding(incident=evidence.incident, symptom=one, evidence=evidence) for one in derived(evidence)),
    ]


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
        silent = silent_end(reading.wrappers, end)
        # What nothing announced as fatal did not kill a server that a signal ended.
        by_signal = signal_of(end.exit_code) in _KILLS and not (found and found.incident.announced)
        aside = found is not None and found.symptom is None and found.incident.depth == COLLATERAL
        if found is not None and not (by_signal and not reading.wrappers) and not (aside and silent is not None):
            return found if found.symptom is not None else _fallback(reading, found)
        return None if silent is None else _match(reading, silent) or _Finding(incident=silent)
    return None


def _fallback(reading: Reading, found: _Finding) -> _Finding:
    """What can be said of an exception that the table does not know."""
    evidence = _evidence(reading, found.incident, {})
    symptom = next(unknown(evidence), None)
    return found if symptom is None else _Finding(incident=found.incident, symptom=symptom, evidence=evidence)


def _engine_failed(incidents: Iterable[Incident]) -> bool:
    """Whether an engine died, or a server could not listen: before 0.6.3 it said that it was up before it tried."""
    return any((one.announced and one.depth < 2) or _NOT_LISTENING in one.text for one in incidents)


def _choose(reading: Reading) -> _Finding | None:
    """Of the deepest process that raised anything, the first chain with a known symptom, else the first chain.

    An exception that nothing announced as fatal gives way to a known one of a process above it.
    """
    unknown: _Finding | None = None
    fatal = (one for one in reading.incidents if not _survived(reading, one))
    ranked = sorted(fatal, key=lambda one: (one.depth, not one.announced, one.order))
    for _, group in groupby(ranked, key=lambda one: (one.depth, one.announced)):
        chains = _chains(list(group))
        known = [found for found in map(partial(_best, reading), chains) if found is not None]
        if known:
            return _raised(next((one for one in known if not (one.symptom and one.symptom.reports)), known[0]), known)
        if unknown is None:
            unknown = _Finding(incident=_root_of(chains[0]))
        if unknown.incident.announced:
            break
    return unknown


def _raised(chosen: _Finding, known: Sequence[_Finding]) -> _Finding:
    """The exception that says the same as a line that only logged it."""
    if chosen.incident.file:
        return chosen
    return next((one for one in known if one.incident.file and one.name == chosen.name), chosen)


def _survived(reading: Reading, incident: Incident) -> bool:
    """Whether the boot goes on after an exception that nothing said to be fatal, and nothing failed later."""
    if incident.announced or not incident.file or reading.wrappers or reading.boot.current is None:
        return False
    return incident.aside or STAGES.index(reading.boot.current) > STAGES.index(incident.stage)


def _chains(incidents: Sequence[Incident]) -> list[list[Incident]]:
    chains: dict[int, list[Incident]] = {}
    for one in incidents:
        chains.setdefault(one.chain, []).append(one)
    return list(chains.values())


def _best(reading: Reading, chain: Sequence[Incident]) -> _Finding | None:
    """The most specific symptom of a chain."""
    found = [match for match in map(partial(_match, reading), chain) if match is not None]
    return min(found, key=lambda one: one.rank, default=None)


def _root_of(chain: Sequence[Incident]) -> Incident:
    for one in chain:
        name = one.text.partition(":")[0].rpartition(".")[2]
        if name not in _LOOKUPS:
            return one
    return chain[0]


def _match(reading: Reading, incident: Incident) -> _Finding | None:
    for index in (*_FATAL, *_NOTICES):
        found = _try(reading, index, incident)
        if found is not None:
            return found
    return None


def _notice(reading: Reading, name: str) -> _Finding | None:
    for index in _NOTICES:
        if SYMPTOMS[index].id == name:
            found = _try(reading, index, reading.notices[name])
            if found is not None:
                return found
    return None


def _try(reading: Reading, index: int, incident: Incident) -> _Finding | None:
    symptom = SYMPTOMS[index]
    if symptom.frames is not None and not re.search(symptom.frames, incident.frames, re.MULTILINE):
        return None
    for pattern in _PATTERNS[index]:
        match = pattern.search(incident.text)
        if match is None:
            continue
        groups = {name: text for name, text in match.groupdict().items() if text is not None}
        evidence = _evidence(reading, incident, groups)
        if symptom.when is None or symptom.when(evidence):
            return _Finding(incident=incident, symptom=symptom, evidence=evidence, rank=index)
    return None


def _evidence(reading: Reading, incident: Incident, groups: dict[str, str]) -> Evidence:
    return Evidence(
        incident=incident,
        groups=groups,
        arguments=reading.arguments,
        boot=reading.boot,
        counts=reading.counts,
        figures=reading.figures,
        has_head=reading.has_head,
    )
