"""Several servers as one table, a row each: they are asked at the same time, and one that is slow holds up none."""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import msgspec

from cockpit import units
from cockpit.cli.output import emit, say, table
from cockpit.errors import CockpitError, FailedError

if TYPE_CHECKING:
    from cockpit.fleet_watch import Look
    from cockpit.telemetry.frame import Frame

_HEADERS = ("server", "prefill", "cached", "decode", "a stream", "run", "wait", "KV", "TTFT p95", "hits", "draft", "")
_RIGHT = tuple(range(1, len(_HEADERS) - 1))


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """One row: figures, or why there are none."""

    url: str
    frame: Frame | None = None
    error: str | None = None


def once(arguments: argparse.Namespace) -> int:
    """One window of all; exit 1 when any of them gives no figures."""
    servers = measure_all(_urls(arguments), arguments.seconds)
    if arguments.json:
        emit([_plain(server) for server in servers])
    else:
        _say_table(servers)
    return 1 if any(server.frame is None for server in servers) else 0


def live(arguments: argparse.Namespace) -> int:
    """The fleet's screen in a terminal that has room for it; else a table a second until Ctrl-C or --for."""
    from cockpit.terminal import fits_screen

    urls = _urls(arguments)
    if not arguments.text and arguments.limit is None and fits_screen():
        from cockpit.tui.app import run_app

        return run_app(fleet_urls=urls, window_seconds=arguments.seconds)
    return _as_text(urls, arguments.seconds, arguments.limit)


def _as_text(urls: list[str], window_seconds: float, limit_seconds: float | None) -> int:
    from cockpit.api_key import find_api_key
    from cockpit.fleet_watch import FleetWatch, url_target

    watch = FleetWatch(find_api_key(os.environ), window_seconds)
    watch.follow([url_target(url) for url in urls])
    until = None if limit_seconds is None else time.monotonic() + limit_seconds
    try:
        while until is None or time.monotonic() < until:
            began = time.monotonic()
            say(time.strftime("── %H:%M:%S ", time.localtime()) + "─" * 60)
            _say_table([_server_of(look) for look in watch.looks()])
            time.sleep(max(0.0, began + 1.0 - time.monotonic()))
    finally:
        watch.close()
    return 0


def measure_all(urls: list[str], seconds: float) -> list[Server]:
    """One window of each, at the same time."""
    from cockpit.api_key import find_api_key
    from cockpit.telemetry.sampler import sample_window

    key = find_api_key(os.environ)

    def measure(url: str) -> Server:
        try:
            frame = sample_window(url, seconds, api_key=key, read_gpus=False, read_host=False, state="foreign")
        except FailedError as error:
            return Server(url=url, error=error.detail or error.title)
        return Server(url=url, frame=frame)

    with ThreadPoolExecutor(len(urls)) as pool:
        return list(pool.map(measure, urls))


def _urls(arguments: argparse.Namespace) -> list[str]:
    """The URLs, checked before anything is asked; one given twice counts once."""
    from cockpit.fleet_watch import MAX_SERVERS
    from cockpit.telemetry.fetch import metrics_url

    urls = list(dict.fromkeys(arguments.url))
    if len(urls) > MAX_SERVERS:
        raise CockpitError(f"{len(urls)} servers are too many", fix=f"Give at most {MAX_SERVERS}.")
    for url in urls:
        metrics_url(url)
    return urls


def _server_of(look: Look) -> Server:
    url, frame = look.target.url or "", look.frame
    if frame is None or frame.engines is None:
        notes = () if frame is None else frame.notes
        return Server(url=url, error=look.problem or (notes[0] if notes else None))
    return Server(url=url, frame=frame)


def _plain(server: Server) -> dict[str, Any]:
    """One row of the JSON: without an answer it has the same fields, all unknown."""
    from cockpit.telemetry.frame import Frame
    from cockpit.telemetry.sampler import frame_to_json

    frame = server.frame or Frame(at=time.time(), state="foreign")
    return {"url": without_user(server.url), "error": server.error, **frame_to_json(frame)}


def without_user(url: str) -> str:
    """The URL without the user and password that may stand in it."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])) if "@" in parts.netloc else url


def _say_table(servers: list[Server]) -> None:
    table(_HEADERS, [row_of(server) for server in servers], _RIGHT)


def row_of(server: Server) -> tuple[str, ...]:
    """The cells of one server."""
    from cockpit.telemetry import text

    name = without_user(server.url).split("://")[-1]
    frame = server.frame
    if frame is None:
        return (name, *[units.UNKNOWN] * (len(_HEADERS) - 2), server.error or "no figures yet")
    speed, requests, ttft = frame.throughput, frame.requests, frame.latency.ttft_seconds
    draft = frame.speculative
    accepted = None if draft is None else draft.acceptance_length
    return (
        name,
        text.prefill_speed(speed),
        units.rate(speed.cached_prefill_tokens_per_second),
        units.rate(speed.decode_tokens_per_second),
        units.rate(speed.decode_tokens_per_second_per_request),
        units.tokens(requests.running),
        units.tokens(requests.waiting),
        units.percent(frame.kv.used_fraction, 1),
        f"{'> ' if ttft.p95_is_lower_bound else ''}{units.seconds(ttft.p95)}",
        units.percent(frame.prefix_cache.hit_fraction_window),
        units.UNKNOWN if accepted is None else f"{accepted:.2f}",
        f"{frame.age_seconds or 0:.0f} s old" if frame.stale else "",
    )
