"""One bounded GET of /metrics against servers that behave and that do not."""

from __future__ import annotations

import time

import pytest

from cockpit.errors import CockpitError
from cockpit.telemetry.fetch import FetchProblem, fetch, metrics_url, open_client
from cockpit.telemetry.scrape import Scrape


def get(server, api_key=None):
    with open_client("http:", api_key) as client:
        return fetch(client, metrics_url(server.url), now=123.0)


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/metrics"),
        ("http://127.0.0.1:8000/", "http://127.0.0.1:8000/metrics"),
        ("https://host/v1/", "https://host/metrics"),
        ("https://host/team/a/metrics", "https://host/team/a/metrics"),
        (" http://[::1]:8000/v1?x=1#y ", "http://[::1]:8000/metrics"),
    ],
)
def test_a_base_url_becomes_its_metrics_address(given, made):
    assert metrics_url(given) == made


@pytest.mark.parametrize(
    "given", ["", "localhost:8000", "ftp://host", "http://", "http://h:99999", "http://[::1", "x"]
)
def test_what_is_no_url_is_refused_with_a_fix(given):
    with pytest.raises(CockpitError) as caught:
        metrics_url(given)
    assert caught.value.exit_code == 2
    assert caught.value.fix


def test_a_key_with_a_line_end_is_refused_and_not_repeated():
    with pytest.raises(CockpitError) as caught:
        open_client("http:", "secret\nX: y")
    assert "secret" not in str(caught.value)


def test_a_good_answer_is_a_scrape_and_carries_both_times(truth):
    answer = get(truth("steady"))
    assert isinstance(answer, Scrape)
    assert answer.at == 123.0
    assert abs(answer.clock - time.monotonic()) < 5


def test_the_key_is_sent_and_no_packing_is_asked_for(truth):
    server = truth("steady")
    get(server, "k-1")
    assert server.requests_seen[0]["authorization"] == "Bearer k-1"
    assert server.requests_seen[0]["accept-encoding"] == "identity"


def test_proxy_variables_are_ignored(truth, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    assert isinstance(get(truth("steady")), Scrape)


def test_broken_lines_cost_only_themselves(truth):
    answer = get(truth("broken"))
    assert isinstance(answer, Scrape)
    assert answer.skipped_lines == 4
    assert answer.gauge("running") == 2


@pytest.mark.parametrize(
    ("mode", "words", "at_most_seconds"),
    [
        ("error", "HTTP 503", 2.0),
        ("truncated", "broke off", 2.0),
        ("cut", "cut short", 2.0),
        ("endless", "4 MiB", 4.0),
        ("drip", "more than 2 s", 4.5),
        ("slow", "no answer within 1 s", 3.0),
    ],
)
def test_a_bad_answer_is_a_problem_within_bounded_time(truth, mode, words, at_most_seconds):
    server = truth(mode)
    began = time.monotonic()
    answer = get(server)
    assert isinstance(answer, FetchProblem)
    assert words in answer.reason
    assert time.monotonic() - began < at_most_seconds


def test_a_server_that_is_gone_is_a_refused_connection(truth):
    server = truth("steady")
    server.close()
    answer = get(server)
    assert isinstance(answer, FetchProblem)
    assert "refused" in answer.reason
