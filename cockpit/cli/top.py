"""`cockpit top NAME`: live figures as text or JSON, of an instance or of any vLLM URL, or of several at once.

Several URLs in a terminal are the fleet's screen.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from cockpit import units
from cockpit.cli.figures_text import figure_lines, say_block
from cockpit.cli.options import verb
from cockpit.cli.output import emit, say, tell
from cockpit.errors import CockpitError, FailedError

if TYPE_CHECKING:
    from cockpit.supervisor.against import Against
    from cockpit.supervisor.others import Other
    from cockpit.telemetry.frame import Frame
    from cockpit.watch import Observation, Watch


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = verb(verbs, "top", "show live figures", run)
    parser.add_argument("name", nargs="?", metavar="NAME", help="the instance, or its slug")
    parser.add_argument(
        "--url",
        action="append",
        default=[],
        help="a vLLM server that is not an instance, e.g. http://127.0.0.1:8000; several are shown side by side",
    )
    parser.add_argument("--once", action="store_true", help="measure one window and end")
    parser.add_argument("--seconds", type=float, default=10.0, metavar="S", help="the window, 10 unless given")
    parser.add_argument("--for", dest="limit", type=float, metavar="S", help="end after so many seconds")
    parser.add_argument("--text", action="store_true", help="no screen for several servers, also in a terminal")
    parser.add_argument("--record", metavar="FILE", help="write what is seen to a tape for `cockpit replay`")


def run(arguments: argparse.Namespace) -> int:
    """Print figures; --json implies --once. Exit 1 when a server does not answer."""
    if (arguments.name is None) == (not arguments.url):
        raise CockpitError("top needs one server", fix="Give the NAME of an instance (`cockpit ps`) or a --url.")
    if not 0.1 <= arguments.seconds <= 3600:
        raise CockpitError("--seconds is out of range", fix="Use 0.1 to 3600.")
    if arguments.limit is not None and not 0 < arguments.limit <= 36_000:
        raise CockpitError("--for is out of range", fix="Use seconds up to 36000, which are ten hours.")
    once = arguments.once or arguments.json
    if once and (arguments.record or arguments.limit):
        raise CockpitError("--record and --for need more than one look", fix="Leave --once and --json out.")
    if len(arguments.url) > 1:
        from cockpit.cli import fleet

        if arguments.record:
            raise CockpitError("a tape holds one server", fix="Give one --url.")
        return fleet.once(arguments) if once else fleet.live(arguments)
    return _once(arguments) if once else _live(arguments)


def _once(arguments: argparse.Namespace) -> int:
    from cockpit.telemetry.sampler import frame_to_json

    frame = measure(arguments.name, arguments.url[0] if arguments.url else None, arguments.seconds)
    compared = None if arguments.name is None else _compared(arguments.name, frame)
    if arguments.json:
        emit({**frame_to_json(frame), "forecast": compared})
    else:
        for line in (*figure_lines(frame), *forecast_lines(compared)):
            say(line)
    return 0


def _compared(name: str, frame: Frame) -> Against | None:
    """Forecast against actual of an instance; None where there was no forecast."""
    from cockpit.session import Session
    from cockpit.supervisor.against import against
    from cockpit.supervisor.memory_history import facts_of

    session = Session()
    if session.other(name) is not None:
        return None
    record = session.running(name).record
    return against(record, facts_of(record), frame.kv.capacity_tokens)


def forecast_lines(compared: Against | None) -> list[str]:
    """One line of forecast against actual; none where either is unknown."""
    if compared is None or compared.kv_capacity_tokens.forecast is None:
        return []
    capacity, size = compared.kv_capacity_tokens, compared.kv_bytes
    line = f"forecast  {units.tokens(capacity.forecast)} tokens"
    if capacity.actual is not None and capacity.forecast is not None:
        off = capacity.actual - capacity.forecast
        line += f", {units.tokens(capacity.actual)} came of it ({off:+,})"
    if size.forecast is not None:
        line += f"; {units.gib(size.forecast, 2)} GiB of KV cache a rank, {units.gib(size.actual, 2)} came of it"
    return [line]


def measure(name: str | None, url: str | None, seconds: float) -> Frame:
    """One frame over a window. Raises FailedError when the server does not answer."""
    from cockpit.api_key import find_api_key
    from cockpit.session import Session
    from cockpit.supervisor.boot import boot_of
    from cockpit.supervisor.process import members_of
    from cockpit.supervisor.ready import state_of
    from cockpit.telemetry.int8 import int8_of
    from cockpit.telemetry.pool import pool_of
    from cockpit.telemetry.sampler import sample_window

    if url is not None:
        key = find_api_key(os.environ)
        return sample_window(url, seconds, api_key=key, read_gpus=False, read_host=False, state="foreign")
    session = Session()
    other = session.other(name or "")
    if other is not None:
        return _measure_other(other, seconds)
    record = session.running(name or "").record
    state = state_of(record)
    if state in ("starting", "dead"):
        raise FailedError(
            f"{record.name} is {state}, so it has no live figures",
            fix=f"`cockpit logs {record.name}` shows what it says.",
        )
    boot = boot_of(record.log, record.created_at)
    int8, pool = int8_of(record, boot), None if boot is None else pool_of(boot.facts)
    return sample_window(
        record.url,
        seconds,
        state=state,
        pids=lambda: [who.pid for who in members_of(record)],
        gpu_indices=record.gpus,
        read_gpus=bool(record.gpus),
        int8=lambda: int8,
        log_pool=lambda: pool,
        expects_draft=bool(record.values.get("speculative_tokens")),
    )


def _measure_other(other: Other, seconds: float) -> Frame:
    """One frame of a server that no cockpit started; the key is for one that the user adopted by its address."""
    from cockpit.api_key import find_api_key
    from cockpit.supervisor.others import as_record
    from cockpit.supervisor.process import members_of
    from cockpit.telemetry.sampler import sample_window

    if other.url is None or other.kind == "orphans":
        raise FailedError(f"{other.name} has no address to ask", other.what[:200])
    record = as_record(other)
    return sample_window(
        other.url,
        seconds,
        state="foreign",
        api_key=find_api_key(os.environ) if other.kind == "adopted" else None,
        pids=(lambda: [who.pid for who in members_of(record)]) if other.processes else None,
        gpu_indices=other.gpus or None,
        read_gpus=bool(other.processes),
    )


def _follower(arguments: argparse.Namespace) -> Watch:
    from cockpit.session import Session
    from cockpit.watch import watch_url

    if arguments.url:
        from cockpit.api_key import find_api_key

        return watch_url(arguments.url[0], find_api_key(os.environ), arguments.seconds)
    return Session().watch(arguments.name)


def _live(arguments: argparse.Namespace) -> int:
    """A block of figures a second until Ctrl-C, --for, or the end of the server; a tape beside it when wanted."""
    from cockpit.tape import TapeWriter

    watch = _follower(arguments)
    tape = TapeWriter(Path(arguments.record)) if arguments.record else None
    until = None if arguments.limit is None else time.monotonic() + arguments.limit
    try:
        while until is None or time.monotonic() < until:
            began = time.monotonic()
            seen = watch.tick()
            _say(seen)
            if tape is not None and not tape.add(seen):
                tell(f"{arguments.record} is full after {tape.count:,} looks")
                break
            if seen.state == "dead":
                say(f"{seen.record.name} is dead.")
                return 1
            time.sleep(max(0.0, began + 1.0 - time.monotonic()))
        return 0
    finally:
        watch.close()
        if tape is not None:
            tape.close()
            tell(f"{tape.count:,} looks are in {arguments.record}; `cockpit replay {arguments.record}` shows them")


def _say(seen: Observation) -> None:
    from cockpit.supervisor.against import against

    if seen.state == "starting":
        say(f"starting: {seen.boot.current or 'environment'} {seen.boot_seconds:.0f} s")
    else:
        say_block(seen.frame)
        for line in forecast_lines(against(seen.record, seen.boot.facts, seen.frame.kv.capacity_tokens)):
            say(line)
