"""`cockpit ps`: every server of this host, on record or not."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cockpit.cli.options import verb
from cockpit.cli.output import emit, say, table, tell
from cockpit.units import UNKNOWN, duration

if TYPE_CHECKING:
    from cockpit.fleet import InstanceView
    from cockpit.supervisor.others import Other

_LOOKS_AT_ONCE = 8


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    verb(verbs, "ps", "list the servers of this host, also those that no cockpit started", run)


def instance_json(view: InstanceView, answers: bool | None = None) -> dict[str, Any]:
    """One row of `cockpit ps` for an instance on record."""
    record = view.record
    return {
        "instance": record.name,
        "slug": record.slug,
        "model": record.served_model_name,
        "pid": record.process.pid if record.process else None,
        "state": view.state,
        "url": record.url,
        "started_at": record.created_at,
        "ready_at": record.ready_at,
        "exit_code": record.exit_code,
        "gpus": record.gpus,
        "log": record.log,
        "kind": "own",
        "answers": answers,
        "orphans": _survivors(view),
        "segments": _segments(view),
        "symptom": None if view.diagnosis is None else view.diagnosis.symptom,
        "explanation": None if view.diagnosis is None else view.diagnosis.explanation,
    }


def other_json(other: Other, answers: bool | None = None) -> dict[str, Any]:
    """One row for what no record holds: orphans count as dead, what does not listen yet as starting, else foreign."""
    orphans = other.kind == "orphans"
    starting = other.is_starting and not answers
    return {
        "instance": other.name,
        "slug": None,
        "model": other.model,
        "pid": other.pid,
        "state": "dead" if orphans else "starting" if starting else "foreign",
        "url": other.url,
        "started_at": other.started_at,
        "ready_at": None,
        "exit_code": None,
        "gpus": other.gpus,
        "log": None,
        "kind": other.kind,
        "answers": answers,
        "orphans": [who.pid for who in other.processes] if orphans else [],
        "segments": [],
        "symptom": None,
        "explanation": None,
    }


def _survivors(view: InstanceView) -> list[int]:
    """Processes of a dead instance that still run."""
    from cockpit.supervisor.process import members_of

    return [who.pid for who in members_of(view.record)] if view.state == "dead" else []


def _segments(view: InstanceView) -> list[str]:
    """Shared memory of a dead instance that nobody has mapped any more."""
    from cockpit.supervisor.shared_memory import leftovers

    return sorted(one.path for one in leftovers(view.record.segments)) if view.state == "dead" else []


def _answers(urls: Sequence[str | None]) -> list[bool | None]:
    """Whether each address answers /health, all asked at once; None where there is none."""
    from concurrent.futures import ThreadPoolExecutor

    from cockpit.supervisor.endpoint import answers_health

    with ThreadPoolExecutor(_LOOKS_AT_ONCE) as pool:
        return list(pool.map(lambda url: None if url is None else answers_health(url), urls))


def run(arguments: argparse.Namespace) -> int:
    """Print the servers, dead ones included until they are stopped or started again."""
    from cockpit.session import Session
    from cockpit.supervisor.port_watch import kept_port

    session = Session()
    views, problems = session.instances()
    others, more_problems = session.others()
    for problem in (*problems, *more_problems):
        tell(f"⚠ {problem}")
    asked = [
        *(view.record.url if view.state == "ready" else None for view in views),
        *(None if other.kind == "orphans" else other.url for other in others),
    ]
    answers = _answers(asked)
    rows = [
        *(instance_json(view, said) for view, said in zip(views, answers, strict=False)),
        *(other_json(other, said) for other, said in zip(others, answers[len(views) :], strict=True)),
    ]
    if arguments.json:
        emit(rows)
    elif not rows:
        say("Nothing is served. `cockpit slugs` lists what could be.")
    else:
        ended = [*(view.record.ended_at for view in views), *(None for _ in others)]
        table(
            ["INSTANCE", "SLUG", "STATE", "PID", "URL", "UP"],
            [_text_row(row, end) for row, end in zip(rows, ended, strict=True)],
            right=(3,),
        )
        _tell_troubles(rows)
        for kept in (kept_port(view.record) for view in views if view.state == "starting"):
            if kept:
                tell(f"⚠ {kept}.")
    return 0


def _text_row(row: dict[str, Any], ended_at: float | None) -> list[str]:
    started = row["started_at"]
    return [
        row["instance"],
        row["slug"] or row["model"] or UNKNOWN,
        "orphans" if row["kind"] == "orphans" else row["state"],
        UNKNOWN if row["pid"] is None else str(row["pid"]),
        row["url"] or UNKNOWN,
        UNKNOWN if started is None else duration(max(0.0, (ended_at or time.time()) - started)),
    ]


def _tell_troubles(rows: Sequence[dict[str, Any]]) -> None:
    """What the table cannot say: who does not answer, and what of the dead still runs."""
    for row in rows:
        name = row["instance"]
        if row["explanation"]:
            tell(f"✕ {name}: {row['explanation']} `cockpit diagnose {name}` says more.")
        if row["answers"] is False and row["kind"] == "own":
            tell(f"⚠ {name} runs and does not answer on {row['url']}. `cockpit logs {name}` shows its last lines.")
        elif row["answers"] is False and row["state"] == "starting":
            tell(f"· {name} does not listen on {row['url']} yet: it loads, or hangs.")
        elif row["answers"] is False:
            tell(f"⚠ {name} does not answer on {row['url']}: it loads, hangs, or is gone.")
        if row["orphans"]:
            pids = ", ".join(map(str, row["orphans"]))
            tell(f"⚠ Processes of {name} still run ({pids}) and hold its memory. `cockpit stop {name}` ends them.")
        elif row["segments"]:
            left = ", ".join(row["segments"])
            tell(f"⚠ {name} left shared memory that nobody uses ({left}). `cockpit stop {name}` unlinks it.")
