"""An HTTP server whose /metrics follows a known truth, in the shape and with the names of vLLM's.

    python tests/fakes/truth_server.py --mode steady --port 8123

Tests import it, give it a clock of their own and compare what the cockpit shows with ``MODES[mode]``.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics

sys.path.insert(0, str(Path(__file__).parent))

from truth_families import TruthCollector
from truth_modes import MODES
from truth_pages import PAGES
from truth_shapes import SHAPES

BROKEN_LINES = (
    'vllm:generation_tokens_total{engine="0",model_name="m"\n'
    'vllm:prompt_tokens_total{engine="0"} twelve\n'
    'vllm:num_requests_running{engine="0",engine="0"} 4\n'
    'vllm:kv_cache_usage_perc{engine="0"} NaN\n'
    'vllm:num_requests_waiting{engine="0"} -Inf\n'
    "vllm:num_preemptions_total\n"
    "{}}{ \x00\x1b[31m \ufffd\n"
)


class TruthServer:
    """The server: a context manager; ``clock`` gives seconds and may be a test's own."""

    def __init__(
        self,
        mode: str = "steady",
        port: int = 0,
        clock: Callable[[], float] = time.monotonic,
        *,
        hold_seconds: float = 3.0,
        change_after: float | None = None,
        wait_for_first_look: bool = False,
    ) -> None:
        self.mode_name = mode
        self.clock = clock
        self.hold_seconds = hold_seconds
        """How long the slow mode sleeps."""
        self._change_after = change_after
        """Seconds from the first scrape to what happens in modes in which something does; None is never."""
        self._change_at: float | None = None
        self.changed = False
        """Whether it has happened."""
        self.engines: int | None = None
        """Only so many engines are left; None is all."""
        self.key: str | None = "k-1" if mode == "key" else None
        """The key that /metrics asks for, as a proxy may; None asks for none."""
        self.scraped_at: list[float] = []
        """When, by the clock, each text of figures was made: what passes before it is read is the machine's doing."""
        self.requests_seen: list[dict[str, str]] = []
        """Headers of each request, by lower-case name."""
        self._waits = wait_for_first_look
        """The engines begin their work at the first scrape, however long the one who looks takes to start."""
        self._began = clock()
        self._process_started_at = time.time()
        self.closing = threading.Event()
        handler = type("Handler", (_Handler,), {"truth": self})
        self._http = ThreadingHTTPServer(("127.0.0.1", port), handler)
        self._http.daemon_threads = True
        self.port: int = self._http.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def scraped_seconds(self, first: int = 0, last: int = -1) -> float:
        """From one scrape to another, the first and the last unless given."""
        return self.scraped_at[last] - self.scraped_at[first]

    def restart(self, new_process: bool = True) -> None:
        """Begin all counters anew, as a restarted server does."""
        self._began = self.clock()
        if new_process:
            self._process_started_at += 60.0

    def text(self) -> bytes:
        """The exposition text of this moment."""
        registry = CollectorRegistry(auto_describe=False)
        mode = MODES[self.mode_name]
        if self._waits:
            self._began, self._waits = self.clock() - mode.age_seconds, False
        model = "m-adapted" if mode.renamed and self.changed else "m"
        self.scraped_at.append(self.clock())
        working = self._working(self.scraped_at[-1])
        registry.register(TruthCollector(mode, working, self._process_started_at, model))
        if self.mode_name == "openmetrics":
            text = openmetrics.generate_latest(registry).decode().removesuffix("# EOF\n")
        else:
            text = generate_latest(registry).decode()
        shape = SHAPES.get(self.mode_name)
        return (text if shape is None else shape(text, self.changed)).encode()

    def _working(self, now: float) -> dict[int, float]:
        """The engines that are there, with the seconds since each began."""
        mode = MODES[self.mode_name]
        seconds = dict.fromkeys(range(len(mode.engines))[: self.engines], now - self._began)
        if not self.changed:
            return {number: since for number, since in seconds.items() if number not in mode.late}
        if self._change_at is not None:
            seconds |= dict.fromkeys(mode.anew, now - self._change_at)
            seconds = {number: since for number, since in seconds.items() if number not in mode.lost}
        return seconds

    def change(self) -> bool:
        """At a scrape: whether it is time for what the mode has happen; False when the server is to be dead."""
        now = self.clock()
        if self._change_after is None:
            return True
        if self._change_at is None:
            self._change_at = now + self._change_after
        self.changed = now >= self._change_at
        if self.changed and self.mode_name == "restart":
            self._change_at = now + self._change_after
            self.restart()
        return not (self.changed and self.mode_name == "death")

    def close(self) -> None:
        """Stop answering; the port is free afterwards."""
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(timeout=5)

    def __enter__(self) -> TruthServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Handler(BaseHTTPRequestHandler):
    truth: TruthServer

    def do_GET(self) -> None:
        self.truth.requests_seen.append({name.lower(): value for name, value in self.headers.items()})
        # A client that hangs up in the middle is what some modes are for.
        with suppress(ConnectionError):
            self._answer()

    def _answer(self) -> None:
        path = self.path.partition("?")[0].removeprefix("/behind/a/prefix")
        page = PAGES.get(self.truth.mode_name, {}).get(path)
        wanted = self.truth.key
        if page is not None:
            self._send(page.body, page.kind, page.status, headers=page.headers)
        elif path == "/metrics" and wanted is not None and self.headers["Authorization"] != f"Bearer {wanted}":
            self._send(b"no\n", status=401)
        elif path == "/metrics":
            self._metrics()
        elif path == "/health":
            self._send(b"")
        elif path == "/version":
            self._send(json.dumps({"version": "0.33.0"}).encode(), "application/json")
        elif path == "/v1/models":
            models = {"object": "list", "data": [{"id": "m", "object": "model", "max_model_len": 16384}]}
            self._send(json.dumps(models).encode(), "application/json")
        else:
            self._send(b"not found\n", status=404)

    def _metrics(self) -> None:
        mode = self.truth.mode_name
        if not self.truth.change():
            self.close_connection = True
            return
        text = self.truth.text()
        if mode == "slow":
            self.truth.closing.wait(self.truth.hold_seconds)
        if mode == "error":
            self._send(b"engine dead\n", status=503)
        elif mode == "broken":
            self._send(BROKEN_LINES.encode() + text + b"\xff\xfe\n")
        elif mode == "truncated":
            self._send(text[: len(text) // 2], claimed_length=len(text))
        elif mode == "cut":
            self._send(text.rstrip(b"\n")[:-1])
        elif mode == "endless":
            self._stream(text, pause=0.0)
        elif mode == "drip":
            self._stream(b"#", pause=0.2)
        else:
            self._send(text)

    def _send(
        self,
        body: bytes,
        kind: str = "text/plain; version=0.0.4",
        status: int = 200,
        claimed_length: int = -1,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body) if claimed_length < 0 else claimed_length))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, piece: bytes, pause: float) -> None:
        """Send ``piece`` again and again until the client hangs up."""
        self.send_response(200)
        self.end_headers()
        while not self.truth.closing.wait(pause):
            self.wfile.write(piece)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mode", choices=sorted(MODES), default="steady")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--change-after", type=float, default=5.0, help="seconds, in the restart and death modes")
    arguments = parser.parse_args()
    server = TruthServer(arguments.mode, arguments.port, change_after=arguments.change_after)
    with server, suppress(KeyboardInterrupt):
        print(server.url, flush=True)
        server.closing.wait()


if __name__ == "__main__":
    main()
