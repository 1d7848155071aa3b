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
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

sys.path.insert(0, str(Path(__file__).parent))

from truth_modes import MODES, Mode, Truth

TTFT_BOUNDS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
INTER_TOKEN_BOUNDS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
QUEUE_BOUNDS = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0)


BROKEN_LINES = (
    'vllm:generation_tokens_total{engine="0",model_name="m"\n'
    'vllm:prompt_tokens_total{engine="0"} twelve\n'
    'vllm:num_requests_running{engine="0",engine="0"} 4\n'
    'vllm:kv_cache_usage_perc{engine="0"} NaN\n'
    'vllm:num_requests_waiting{engine="0"} -Inf\n'
    "vllm:num_preemptions_total\n"
    "{}}{ \x00\x1b[31m \ufffd\n"
)


class TruthCollector:
    """The families of one moment: ``seconds`` after the start of the engines' work."""

    def __init__(self, mode: Mode, seconds: float, started_at: float) -> None:
        self.mode, self.seconds, self.started_at = mode, seconds, started_at

    def collect(self) -> Iterator[Metric]:
        if self.mode.names.process_start:
            started = GaugeMetricFamily("process_start_time_seconds", "Start time of the process.")
            started.add_metric([], self.started_at)
            yield started
        if not self.mode.engines:
            return
        yield from self._gauges()
        yield from self._counters()
        yield from self._histograms()

    def _each(self) -> Iterator[tuple[list[str], Truth]]:
        return (([str(number), "m"], truth) for number, truth in enumerate(self.mode.engines))

    def _gauges(self) -> Iterator[Metric]:
        for name, read in (
            ("num_requests_running", lambda t: t.busy(self.seconds)),
            ("num_requests_waiting", lambda t: t.waiting),
            (self.mode.names.kv_usage, lambda t: t.used(self.seconds)),
        ):
            family = GaugeMetricFamily(f"vllm:{name}", name, labels=["engine", "model_name"])
            for labels, truth in self._each():
                family.add_metric(labels, read(truth))
            yield family
        sleep = GaugeMetricFamily(
            "vllm:engine_sleep_state", "Sleep state.", labels=["engine", "model_name", "sleep_state"]
        )
        for labels, truth in self._each():
            for state in ("awake", "weights_offloaded", "discard_all"):
                sleep.add_metric([*labels, state], float(state == truth.sleep_state))
        yield sleep
        yield from (self._cache_config(labels[0], truth) for labels, truth in self._each())

    def _cache_config(self, engine: str, truth: Truth) -> Metric:
        labels = {
            "block_size": "1600" if truth.hybrid else "16",
            "cache_dtype": "auto",
            "engine": engine,
            "mamba_block_size": "262144" if truth.hybrid else "None",
            "mamba_cache_mode": "align" if truth.hybrid else "none",
            "num_gpu_blocks": str(self._blocks()),
        }
        if self.mode.names.pool_in_tokens:
            labels["kv_cache_size_tokens"] = str(truth.capacity_tokens)
            labels["kv_cache_max_concurrency"] = str(truth.max_concurrency)
        family = GaugeMetricFamily("vllm:cache_config_info", "CacheConfig", labels=list(labels))
        family.add_metric(list(labels.values()), 1.0)
        return family

    def _blocks(self) -> int:
        """Of all engines together, as vLLM labels it; on the hybrid 12 of the 176 blocks of a request are state."""
        return sum(
            round(truth.max_concurrency * 176) if truth.hybrid else truth.capacity_tokens // 16
            for truth in self.mode.engines
        )

    def _counters(self) -> Iterator[Metric]:
        names = self.mode.names
        plain: dict[str, Callable[[Truth], float]] = {
            "prompt_tokens": lambda t: t.computed + t.cached,
            "generation_tokens": lambda t: t.decode,
            "num_preemptions": lambda t: t.preemptions,
            ("prefix_cache_queries" if names.hits_in_tokens else "gpu_prefix_cache_queries"): lambda t: (
                t.computed + t.cached
            ),
            ("prefix_cache_hits" if names.hits_in_tokens else "gpu_prefix_cache_hits"): lambda t: t.cached,
        }
        if names.cached_total:
            plain["prompt_tokens_cached"] = lambda t: t.cached
        if any(truth.drafts is not None for truth in self.mode.engines):
            plain["spec_decode_num_drafts"] = lambda t: t.drafts or 0.0
            plain["spec_decode_num_draft_tokens"] = lambda t: (t.drafts or 0.0) * len(t.accepted_shares)
            plain["spec_decode_num_accepted_tokens"] = lambda t: (t.drafts or 0.0) * sum(t.accepted_shares)
        for name, per_second in plain.items():
            yield self._counter(name, None, lambda t, read=per_second: {"": read(t)})
        yield self._counter("request_success", "finished_reason", lambda t: {"stop": t.requests, "abort": 0.0})
        if names.by_source:
            yield self._counter(
                "prompt_tokens_by_source",
                "source",
                lambda t: {"local_compute": t.computed, "local_cache_hit": t.cached, "external_kv_transfer": 0.0},
            )
        if any(truth.accepted_shares for truth in self.mode.engines):
            yield self._counter(
                "spec_decode_num_accepted_tokens_per_pos",
                "position",
                lambda t: {str(i): (t.drafts or 0.0) * share for i, share in enumerate(t.accepted_shares)},
            )

    def _counter(self, name: str, label: str | None, per_second: Callable[[Truth], dict[str, float]]) -> Metric:
        extra = [] if label is None else [label]
        family = CounterMetricFamily(f"vllm:{name}", name, labels=["engine", "model_name", *extra])
        for labels, truth in self._each():
            for value, rate in per_second(truth).items():
                whole = float(int(rate * self._worked(name, truth)))
                family.add_metric([*labels, *([value] if extra else [])], whole, created=self.started_at)
        return family

    def _worked(self, name: str, truth: Truth) -> float:
        """Seconds of work behind a counter: decoding goes on while prompts wait for their first token."""
        decoding = name in {"generation_tokens", self.mode.names.inter_token} or name.startswith("spec_decode")
        return truth.decoded(self.seconds) if decoding else truth.credited(self.seconds)

    def _histograms(self) -> Iterator[Metric]:
        yield self._histogram("time_to_first_token_seconds", TTFT_BOUNDS, lambda t: (t.requests, *t.ttft))
        yield self._histogram(self.mode.names.inter_token, INTER_TOKEN_BOUNDS, lambda t: (t.steps, *t.inter_token))
        yield self._histogram("request_queue_time_seconds", QUEUE_BOUNDS, lambda t: (t.requests, *t.queue))
        yield self._histogram(
            "request_prefill_time_seconds",
            QUEUE_BOUNDS,
            lambda t: (t.requests, t.prefill_seconds_per_request, t.prefill_seconds_per_request),
        )
        yield self._histogram(
            "request_prefill_kv_computed_tokens",
            (1.0, 100.0, 10_000.0),
            lambda t: (t.requests, *(2 * [t.computed / t.requests if t.requests else 0.0])),
        )

    def _histogram(
        self, name: str, bounds: tuple[float, ...], read: Callable[[Truth], tuple[float, float, float]]
    ) -> Metric:
        family = HistogramMetricFamily(f"vllm:{name}", name, labels=["engine", "model_name"])
        for labels, truth in self._each():
            rate, low, high = read(truth)
            count = int(rate * self._worked(name, truth))
            buckets = [(str(bound), float(int(count * _share_below(bound, low, high)))) for bound in bounds]
            family.add_metric(labels, [*buckets, ("+Inf", float(count))], sum_value=count * (low + high) / 2)
        return family


def _share_below(bound: float, low: float, high: float) -> float:
    """Share of values spread evenly over low..high that do not pass ``bound``."""
    if high <= low:
        return float(bound >= high)
    return min(1.0, max(0.0, (bound - low) / (high - low)))


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
        """Seconds from the first scrape to the restart or the death in the modes of that name; None is never."""
        self._change_at: float | None = None
        self.engines: int | None = None
        """Only so many engines are left; None is all."""
        self.key: str | None = None
        """The key that /metrics asks for, as a proxy may; None asks for none."""
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

    def restart(self, new_process: bool = True) -> None:
        """Begin all counters anew, as a restarted server does."""
        self._began = self.clock()
        if new_process:
            self._process_started_at += 60.0

    def text(self) -> bytes:
        """The exposition text of this moment."""
        registry = CollectorRegistry(auto_describe=False)
        if self._waits:
            self._began, self._waits = self.clock(), False
        seconds = self.clock() - self._began
        mode = MODES[self.mode_name]
        shown = mode if self.engines is None else replace(mode, engines=mode.engines[: self.engines])
        registry.register(TruthCollector(shown, seconds, self._process_started_at))
        return generate_latest(registry)

    def change(self) -> bool:
        """At a scrape: restart when the mode wants it and it is time; False when the server is to be dead."""
        now = self.clock()
        if self._change_after is None or self.mode_name not in {"restart", "death"}:
            return True
        if self._change_at is None:
            self._change_at = now + self._change_after
        if now < self._change_at:
            return True
        if self.mode_name == "restart":
            self._change_at = now + self._change_after
            self.restart()
        return self.mode_name == "restart"

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
        path = self.path.partition("?")[0]
        wanted = self.truth.key
        if path == "/metrics" and wanted is not None and self.headers["Authorization"] != f"Bearer {wanted}":
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
        self, body: bytes, kind: str = "text/plain; version=0.0.4", status: int = 200, claimed_length: int = -1
    ) -> None:
        self.send_response(status)
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
