"""`cockpit diagnose FILE|FOLDER|-|NAME`: root cause and fix of any vLLM log, or of many in a table."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cockpit.cli.options import verb
from cockpit.cli.output import emit, prose_table, say, tell
from cockpit.errors import CockpitError
from cockpit.units import tokens

if TYPE_CHECKING:
    from cockpit.supervisor.boot_state import BootFacts
    from cockpit.supervisor.diagnose.types import Diagnosis, Fix


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = verb(verbs, "diagnose", "say why a server died, from its log", run)
    parser.add_argument(
        "source",
        metavar="FILE|FOLDER|-|NAME",
        help="a log of any vLLM, a folder of logs or a YAML list of cases with a `log`, - for stdin, an instance",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the diagnosis; exit 0 whatever it says, 2 when there is nothing to read."""
    from cockpit.cli.shapes import diagnosis_json
    from cockpit.supervisor.diagnose.folder import holds_many

    if arguments.source != "-" and holds_many(Path(arguments.source).expanduser()):
        return _many(Path(arguments.source).expanduser(), arguments.json)
    diagnosis = _diagnosis(arguments.source)
    if arguments.json:
        emit(diagnosis_json(diagnosis))
        return 0
    for line in text_lines(diagnosis):
        say(line)
    return 0


def _many(source: Path, as_json: bool) -> int:
    """A table of case, symptom and best fix; on stderr how many are healthy, explained, and not."""
    from cockpit.cli.shapes import diagnosis_json
    from cockpit.supervisor.diagnose.folder import Case, diagnose_many

    def shape(case: Case) -> dict[str, Any]:
        read = {} if case.diagnosis is None else diagnosis_json(case.diagnosis)
        return {"case": case.name, "problem": case.problem, **read}

    cases = list(diagnose_many(source))
    if as_json:
        emit([shape(case) for case in cases])
    else:
        rows = [
            [case.name, _verdict(case.diagnosis), _best_fix(case.diagnosis) or case.problem or ""] for case in cases
        ]
        prose_table(["CASE", "SYMPTOM", "FIX"], rows, cut=0)
    counts = Counter(_kind(case.diagnosis) for case in cases)
    tell(", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())))
    return 0


def _kind(diagnosis: Diagnosis | None) -> str:
    if diagnosis is None:
        return "not read"
    if diagnosis.symptom:
        return "explained"
    return _verdict(diagnosis)


def _verdict(diagnosis: Diagnosis | None) -> str:
    """The symptom, or what else can be said in a word or two."""
    if diagnosis is None:
        return "not read"
    if diagnosis.symptom:
        return diagnosis.symptom
    if diagnosis.first_exception:
        return "unknown"
    return "healthy" if diagnosis.healthy else "no failure told"


def _best_fix(diagnosis: Diagnosis | None) -> str:
    if diagnosis is None or not diagnosis.fixes or not diagnosis.symptom:
        return "" if diagnosis is None else diagnosis.first_exception or ""
    return fix_text(diagnosis.fixes[0])


def _diagnosis(source: str) -> Diagnosis:
    """Of a file where there is one, else of an instance."""
    from cockpit.session import Session
    from cockpit.supervisor.diagnose.files import diagnose_file

    if source == "-" or Path(source).expanduser().exists() or source.startswith(("/", ".", "~")):
        return diagnose_file(source)
    session = Session()
    try:
        session.running(source)
    except CockpitError as error:
        if Path(source).suffix:
            return diagnose_file(source)
        raise CockpitError(f"{source} is neither a log file nor an instance", error.title, error.fix) from error
    return session.diagnose(source)


def text_lines(diagnosis: Diagnosis) -> list[str]:
    """One sentence, the exception with its place, the fixes, notes and figures."""
    lines = [headline(diagnosis)]
    if diagnosis.first_exception:
        place = f"  ({diagnosis.place})" if diagnosis.place else ""
        lines.append(f"  {diagnosis.first_exception}{place}")
    lines += [f"  → {fix_text(fix)}" for fix in diagnosis.fixes]
    lines += [f"  · {note}" for note in diagnosis.notes]
    facts = _facts(diagnosis.boot.facts)
    return [*lines, f"  {facts}"] if facts else lines


def headline(diagnosis: Diagnosis) -> str:
    """What happened, in a sentence or two."""
    if diagnosis.explanation:
        return diagnosis.explanation
    if diagnosis.first_exception:
        return "The server died of something that is not in the table of symptoms; its first exception says what."
    if diagnosis.healthy:
        return "The server came up, and nothing in its log says that it died."
    if diagnosis.ready:
        return "The server came up and ended; its log does not say why."
    stage = diagnosis.boot.current
    if stage == "environment" and not _facts(diagnosis.boot.facts):
        return "This log does not say how far a vLLM server came: it is empty, a short excerpt, or not vLLM's."
    return f"The server is not ready at the end of this log (stage: {stage}); nothing says that it died."


def fix_text(fix: Fix) -> str:
    """A fix with what the cockpit can set for it."""
    settings = [f"--set {name}={value}" for name, value in fix.set.items()]
    settings += [f"{name}={value}" if value is not None else f"unset {name}" for name, value in fix.env.items()]
    return fix.text + (f"  [{' '.join(settings)}]" if settings else "")


def _facts(facts: BootFacts) -> str:
    parts = [
        facts.vllm_version and f"vLLM {facts.vllm_version}",
        facts.architecture,
        facts.weights_gib is not None and f"weights {facts.weights_gib:.2f} GiB",
        facts.available_kv_gib is not None and f"KV {facts.available_kv_gib:.2f} GiB",
        facts.capacity_tokens is not None and f"{tokens(facts.capacity_tokens)} tokens",
        facts.max_model_len is not None and f"context {tokens(facts.max_model_len)}",
        facts.max_concurrency is not None and f"{facts.max_concurrency:,g} requests at full context",
        facts.attention_backend,
        *(f"{kind}: {kernel}" for kind, kernel in facts.kernels.items()),
    ]
    return " · ".join(part for part in parts if part)
