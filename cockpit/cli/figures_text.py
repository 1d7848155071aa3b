"""The figures of a frame as lines of text."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from cockpit import units
from cockpit.cli.output import say

if TYPE_CHECKING:
    from cockpit.telemetry.frame import Frame


def say_block(frame: Frame) -> None:
    """One frame under a line with its time and state."""
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
