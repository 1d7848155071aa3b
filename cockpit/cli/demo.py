"""`cockpit demo`: a real vLLM without a GPU, served and watched in some minutes, most of which is the download."""

from __future__ import annotations

import argparse
import os
import time
from typing import TYPE_CHECKING

from cockpit.api_key import find_api_key
from cockpit.cli.engines import progress
from cockpit.cli.options import verb
from cockpit.cli.output import emit, say, tell
from cockpit.errors import FailedError
from cockpit.terminal import is_terminal, require_terminal

if TYPE_CHECKING:
    from cockpit.bench.load import Load
    from cockpit.session import Session
    from cockpit.supervisor.spawn import Running

SLUG = "cpu/tiny-qwen3"
_SECONDS = 10


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = verb(verbs, "demo", "serve a tiny model on the CPU and watch it live", run)
    parser.add_argument("--headless", action="store_true", help="no screen, also in a terminal")


def run(arguments: argparse.Namespace) -> int:
    """With a terminal the instance screen; without one the same job as text, and the server stopped at the end."""
    from cockpit.session import Session
    from cockpit.supervisor.install import install

    screen = is_terminal() and not arguments.headless and not arguments.json
    if screen:
        require_terminal()
    tell("1/3 the CPU build of vLLM (about 3.5 GB the first time)")
    install("cpu", progress)
    session = Session()
    if screen:
        return _on_screen(session)
    return _headless(session, arguments.json)


def _load(running: Running) -> Load:
    from cockpit.bench.load import Load

    # The server inherits the key, so that it asks for it.
    key = find_api_key(os.environ)
    return Load(running.record.url, running.record.served_model_name, api_key=key)


def _on_screen(session: Session) -> int:
    from cockpit.tui.app import run_app

    return run_app(session, demo_slug=SLUG)


def _headless(session: Session, as_json: bool) -> int:
    from cockpit.cli.serve import capacity_text, death, follow

    tell(f"2/3 serving {SLUG}")
    running = session.start(session.plan(SLUG, {}))
    try:
        booted = follow(running)
        if booted.life != "ready":
            raise death(running, booted)
        out = tell if as_json else say
        out(f"ready after {booted.seconds:.1f} s at {running.record.url}, KV capacity {capacity_text(booted)}")
        tell("3/3 ten seconds of live figures under a trickle of real requests")
        frame_json = _figures(session, running, as_json)
    finally:
        result = session.stop(running.record.name, tell)
        tell(f"stopped after {result.seconds:.1f} s" if result.stopped else f"left over: {list(result.orphans)}")
    if as_json:
        emit(frame_json)
    return 0 if result.stopped else 1


def _figures(session: Session, running: Running, as_json: bool) -> dict[str, object]:
    """Ten seconds of figures, one line a second, and the last frame whole. Raises FailedError when none moved."""
    from cockpit import units
    from cockpit.cli.figures_text import figure_lines
    from cockpit.telemetry.sampler import frame_to_json

    out = tell if as_json else say
    load = _load(running)
    load.start()
    watch = session.watch(running.record.name)
    try:
        for _ in range(_SECONDS):
            time.sleep(1.0)
            frame = watch.tick().frame
            rates = frame.throughput
            out(
                f"prefill {units.rate(rates.prefill_tokens_per_second):>7} tok/s computed  "
                f"{units.rate(rates.cached_prefill_tokens_per_second):>7} cached   "
                f"decode {units.rate(rates.decode_tokens_per_second):>7} tok/s   "
                f"running {units.tokens(frame.requests.running)}   KV {units.percent(frame.kv.used_fraction, 3)}"
            )
        for line in figure_lines(frame):
            out(line)
    finally:
        watch.close()
        counts = load.stop()
    out(f"the client itself counted {counts.generated_tokens:,} generated tokens in {counts.requests} requests")
    if not rates.prefill_tokens_per_second or not rates.decode_tokens_per_second:
        raise FailedError(
            "the server answered, but its figures did not move", counts.last_error or "no request ended"
        )
    return frame_to_json(frame)
