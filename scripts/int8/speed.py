"""Measure what int8 activations gain: the speed of docs/int8.md. Prints tokens per second and the ratios on/off.

python scripts/int8/speed.py MODEL --vllm COMMAND [--folder LOGS] [--clamped] [--tiny] [-- FLAGS of vllm serve]

One server at a time: it is booted, measured and stopped before the next one boots, so that no measurement shares the
machine with the compilation of another server. MODEL is an AutoRound W4 checkpoint; a folder with its config.json and
tokenizer will do with ``-- --load-format dummy``.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench import measure
from variants import CLAMPED, INT8, STOCK, environment, said

BOOT_SECONDS = 900
WANTED = {"prefill": 1.15, "decode": 0.97}
TINY = {"prompts": (200, 400), "repeats": 2, "decoded": 16}
FLAGS = ("--served-model-name", "m", "--host", "127.0.0.1")
ON_A_GPU = ("--max-model-len", "16384", "--max-num-batched-tokens", "8192")
TOLD = ("cockpit overlay ", "Using Marlin", "Using Machete")
FAILED = ("cockpit overlay ", "Error: ")


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def ready(server: subprocess.Popen[bytes], url: str) -> bool:
    """Wait until it answers; False when it ends instead, or takes too long."""
    deadline = time.monotonic() + BOOT_SECONDS
    while server.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=2):
                return True
        except OSError:
            time.sleep(1)
    return False


def stop(server: subprocess.Popen[bytes]) -> None:
    """End it, and after a while whatever of its process group is left."""
    if server.poll() is None:
        server.send_signal(signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.wait(30)
    try:
        os.killpg(server.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    server.wait()


def measured(command: Sequence[str], variant: Mapping[str, str], log: Path, tiny: bool) -> dict[str, float] | None:
    """Boot one server, measure it, stop it; None when it did not come up."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    began = time.monotonic()
    with log.open("wb") as stream:
        server = subprocess.Popen(
            [*command, "--port", str(port)],
            env=environment(variant),
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        if not ready(server, url):
            return None
        print(f"{log.stem}: ready after {time.monotonic() - began:.0f} s", flush=True)
        return measure(url, **TINY) if tiny else measure(url)
    finally:
        stop(server)


def report(rates: dict[str, dict[str, float]]) -> int:
    """Print the table with the ratios to off; 1 when int8 with the exact fold gains less than wanted."""
    short = 0
    for what, off in rates["off"].items():
        line = f"{what:14s} off {off:10,.1f} tok/s"
        for name, found in rates.items():
            if name != "off":
                line += f"   {name} {found[what]:10,.1f} tok/s   {name}/off {found[what] / off:.3f}"
        wanted = WANTED[what.split()[0]]
        short += rates["on"][what] / off < wanted
        print(f"{line}   wanted {wanted}")
    return int(short > 0)


def main() -> int:
    """Exit 1 when a server did not come up, or int8 gains less than wanted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--vllm", required=True, help="the command, e.g. /venv/bin/vllm or 'python -m vllm…'")
    parser.add_argument("--folder", type=Path, default=Path("int8-speed"), help="for the logs")
    parser.add_argument("--clamped", action="store_true", help="measure the clamped fold as well")
    parser.add_argument("--tiny", action="store_true", help="short prompts, for a rehearsal on the CPU")
    given = sys.argv[1:]
    own = given.index("--") if "--" in given else len(given)
    words, flags = parser.parse_args(given[:own]), given[own + 1 :]
    words.folder.mkdir(parents=True, exist_ok=True)
    command = [*shlex.split(words.vllm), "serve", words.model, *FLAGS, *([] if words.tiny else ON_A_GPU), *flags]
    variants = {"off": STOCK, "on": INT8} | ({"clamped": CLAMPED} if words.clamped else {})
    rates = {}
    for name, variant in variants.items():
        log = words.folder / f"{name}.log"
        found = measured(command, variant, log, words.tiny)
        lines = dict.fromkeys(said(log, *(FAILED if found is None else TOLD)))
        print("".join(f"  {line}\n" for line in lines), end="", flush=True)
        if found is None:
            print(f"{name} did not come up: see {log}")
            return 1
        rates[name] = found
        print("  " + ", ".join(f"{what} {rate:,.1f} tok/s" for what, rate in found.items()), flush=True)
    return report(rates)


if __name__ == "__main__":
    sys.exit(main())
