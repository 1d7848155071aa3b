"""`cockpit serve SLUG`: start a server that outlives the shell; --wait follows its boot."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from cockpit.cli.options import plan_options, verb
from cockpit.cli.output import emit, say, tell
from cockpit.cli.planned import planned
from cockpit.errors import CockpitError, FailedError
from cockpit.units import duration, tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cockpit.launch.types import LaunchPlan
    from cockpit.rules.finding import Finding
    from cockpit.session import Session
    from cockpit.supervisor.boot_pace import Pace
    from cockpit.supervisor.boot_watch import Progress
    from cockpit.supervisor.diagnose.types import Diagnosis
    from cockpit.supervisor.record import InstanceRecord
    from cockpit.supervisor.spawn import Running

_LAST_LINES = 20
_REPEAT_SECONDS = 60.0


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = verb(verbs, "serve", "start a slug's server, detached", run)
    plan_options(parser)
    parser.add_argument("--wait", action="store_true", help="follow the boot until it is ready or dead")
    parser.add_argument(
        "--timeout",
        type=float,
        metavar="SECONDS",
        help="with --wait: give up waiting after this; without it, once nothing comes of the boot any more",
    )
    parser.add_argument(
        "--fix", action="store_true", help="start a dead server of that name or slug again, with its diagnosis's fix"
    )
    parser.add_argument("--force", action="store_true", help="pass what only this rig stands against")


def run(arguments: argparse.Namespace) -> int:
    """Start; exit 0 when started (or ready), 1 when it died or was not ready in time, 2 when refused."""
    from cockpit.session import Session, describe, refuse_if_blocked

    if arguments.timeout is not None and not 0 < arguments.timeout < float("inf"):
        raise CockpitError("--timeout takes seconds", fix="Use a number above 0, with --wait.")
    session = Session()
    plan, silent = _fixed(session, arguments) if arguments.fix else planned(session, arguments)
    refuse_if_blocked(plan, arguments.force)
    beside = session.serving(plan.slug)
    running = session.start(plan, arguments.force)
    # Only now: where nothing can be started, the one reason is all there is to say.
    for finding in (*plan.findings, *silent):
        if finding.severity != "block":
            tell(describe(finding))
    for one in beside:
        tell(f"· {one.name} serves {plan.slug} already, at {one.url}; this one is a further server of it.")
    tell(f"{running.record.name} started, pid {_pid(running)}, log {running.record.log}")
    if not arguments.wait:
        if arguments.json:
            emit({**_started_json(running), "beside": [one.name for one in beside]})
        else:
            say(f"{running.record.name}  {running.record.url}  `cockpit top {running.record.name}` follows it.")
        return 0
    return _wait(running, arguments, beside)


def _fixed(session: Session, arguments: argparse.Namespace) -> tuple[LaunchPlan, tuple[Finding, ...]]:
    """The plan of a dead instance with the first fix that can be applied; what it changes is told."""
    from cockpit.supervisor.again import command_changes, usable_fix

    if arguments.settings or arguments.engine:
        raise CockpitError("--fix keeps the values that the server had", fix="Leave out --set and --engine.")
    diagnosis = session.diagnosis(arguments.slug)
    record = session.running(arguments.slug).record
    if diagnosis is None:
        raise CockpitError(f"{record.name} is not dead", fix=f"`cockpit ps` shows it; `cockpit stop {record.name}`.")
    if diagnosis.explanation:
        tell(f"{record.name} died: {diagnosis.explanation}")
    fix = usable_fix(diagnosis, record.platform)
    if fix is None:
        advice = " ".join(one.text for one in diagnosis.fixes) or f"Its log is {record.log}."
        raise CockpitError(f"nothing that a new start can set helps {record.name}", fix=advice)
    plan = session.plan_again(record, fix)
    tell(fix.text)
    for change in command_changes(record, plan):
        for sign, text in (("-", change.before), ("+", change.after)):
            if text is not None:
                tell(f"  {sign} {text}")
    return plan, ()


def _pid(running: Running) -> int | None:
    return running.record.process.pid if running.record.process else None


def _wait(running: Running, arguments: argparse.Namespace, beside: Sequence[InstanceRecord]) -> int:
    try:
        progress = follow(running, arguments.timeout)
    except KeyboardInterrupt:
        tell(f"No longer waiting; {running.record.name} goes on. `cockpit stop {running.record.name}` ends it.")
        raise
    if arguments.json:
        emit({**served_json(running, progress), "beside": [one.name for one in beside]})
    if progress.life == "ready":
        if not arguments.json:
            say(f"{running.record.name} is ready after {progress.seconds:.1f} s at {running.record.url}")
        return 0
    error = death(running, progress)
    if arguments.json:
        tell(f"cockpit: {error.sentence()}")
        return 1
    raise error


def follow(running: Running, timeout: float | None = None) -> Progress:
    """Tell the stages on stderr as they come, until ready, dead or out of time; the last progress."""
    from cockpit.supervisor.boot_state import STAGE_NAMES
    from cockpit.supervisor.boot_watch import wait_ready

    told: set[str] = set()
    silence = _SilenceTeller()
    last = None
    for progress in wait_ready(running, timeout):
        if progress.problem:
            tell(f"⚠ {progress.problem}")
        if last is None and progress.pace is not None:
            tell(f"  expected     {_expected_text(progress.pace)}")
        last = progress
        for stage in progress.boot.stages:
            if stage.ended is not None and stage.id not in told:
                told.add(stage.id)
                took = f"{STAGE_NAMES[stage.id]:<12} {stage.seconds or 0:6.1f} s"
                tell(f"  {took}  {stage.progress}{_left_text(progress)}".rstrip())
        if not progress.hopeless:  # else it is the last word
            silence.tell(progress)
    if last is None:
        raise FailedError("the boot could not be followed", fix=f"See {running.record.log}.")
    return last


class _SilenceTeller:
    """Says why a boot is silent when that begins, when the reason changes, and once a minute."""

    def __init__(self) -> None:
        self._told: tuple[str, int] | None = None

    def tell(self, progress: Progress) -> None:
        """A line on stderr, unless it was said already."""
        silence = progress.silence
        if silence is None:
            self._told = None
            return
        now = (silence.id, int(silence.seconds // _REPEAT_SECONDS))
        if now != self._told:
            self._told = now
            glyph = "⚠" if silence.alarm else "·"
            text = f"silent for {duration(silence.seconds)}: {silence.sentence}. {silence.fix}".rstrip()
            tell(f"  {glyph} {text}")


def _expected_text(pace: Pace) -> str:
    of = "1 boot" if pace.boots == 1 else f"the last {pace.boots} boots"
    return f"{duration(pace.expected_seconds)}, by {of} on this rig"


def _left_text(progress: Progress) -> str:
    pace = progress.pace
    if pace is None or progress.life != "starting" or pace.remaining_seconds < 1:
        return ""
    return f"  about {duration(pace.remaining_seconds)} left"


def death(running: Running, progress: Progress) -> CockpitError:
    """What to say of a server that is not ready: its exit code, its first exception, its last lines."""
    from cockpit.supervisor.ending import ending, likely_cause
    from cockpit.supervisor.logfile import last_lines
    from cockpit.supervisor.store import exists

    record = running.record
    if progress.life == "starting":
        return _not_ready(record, progress)
    if not exists(record.name):
        return FailedError(f"{record.name} was stopped by someone else while it started", fix="Start it again.")
    for line in last_lines(record.log, _LAST_LINES):
        tell(f"  | {line}")
    cause = progress.boot.first_exception or likely_cause(progress.exit_code) or ""
    how = ending(progress.exit_code)
    if progress.diagnosis is not None and progress.diagnosis.explanation:
        cause = f"{progress.diagnosis.explanation.rstrip('.')}: {cause}" if cause else progress.diagnosis.explanation
    return FailedError(f"{record.name} died while it started, {how}", cause, _way_out(record, progress.diagnosis))


def _not_ready(record: InstanceRecord, progress: Progress) -> FailedError:
    """What to say of a server that lives and is no longer waited for."""
    goes_on = f"It goes on; `cockpit logs {record.name} -f` follows it, `cockpit stop {record.name}` ends it."
    silence = progress.silence
    if silence is None or not progress.hopeless:
        return FailedError(f"{record.name} was not ready in time", fix=goes_on)
    detail = f"after {duration(silence.seconds)} in which nothing came of it: {silence.sentence}"
    return FailedError(f"{record.name} does not become ready", detail, f"{silence.fix} {goes_on}".lstrip())


def _way_out(record: InstanceRecord, diagnosis: Diagnosis | None) -> str:
    """What helps: the fix that a new start applies, else the first one in words; and where the log is."""
    from cockpit.supervisor.again import usable_fix

    fix = usable_fix(diagnosis, record.platform)
    log = f"Its whole log is {record.log}."
    if fix is not None:
        return f"{fix.text} `cockpit serve {record.name} --fix` does that. {log}"
    advice = diagnosis.fixes[0].text if diagnosis is not None and diagnosis.fixes else ""
    return f"{advice} {log}".strip()


def _started_json(running: Running) -> dict[str, Any]:
    record = running.record
    return {
        "instance": record.name,
        "slug": record.slug,
        "pid": _pid(running),
        "url": record.url,
        "log": record.log,
        "state": "starting",
        "boot_seconds": None,
        "expected_boot_seconds": expected_boot_seconds(record),
        "stages": [],
        "kv": None,
        "diagnosis": None,
    }


def served_json(running: Running, progress: Progress) -> dict[str, Any]:
    """`cockpit serve --wait --json`."""
    from cockpit.cli.shapes import diagnosis_json, stages_json
    from cockpit.supervisor.logfile import last_lines

    facts = progress.boot.facts
    dead = progress.life == "dead"
    return {
        **_started_json(running),
        "state": progress.life,
        "boot_seconds": round(progress.seconds, 3) if progress.life == "ready" else None,
        "stages": stages_json(progress.boot),
        "kv": {"capacity_tokens": facts.capacity_tokens, "max_concurrency": facts.max_concurrency},
        "diagnosis": None if progress.diagnosis is None else diagnosis_json(progress.diagnosis),
        "not_awaited": _not_awaited_json(progress),
        "exit_code": progress.exit_code,
        "first_exception": progress.boot.first_exception if dead else None,
        "last_lines": last_lines(running.record.log, _LAST_LINES) if dead else [],
    }


def _not_awaited_json(progress: Progress) -> dict[str, Any] | None:
    """Why a server that lives is no longer waited for; None for one that is ready, dead or out of time."""
    silence = progress.silence if progress.hopeless else None
    return None if silence is None else {"id": silence.id, "sentence": silence.sentence, "fix": silence.fix}


def expected_boot_seconds(record: InstanceRecord) -> float | None:
    """What earlier boots like this one took, for the JSON of `serve` and `ps`."""
    from cockpit.supervisor.boot_history import expected_of

    expected = expected_of(record)
    return None if expected is None else round(expected.seconds, 3)


def capacity_text(progress: Progress) -> str:
    """``2,097,152 tokens``, as the boot log gave it."""
    return f"{tokens(progress.boot.facts.capacity_tokens)} tokens"
