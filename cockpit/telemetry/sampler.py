"""One Frame a tick: /metrics, NVML and the host put together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from cockpit.errors import FailedError
from cockpit.telemetry.aging import STALE_SECONDS
from cockpit.telemetry.answers import FetchProblem
from cockpit.telemetry.clock import elapsed
from cockpit.telemetry.fetch import MetricsClient, fetch, metrics_url, open_client
from cockpit.telemetry.figures import figures
from cockpit.telemetry.frame import Frame, Int8, State
from cockpit.telemetry.gpu import GpuReader
from cockpit.telemetry.gpu_poller import AgedSample, GpuPoller
from cockpit.telemetry.host import HostReader
from cockpit.telemetry.identify import identify
from cockpit.telemetry.notes import Figures
from cockpit.telemetry.pool import LogPool
from cockpit.telemetry.scrape import Scrape
from cockpit.telemetry.sources import sources_of
from cockpit.telemetry.window import Window, extend

WINDOW_SECONDS = 10.0

Pids = Callable[[], Iterable[int] | None]


class Sampler:
    """Makes one Frame a tick for one server; ``tick`` is meant for a worker thread, once a second.

    ``url`` is the server's base URL; ``pids`` gives the processes of a local instance (None: not known, e.g.
    remote); ``log_pool`` the KV pool of one engine as the boot log named it; ``context_tokens`` the prompt tokens by
    the log's iteration details; ``expects_draft`` whether speculation was asked for; ``gpu_indices`` limits the GPUs.
    Raises CockpitError on a URL or key that cannot be used.
    """

    def __init__(  # noqa: PLR0913 - independent options of one object, given by keyword
        self,
        url: str,
        api_key: str | None = None,
        window_seconds: float = WINDOW_SECONDS,
        *,
        pids: Pids | None = None,
        gpu_indices: Sequence[int] | None = None,
        int8: Callable[[], Int8] = Int8,
        log_pool: Callable[[], LogPool | None] = lambda: None,
        context_tokens: Callable[[], float | None] = lambda: None,
        expects_draft: bool = False,
        read_gpus: bool = True,
        read_host: bool = True,
        gpu_reader: GpuReader | None = None,
        clock: Callable[[], float] = elapsed,
    ) -> None:
        self._url = metrics_url(url)
        self._api_key = api_key
        self._key_is_sent = False
        self._window_seconds = window_seconds
        self._pids = pids
        self._int8 = int8
        self._log_pool = log_pool
        self._context_tokens = context_tokens
        self._expects_draft = expects_draft
        self._gpus = GpuPoller(gpu_reader or GpuReader(gpu_indices), clock) if read_gpus else None
        self._host = HostReader(clock) if read_host else None
        self._clock = clock
        self._client: MetricsClient | None = None
        self._window = Window()
        self._answered_clock: float | None = None
        """Monotonic: the system's clock may be set while a server is silent."""
        self._problem: FetchProblem | None = None
        self._other_server: str | None = None
        """What serves there, where no vLLM figures come; asked once."""
        self._was_identified = False
        self._closed = False
        self._lock = threading.Lock()

    def tick(self, now: float, state: State) -> Frame:
        """The frame of this moment; ``now`` is Unix time. Waits a few seconds for a slow server."""
        with self._lock:
            return self._tick(now, state)

    def close(self) -> None:
        """Close the connection and NVML; a tick in progress ends first, later ones read the host only."""
        with self._lock:
            self._closed = True
            if self._client is not None:
                self._client.close()
            if self._gpus is not None:
                self._gpus.close()
            self._client, self._gpus = None, None

    @property
    def problem(self) -> FetchProblem | None:
        """Why the last scrape failed; None when it did not."""
        return self._problem

    def _tick(self, now: float, state: State) -> Frame:
        pids = self._read_pids()
        if state in {"starting", "dead"} or self._closed:
            # Nothing is served: neither a figure from before nor one of another server on that port is shown.
            self._window, self._problem = Window(), None
        else:
            self._scrape(now)
        age = None if self._answered_clock is None else max(0.0, self._clock() - self._answered_clock)
        shown = self._figures(age)
        gpus = AgedSample() if self._gpus is None else self._gpus.read(pids)
        return Frame(
            at=now,
            state=state,
            window_seconds=shown.window_seconds,
            age_seconds=age,
            stale=self._problem is not None,
            model=shown.model,
            engines=shown.engines,
            throughput=shown.throughput,
            kv=shown.kv,
            requests=shown.requests,
            latency=shown.latency,
            prefix_cache=shown.prefix_cache,
            speculative=shown.speculative,
            sleep_state=shown.sleep_state,
            int8=self._int8(),
            totals=shown.totals,
            gpus=gpus.sample.gpus,
            gpu_problem=gpus.sample.problem,
            gpu_age_seconds=gpus.age_seconds,
            host=None if self._host is None else self._host.read(pids),
            sources=sources_of(shown, age),
            notes=self._notes(shown, age),
        )

    def _read_pids(self) -> frozenset[int] | None:
        found = None if self._pids is None else self._pids()
        return None if found is None else frozenset(found)

    def _scrape(self, now: float) -> None:
        """Fetch once and extend the window, or remember why that failed."""
        answer = self._fetch(now)
        if isinstance(answer, FetchProblem):
            self._problem = self._named(answer) if answer.has_no_metrics else answer
            return
        self._problem, self._answered_clock = None, self._clock()
        if not answer.engines and answer.other_server is None:
            answer = msgspec.structs.replace(answer, other_server=self._identified())
        answer = msgspec.structs.replace(answer, context_tokens=self._context_tokens())
        self._window = extend(self._window, answer, self._window_seconds, self._log_pool())

    def _fetch(self, now: float) -> Scrape | FetchProblem:
        """Ask without the key, as vLLM leaves /metrics open; one that asks for it (a proxy, say) gets it."""
        if self._client is None:
            self._client = open_client(self._url)
        answer = fetch(self._client, now, self._clock)
        if isinstance(answer, FetchProblem) and answer.asks_for_key and self._api_key and not self._key_is_sent:
            self._client.close()
            self._client, self._key_is_sent = open_client(self._url, self._api_key), True
            return fetch(self._client, now, self._clock)
        return answer

    def _named(self, problem: FetchProblem) -> FetchProblem:
        """The problem with the name of what serves there, where that can be told."""
        who = self._identified()
        if who is None:
            return problem
        if who == "vLLM":
            reason = f"a vLLM serves there, but {problem.reason}: a proxy may pass its API alone"
            return msgspec.structs.replace(problem, reason=reason, fix="Give the address of the vLLM itself.")
        fix = "The figures shown here are those of vLLM servers."
        return msgspec.structs.replace(problem, reason=f"{who} serves there, not vLLM: {problem.reason}", fix=fix)

    def _identified(self) -> str | None:
        """What serves there by its own words; asked once, in a few seconds at most."""
        if not self._was_identified and self._client is not None:
            self._was_identified = True
            self._other_server = identify(self._client.page)
        return self._other_server

    def _figures(self, age: float | None) -> Figures:
        """Figures of the window; all unknown once they are too old to mean anything."""
        if age is None or (self._problem is not None and age > STALE_SECONDS):
            return Figures()
        return figures(self._window, self._window_seconds, self._log_pool(), expects_draft=self._expects_draft)

    def _notes(self, shown: Figures, age: float | None) -> tuple[str, ...]:
        if self._problem is None:
            return shown.notes
        if age is None:
            return (f"/metrics gives no figures: {self._problem.reason}. {self._problem.fix}",)
        if age > STALE_SECONDS:
            return (f"/metrics has not answered for {age:.0f} s ({self._problem.reason}): no figures are shown.",)
        return (f"/metrics does not answer ({self._problem.reason}): the figures are {age:.0f} s old.", *shown.notes)


def sample_window(
    url: str,
    seconds: float = WINDOW_SECONDS,
    *,
    state: State = "ready",
    sleep: Callable[[float], object] = time.sleep,
    **options: Any,
) -> Frame:
    """One frame over a window of ``seconds``: a scrape, a wait, a second scrape.

    ``window_seconds`` of the frame is the true time between the two. ``options`` are Sampler's. Raises FailedError
    when the server does not answer at the beginning or no longer at the end.
    """
    sampler = Sampler(url, window_seconds=seconds, **options)
    try:
        sampler.tick(time.time(), state)
        _require_answer(sampler, "The server does not answer on /metrics")
        sleep(seconds)
        frame = sampler.tick(time.time(), state)
        _require_answer(sampler, "The server stopped answering on /metrics within the window")
        return frame
    finally:
        sampler.close()


def _require_answer(sampler: Sampler, title: str) -> None:
    problem = sampler.problem
    if problem is not None:
        if problem.asks_for_key or problem.has_no_metrics:
            title = "The server answers, and gives no figures"
        raise FailedError(title, problem.reason, problem.fix)


def frame_to_json(frame: Frame) -> dict[str, Any]:
    """The frame as plain lists and dicts for ``cockpit top --json``; unknown is None, names carry units."""
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(frame))
    return plain
