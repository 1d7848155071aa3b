"""Frames against a real HTTP server of known truth."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from truth_server import TruthServer

from cockpit.errors import CockpitError, FailedError
from cockpit.telemetry.frame import Int8, Kv, Latencies, PrefixCache, Requests, Throughput
from cockpit.telemetry.notes import PREEMPTED
from cockpit.telemetry.pool import LogPool
from cockpit.telemetry.sampler import Sampler, frame_to_json, sample_window

WITHIN = 0.02


class Ticking:
    """A sampler that is ticked once a second of the test's clock."""

    def __init__(self, server, clock, **options):
        self.clock = clock
        self.sampler = Sampler(server.url, clock=clock, read_gpus=False, **options)

    def tick(self, state="ready", seconds=1.0):
        self.clock.pass_seconds(seconds)
        return self.sampler.tick(1_700_000_000 + self.clock(), state)


@pytest.fixture
def ticking(clock):
    made = []

    def make(server, **options):
        made.append(Ticking(server, clock, **options))
        return made[-1]

    yield make
    for one in made:
        one.sampler.close()


def shows_nothing(frame):
    return (
        frame.throughput == Throughput()
        and frame.kv == Kv()
        and frame.requests == Requests()
        and frame.latency == Latencies()
        and frame.prefix_cache == PrefixCache()
        and frame.speculative is None
        and frame.window_seconds is None
        and frame.totals.generation_tokens is None
    )


def test_a_steady_load_is_shown_within_two_percent(truth, ticking):
    one = ticking(truth("steady"), int8=lambda: Int8(requested=True), pids=lambda: [os.getpid()])
    first = one.tick()
    assert first.throughput.decode_tokens_per_second is None
    assert first.requests.running == 2
    for _ in range(14):
        frame = one.tick()
    assert frame.window_seconds == pytest.approx(10.0)
    assert frame.throughput.prefill_tokens_per_second == pytest.approx(2500, rel=WITHIN)
    assert frame.throughput.cached_prefill_tokens_per_second == pytest.approx(1100, rel=WITHIN)
    assert frame.throughput.decode_tokens_per_second == pytest.approx(90, rel=WITHIN)
    assert frame.kv.capacity_tokens == 884_160
    assert (frame.age_seconds, frame.stale, frame.notes) == (0.0, False, (PREEMPTED,))
    assert frame.host is not None
    assert frame.host.instance_bytes > 0
    assert (frame.gpus, frame.gpu_problem) == ((), None)
    assert (frame.int8.requested, frame.int8.active) == (True, None)


def test_last_figures_stay_marked_as_stale_for_ten_seconds_and_are_then_unknown(truth, ticking):
    server = truth("steady")
    one = ticking(server)
    one.tick()
    last_good = one.tick()
    server.mode_name = "error"
    frame = one.tick(seconds=3.0)
    assert frame.stale
    assert frame.age_seconds == pytest.approx(3.0)
    assert frame.throughput == last_good.throughput
    assert frame.requests == last_good.requests
    assert "HTTP 503" in frame.notes[0]
    assert "3 s old" in frame.notes[0]
    assert not shows_nothing(one.tick(seconds=7.0))
    gone = one.tick()
    assert gone.age_seconds == pytest.approx(11.0)
    assert shows_nothing(gone)
    assert gone.engines is None
    server.mode_name = "steady"
    back = one.tick()
    assert not back.stale
    assert back.window_seconds == pytest.approx(12.0)
    assert back.throughput.decode_tokens_per_second == pytest.approx(90, rel=WITHIN)


@pytest.mark.parametrize("state", ["dead", "starting"])
def test_a_server_that_does_not_serve_shows_nothing_at_once(truth, ticking, state):
    server = truth("steady")
    one = ticking(server)
    one.tick()
    one.tick()
    asked = len(server.requests_seen)
    frame = one.tick(state)
    assert shows_nothing(frame)
    assert frame.state == state
    assert not frame.stale
    assert len(server.requests_seen) == asked
    again = one.tick("ready")
    assert again.throughput.decode_tokens_per_second is None


def test_a_server_that_never_answered_has_no_age_and_says_why(truth, ticking):
    server = truth("steady")
    server.close()
    frame = ticking(server).tick()
    assert frame.age_seconds is None
    assert frame.stale
    assert shows_nothing(frame)
    assert "refused" in frame.notes[0]


def test_a_restarted_server_starts_its_rates_over(truth, ticking):
    server = truth("restart")
    one = ticking(server)
    one.tick()
    one.tick()
    server.restart()
    frame = one.tick()
    assert frame.throughput.decode_tokens_per_second is None
    assert any("restarted" in note for note in frame.notes)
    assert one.tick().throughput.decode_tokens_per_second == pytest.approx(90, rel=WITHIN)


def test_the_capacity_of_the_log_is_used_where_the_server_names_none(truth, ticking):
    frame = ticking(truth("old"), log_pool=lambda: LogPool(capacity_tokens=4096)).tick()
    assert frame.kv.capacity_tokens == 4096
    assert any("log" in note for note in frame.notes)


def test_a_closed_sampler_asks_nothing_more_and_may_be_closed_twice(truth, ticking):
    server = truth("steady")
    one = ticking(server)
    one.tick()
    one.sampler.close()
    one.sampler.close()
    asked = len(server.requests_seen)
    assert shows_nothing(one.tick())
    assert len(server.requests_seen) == asked


def test_a_bad_url_is_refused_before_anything_is_read():
    with pytest.raises(CockpitError):
        Sampler("localhost:8000")


def test_one_window_of_real_time_agrees_with_the_truth():
    with TruthServer("steady") as server:
        time.sleep(0.2)
        began = time.monotonic()
        frame = sample_window(server.url, 2.0, read_gpus=False)
        took, true_seconds = time.monotonic() - began, server.scraped_seconds()
    assert 1.9 < frame.window_seconds <= took
    assert frame.throughput.prefill_tokens_per_second * frame.window_seconds == pytest.approx(
        2500 * true_seconds, abs=1.01
    )
    assert frame.throughput.decode_tokens_per_second * frame.window_seconds == pytest.approx(
        90 * true_seconds, abs=1.01
    )
    assert frame.host.cpu_fraction is not None


def test_a_window_is_as_long_as_the_wait_truly_was():
    with TruthServer("steady") as server:
        began = time.monotonic()
        frame = sample_window(server.url, 0.2, read_gpus=False, sleep=lambda seconds: time.sleep(seconds + 0.5))
    assert 0.7 <= frame.window_seconds <= time.monotonic() - began


def test_a_window_over_a_server_that_is_not_there_fails_with_a_fix():
    with TruthServer("steady") as server:
        url = server.url
    with pytest.raises(FailedError) as caught:
        sample_window(url, 5.0, read_gpus=False, sleep=lambda _: pytest.fail("waited for nothing"))
    assert caught.value.exit_code == 1
    assert "refused" in caught.value.detail


def test_a_server_that_dies_within_the_window_fails():
    with TruthServer("steady") as server, pytest.raises(FailedError, match="stopped answering"):
        sample_window(server.url, 0.1, read_gpus=False, sleep=lambda _: server.close())


def test_the_json_has_every_documented_field_and_null_for_the_unknown(truth, ticking):
    plain = frame_to_json(ticking(truth("mtp")).tick())
    assert json.loads(json.dumps(plain)) == plain
    documented = {
        "": {"state", "at", "age_seconds", "window_seconds", "engines", "gpus"},
        "throughput": {
            "prefill_tokens_per_second",
            "cached_prefill_tokens_per_second",
            "decode_tokens_per_second",
            "prefill_tokens_per_second_per_request",
        },
        "kv": {"capacity_tokens", "max_concurrency", "used_fraction", "used_tokens"},
        "requests": {"running", "waiting", "preemptions_per_second"},
        "latency": {"ttft_seconds", "inter_token_seconds", "queue_seconds"},
        "prefix_cache": {"hit_fraction_window", "hit_fraction_lifetime"},
        "speculative": {"acceptance_length", "acceptance_fraction"},
        "int8": {"requested", "active", "proof"},
    }
    for part, names in documented.items():
        assert names <= (plain[part] if part else plain).keys()
    assert {"mean", "p95"} <= plain["latency"]["ttft_seconds"].keys()
    assert plain["throughput"]["decode_tokens_per_second"] is None
    assert plain["gpus"] == []


def test_the_truth_server_runs_as_a_script():
    script = Path(__file__).resolve().parents[2] / "fakes" / "truth_server.py"
    argv = [sys.executable, str(script), "--mode", "idle"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            url = process.stdout.readline().strip()
            frame = sample_window(url, 0.1, read_gpus=False)
        finally:
            process.kill()
    assert frame.throughput.decode_tokens_per_second == 0.0


def test_importing_the_sampler_loads_neither_http_nor_nvml_nor_a_screen():
    code = "import sys, cockpit.telemetry.sampler; print(sorted({'httpx','pynvml','textual','rich',\
'prometheus_client','http.client'} & set(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_a_key_is_sent_only_to_a_server_that_asks_for_one(truth, ticking):
    open_one, closed_one = truth("steady"), truth("steady")
    closed_one.key = "k-1"
    for server in (open_one, closed_one):
        assert not ticking(server, api_key="k-1").tick().stale
    assert all("authorization" not in headers for headers in open_one.requests_seen)
    assert [headers.get("authorization") for headers in closed_one.requests_seen] == [None, "Bearer k-1"]


@pytest.mark.parametrize(("key", "said"), [(None, "asks for a key"), ("wrong", "asks for another key")])
def test_a_server_that_asks_for_a_key_is_a_sentence_with_a_fix(truth, ticking, key, said):
    server = truth("steady")
    server.key = "k-1"
    note = ticking(server, api_key=key).tick().notes[0]
    assert said in note and "VLLM_API_KEY" in note and "wrong" not in note


def test_a_clock_that_is_set_back_or_ahead_changes_no_age(truth, clock):
    server = truth("steady")
    sampler = Sampler(server.url, clock=clock, read_gpus=False)
    for at in (2_000_000.0, 1_000.0, 9_000_000.0):
        clock.pass_seconds(1.0)
        frame = sampler.tick(at, "ready")
        assert (frame.at, frame.age_seconds, frame.stale) == (at, 0.0, False)
    assert frame.throughput.decode_tokens_per_second == pytest.approx(90, rel=0.02)
    server.mode_name = "error"
    for at, age in ((5.0, 4.0), (4.0, 8.0), (3.0, 12.0)):
        clock.pass_seconds(4.0)
        frame = sampler.tick(at, "ready")
        assert frame.age_seconds == age
    assert shows_nothing(frame)
    sampler.close()
