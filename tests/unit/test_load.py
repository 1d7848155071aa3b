"""The load and its own counts, against a small real HTTP server that streams as vLLM does, or misbehaves."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from cockpit.bench.load import Counts, Load


def chunk(prompt: Any, completion: Any) -> str:
    return json.dumps({"usage": {"prompt_tokens": prompt, "completion_tokens": completion}})


class Server(ThreadingHTTPServer):
    """Answers every request with the same events and keeps what it was asked."""

    daemon_threads = True

    def __init__(self, events: list[str], status: int = 200) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.events = events
        self.status = status
        self.bodies: list[dict[str, Any]] = []
        self.keys: set[str | None] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/"


class Answer(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        self.server.keys.add(self.headers.get("Authorization"))
        self.server.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(self.server.status)
        self.end_headers()
        for event in self.server.events:
            self.wfile.write(f"data: {event}\n\n".encode())

    def log_message(self, *_: object) -> None:
        return


Serve = Callable[..., Server]


@pytest.fixture
def serve() -> Iterator[Serve]:
    running: list[Server] = []

    def start(events: list[str], status: int = 200) -> Server:
        server = Server(events, status)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        running.append(server)
        return server

    yield start
    for server in running:
        server.shutdown()
        server.server_close()


def counted(server: Server, enough: Callable[[Counts], bool], **options: Any) -> Counts:
    """What the load has counted once it is enough."""
    load = Load(server.url, "m", streams=1, pause_seconds=0.0, **options)
    load.start()
    limit = time.monotonic() + 60
    while not enough(load.counts()) and time.monotonic() < limit:
        time.sleep(0.01)
    counts = load.stop()
    assert enough(counts), counts
    return counts


def test_tokens_are_counted_once_from_running_totals(serve: Serve) -> None:
    server = serve([chunk(11, 0), chunk(11, 1), chunk(11, 4), json.dumps({"usage": None}), chunk(11, 5), "[DONE]"])
    counts = counted(server, lambda counts: counts.requests >= 3)
    assert counts.failures == 0
    # A request that was cut off by the stop may have been counted in part.
    assert counts.requests * 5 <= counts.generated_tokens <= counts.requests * 5 + 5
    assert counts.requests * 11 <= counts.prompt_tokens <= counts.requests * 11 + 11


def test_requests_stream_their_usage_and_every_second_prompt_repeats(serve: Serve) -> None:
    server = serve([chunk(3, 1), "[DONE]"])
    counted(server, lambda counts: counts.requests >= 4, answer_tokens=17)
    first, second, third = (body["messages"][0]["content"] for body in server.bodies[:3])
    assert first == second != third
    assert server.bodies[0]["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    assert server.bodies[0]["max_tokens"] == 17
    assert server.keys == {None}


def test_a_key_is_sent_along(serve: Serve) -> None:
    server = serve([chunk(3, 1)])
    counted(server, lambda counts: counts.requests >= 1, api_key="k")
    assert server.keys == {"Bearer k"}


def test_a_refusal_is_counted_and_named(serve: Serve) -> None:
    counts = counted(serve([], status=401), lambda counts: counts.failures >= 1)
    assert (counts.requests, counts.last_error) == (0, "HTTP 401")


@pytest.mark.parametrize(
    "event",
    ["not json", "[1]", "5", '{"usage": [1]}', chunk(1, "many"), chunk(1, {}), chunk(1, 1.5), "[" * 5000, ""],
)
def test_an_answer_that_makes_no_sense_is_a_failure_and_not_the_end(serve: Serve, event: str) -> None:
    server = serve([event])
    load = Load(server.url, "m", streams=1, pause_seconds=0.0)
    load.start()
    limit = time.monotonic() + 60
    while load.counts().failures == 0 and time.monotonic() < limit:
        time.sleep(0.01)
    alive = [thread for thread in threading.enumerate() if thread.name == "load-0"]
    counts = load.stop()
    assert counts.failures == 1
    assert counts.last_error
    assert counts.generated_tokens == 0
    assert alive


def test_a_server_that_is_gone_is_a_failure(serve: Serve) -> None:
    server = serve([])
    server.shutdown()
    server.server_close()
    assert "Connect" in counted(server, lambda counts: counts.failures >= 1).last_error


def test_stopping_cuts_requests_off_and_ends_the_threads(serve: Serve) -> None:
    load = Load(serve([chunk(1, 1)]).url, "m", streams=3, pause_seconds=600)
    load.start()
    began = time.monotonic()
    load.stop()
    assert time.monotonic() - began < 30
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("load-")]
