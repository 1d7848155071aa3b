"""`cockpit top NAME`: live figures as text or JSON, of an instance or of any vLLM URL."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from cockpit import units
from cockpit.cli.options import verb
from cockpit.cli.output import emit, say

if TYPE_CHECKING:
    from cockpit.supervisor.against import Against
    from cockpit.supervisor.others import Other
    from cockpit.telemetry.frame import Frame


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = verb(verbs, "top", "show live figures", run)
    parser.add_argument("name", nargs="?", metavar="NAME", help="the instance, or its slug")
    parser.add_argument("--url", help="a vLLM server that is not an instance, e.g. http://127.0.0.1:8000")
    parser.add_argument("--once", action="store_true", help="measure one window and end")
    parser.add_argument("--seconds", type=float, default=10.0, metavar="S", help="the window, 10 unless given")


def run(arguments: argparse.Namespace) -> int:
    """Print figures; --json implies --once. Exit 1 when the server does not answer."""
    from cockpit.errors import CockpitError

    if (arguments.name is None) == (arguments.url is None):
        raise CockpitError("top needs one server", fix="Give the NAME of an instance (`cockpit ps`) or a --url.")
    if not 0.1 <= arguments.seconds <= 3600:
        raise CockpitError("--seconds is out of range", fix="Use 0.1 to 3600.")
    if arguments.once or arguments.json:
        return _once(arguments)
    return _live(arguments)


def _once(arguments: argparse.Namespace) -> int:
    from cockpit.telemetry.sampler import frame_to_json

    frame = measure(arguments.name, arguments.url, arguments.seconds)
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

    record = Session().running(name).record
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
        line += f"; {units.gib(size.forecast, 2)} GiB of KV cache a GPU, {units.gib(size.actual, 2)} came of it"
    return [line]


def measure(name: str | None, url: str | None, seconds: float) -> Frame:
    """One frame over a window. Raises FailedError when the server does not answer."""
    from cockpit.errors import FailedError
    from cockpit.session import Session
    from cockpit.supervisor.boot import boot_of
    from cockpit.supervisor.process import members_of
    from cockpit.supervisor.ready import state_of
    from cockpit.telemetry.int8 import int8_of
    from cockpit.telemetry.sampler import sample_window

    if url is not None:
        return sample_window(url, seconds, read_gpus=False, state="foreign")
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
    int8 = int8_of(record, boot_of(record.log, record.created_at))
    return sample_window(
        record.url,
        seconds,
        state=state,
        pids=lambda: [who.pid for who in members_of(record)],
        gpu_indices=record.gpus or None,
        int8=lambda: int8,
    )


def _measure_other(other: Other, seconds: float) -> Frame:
    """One frame of a server that no cockpit started."""
    from cockpit.errors import FailedError
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
        pids=(lambda: [who.pid for who in members_of(record)]) if other.processes else None,
        gpu_indices=other.gpus or None,
        read_gpus=bool(other.processes),
    )


def _live(arguments: argparse.Namespace) -> int:
    """A block of figures a second until Ctrl-C or the end of the server."""
    from cockpit.session import Session
    from cockpit.supervisor.against import against
    from cockpit.telemetry.sampler import Sampler

    if arguments.url is not None:
        sampler = Sampler(arguments.url, window_seconds=arguments.seconds, read_gpus=False)
        try:
            while True:
                _print_block(sampler.tick(time.time(), "foreign"))
                time.sleep(1.0)
        finally:
            sampler.close()
    watch = Session().watch(arguments.name)
    try:
        while True:
            seen = watch.tick()
            if seen.state == "starting":
                say(f"starting: {seen.boot.current or 'environment'} {seen.boot_seconds:.0f} s")
            else:
                _print_block(seen.frame)
                for line in forecast_lines(against(seen.record, seen.boot.facts, seen.frame.kv.capacity_tokens)):
                    say(line)
            if seen.state == "dead":
                say(f"{seen.record.name} is dead.")
                return 1
            time.sleep(1.0)
    finally:
        watch.close()


def _print_block(frame: Frame) -> None:
    say(time.strftime("── %H:%M:%S ", time.localtime(frame.at)) + f"{frame.state} " + "─" * 40)
    for line in figure_lines(frame):
        say(line)


def figure_lines(frame: Frame) -> list[str]:
    """The figures of one frame as lines of text."""
    from cockpit.telemetry import text

    rates, requests, latency, prefix = frame.throughput, frame.requests, frame.latency, frame.prefix_cache
    lines = [
        f"prefill   {text.prefill_speed(rates)} tok/s {text.prefill_kind(rates)}, "
        f"{units.rate(rates.cached_prefill_tokens_per_second)} cached",
        f"decode    {units.rate(rates.decode_tokens_per_second)} tok/s, "
        f"{units.rate(rates.decode_tokens_per_second_per_request)} a stream",
        f"KV pool   {units.percent(frame.kv.used_fraction, 1)}  {text.pool_amount(frame.kv)}",
        f"requests  {units.tokens(requests.running)} running, {units.tokens(requests.waiting)} waiting",
        f"latency   TTFT {text.latency(latency.ttft_seconds)}, "
        + text.between_tokens(latency.inter_token_seconds, frame.speculative),
        f"prefix    {text.prefix_hits(prefix)}, {units.percent(prefix.hit_fraction_lifetime)} all time",
    ]
    if frame.speculative is not None:
        lines.append(f"draft     {text.draft(frame.speculative)}")
    if frame.int8.requested:
        lines.append(f"int8      {text.int8(frame.int8)}")
    for gpu in frame.gpus:
        at_most = "at most " if gpu.share_basis == "exclusion" else ""
        lines.append(
            f"GPU{gpu.index}      {units.gib(gpu.used_bytes)} of {units.gib(gpu.total_bytes)} GiB, "
            f"this {at_most}{units.gib(gpu.instance_bytes)}, {units.percent(gpu.utilization_fraction)}"
            + (f", held down: {', '.join(gpu.throttle)}" if gpu.throttle else "")
        )
    if frame.gpu_problem:
        lines.append(f"GPU       {frame.gpu_problem}")
    if frame.host is not None and not frame.gpus:
        lines.append(
            f"host      {units.gib(frame.host.memory_used_bytes)} of {units.gib(frame.host.memory_total_bytes)} GiB, "
            f"this {units.gib(frame.host.instance_bytes)}"
        )
    return [*lines, *(f"note      {note}" for note in frame.notes)]
