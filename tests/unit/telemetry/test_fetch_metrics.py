"""One bounded GET of /metrics against servers that behave and that do not."""

from __future__ import annotations

import gzip
import shutil
import socket
import ssl
import subprocess
import threading
import time
import zlib
from base64 import b64encode
from contextlib import contextmanager, suppress

import pytest

from cockpit.errors import CockpitError
from cockpit.telemetry import fetch as fetching
from cockpit.telemetry.clock import elapsed
from cockpit.telemetry.fetch import MAX_BODY_BYTES, FetchProblem, fetch, metrics_url, open_client
from cockpit.telemetry.identify import identify
from cockpit.telemetry.scrape import Scrape

LIMITS = {name: getattr(fetching, name) for name in ("STEP_TIMEOUT_SECONDS", "WHOLE_TIMEOUT_SECONDS")}


def get(server, api_key=None):
    with open_client(metrics_url(server.url), api_key) as client:
        return fetch(client, now=123.0)


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
    "given",
    [
        "",
        "localhost:8000",
        "ftp://host",
        "http://",
        "http://h:99999",
        "http://[::1",
        "x",
        "http://my host",
        "http://a\x7f",
    ],
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
    server, before = truth("steady"), elapsed()
    answer = get(server)
    assert isinstance(answer, Scrape)
    assert answer.at == 123.0
    assert before <= answer.clock <= elapsed()


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
    ("mode", "words"),
    [("error", "HTTP 503"), ("truncated", "broke off"), ("cut", "cut short"), ("endless", "4 MiB")],
)
def test_a_bad_answer_is_a_problem(truth, mode, words):
    answer = get(truth(mode))
    assert isinstance(answer, FetchProblem)
    assert words in answer.reason


@pytest.mark.parametrize(
    ("mode", "limit", "words"),
    [("drip", "WHOLE_TIMEOUT_SECONDS", "more than 2 s"), ("slow", "STEP_TIMEOUT_SECONDS", "no answer within 1 s")],
)
def test_an_answer_that_does_not_end_is_a_problem_after_a_bounded_time(truth, monkeypatch, mode, limit, words):
    monkeypatch.setattr(fetching, limit, LIMITS[limit])
    server = truth(mode)
    server.hold_seconds = 3600.0
    began = time.monotonic()
    answer = get(server)
    assert isinstance(answer, FetchProblem)
    assert words in answer.reason
    assert time.monotonic() - began < 60, "and not as long as the server would have gone on"


def test_a_server_that_is_gone_is_a_refused_connection(truth):
    server = truth("steady")
    server.close()
    answer = get(server)
    assert isinstance(answer, FetchProblem)
    assert "refused" in answer.reason


def packed(body, coding="gzip"):
    """An answer whose body is compressed."""
    packed = zlib.compress(body) if coding == "deflate" else gzip.compress(body, mtime=0)
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {len(packed)}\r\n\r\n"
    return head.encode() + packed


def behind(body, more):
    """A compressed answer that ends with its connection, and more behind it."""
    return b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(body, mtime=0) + more


@contextmanager
def raw_server(*answers: bytes, closed: threading.Semaphore | None = None):
    """One answer a connection, then it is closed, which ``closed`` counts; the URL's port and what was asked."""
    asked: list[bytes] = []
    closed = closed or threading.Semaphore(0)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for answer in answers:
                connection, _ = listener.accept()
                with connection, suppress(ConnectionError):  # who hangs up in the middle
                    asked.append(connection.recv(65536))
                    connection.sendall(answer.replace(b"PORT", str(listener.getsockname()[1]).encode()))
                closed.release()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1], asked
        thread.join(5)


TEXT = b"vllm:num_requests_running 2.0\n"
PAGE = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(TEXT), TEXT)


def test_a_kept_connection_that_the_server_closed_is_opened_again():
    closed = threading.Semaphore(0)
    with (
        raw_server(PAGE, PAGE, closed=closed) as (port, asked),
        open_client(f"http://127.0.0.1:{port}/metrics") as client,
    ):
        first = fetch(client, now=1.0)
        assert closed.acquire(timeout=60)
        assert isinstance(first, Scrape) and isinstance(fetch(client, now=2.0), Scrape)
    assert len(asked) == 2


def redirect(path, status=307):
    return b"HTTP/1.1 %d T\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n" % (status, path)


@pytest.mark.parametrize(
    ("status", "path"), [(307, b"/metrics/"), (301, b"metrics/"), (308, b"//127.0.0.1:PORT/metrics/")]
)
def test_another_path_of_the_same_server_is_gone_to_and_asked_from_then_on(status, path):
    answers = redirect(path, status), PAGE, PAGE
    with raw_server(*answers) as (port, asked), open_client(f"http://127.0.0.1:{port}/metrics") as client:
        assert isinstance(fetch(client, now=1.0), Scrape) and isinstance(fetch(client, now=2.0), Scrape)
    assert [one.split()[1] for one in asked] == [b"/metrics", b"/metrics/", b"/metrics/"]


def test_redirects_without_an_end_are_given_up():
    with raw_server(*(redirect(b"/%d" % turn) for turn in range(4))) as (port, asked):
        got = fetch(open_client(f"http://127.0.0.1:{port}/metrics"), now=1.0)
    assert isinstance(got, FetchProblem) and "another path (HTTP 307)" in got.reason
    assert len(asked) == 4


def test_the_user_and_password_of_a_url_are_sent_and_its_path_is_quoted():
    with raw_server(PAGE) as (port, asked):
        url = metrics_url(f"http://me:p%40ss@127.0.0.1:{port}/für mich")
        assert isinstance(fetch(open_client(url), now=1.0), Scrape)
    assert b"Authorization: Basic " + b64encode(b"me:p@ss") in asked[0]
    assert asked[0].startswith(b"GET /f%C3%BCr%20mich/metrics HTTP/1.1")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"SSH-2.0-OpenSSH\r\n", "was not HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nvllm:a 1\n", "broke off"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nvllm:a 1\n\r\n", "broke off"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nno number\r\n", "was not HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx", "cut short"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 9\r\n\r\nvllm:a 1\n", "and damaged"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 9\r\n\r\nvllm:a 1\n", "compressed in a way"),
        (packed(b"vllm:a 1\n")[:-4], "broke off"),
        (packed(b"\n" * (MAX_BODY_BYTES + 1)), "passed 4 MiB"),
        (behind(b"vllm:a 1\n", gzip.compress(b"vllm:b 1\n", mtime=0)), "goes on behind"),
        (behind(b"vllm:a 1\n", bytes(1 << 20)), "goes on behind"),
        (
            b"HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\nContent-Length: 0\r\n\r\n",
            "another host, as for a login",
        ),
        (b"HTTP/1.1 307 T\r\nLocation: /metrics\r\nContent-Length: 0\r\n\r\n", "another path (HTTP 307)"),
        (b"HTTP/1.1 307 T\r\nLocation: ?a=1\r\nContent-Length: 0\r\n\r\n", "another path (HTTP 307)"),
        (b"HTTP/1.1 307 T\r\nContent-Length: 0\r\n\r\n", "another path (HTTP 307)"),
        (b"HTTP/1.1 307 T\r\nLocation: http://127.0.0.1:1/metrics/\r\nContent-Length: 0\r\n\r\n", "another path"),
        (b"HTTP/1.1 308 P\r\nLocation: https://127.0.0.1/\r\nContent-Length: 0\r\n\r\n", "on to https://"),
        (b"HTTP/1.1 302 F\r\nLocation: http://[x/\r\nContent-Length: 0\r\n\r\n", "sends elsewhere (HTTP 302)"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n <!doctype html><html", "a web page"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 3\r\n\r\nhi\n", "a web page"),
        (b'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"a": 12}', "JSON"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "no /metrics there (HTTP 404)"),
        (b"HTTP/1.1 401 U\r\nContent-Length: 0\r\n\r\n", "asks for a key (HTTP 401)"),
        (b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n", "HTTP 502"),
        (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200 + b"\r\n", "was not HTTP"),
        (b"", "broke off"),
    ],
)
def test_what_is_no_good_answer_is_a_problem(answer, words):
    with raw_server(answer) as (port, _), open_client(f"http://127.0.0.1:{port}/metrics") as client:
        got = fetch(client, now=1.0)
    assert isinstance(got, FetchProblem)
    assert words in got.reason


@pytest.mark.parametrize("coding", ["gzip", "x-GZIP", "deflate"])
def test_a_proxy_that_compresses_unasked_is_understood(coding):
    body = b'vllm:generation_tokens_total{engine="0"} 7\n' * 3000
    with raw_server(packed(body, coding)) as (port, _), open_client(f"http://127.0.0.1:{port}/metrics") as client:
        assert fetch(client, 1.0).counter("generation") == 7


def test_chunks_are_put_together():
    pieces = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (TEXT[:7], TEXT[7:]))
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%s0\r\n\r\n" % pieces
    with raw_server(answer) as (port, _), open_client(f"http://127.0.0.1:{port}/metrics") as client:
        got = fetch(client, now=1.0)
    assert isinstance(got, Scrape)


def test_a_server_without_tls_is_said_to_have_none():
    with raw_server(b"HTTP/1.1 400 Bad Request\r\n\r\n") as (port, _):
        got = fetch(open_client(f"https://127.0.0.1:{port}/metrics"), now=1.0)
    assert isinstance(got, FetchProblem)
    assert "TLS" in got.reason


@pytest.fixture
def untrusted(tmp_path):
    """The port of a TLS server whose certificate no authority of this machine signed."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl here to make a certificate with")
    words = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=elsewhere -keyout key.pem -out cert.pem"
    subprocess.run(["openssl", *words.split()], cwd=tmp_path, capture_output=True, check=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                context.wrap_socket(connection, server_side=True)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(5)


def test_a_certificate_that_is_not_trusted_is_said_with_what_to_do(untrusted):
    got = fetch(open_client(f"https://127.0.0.1:{untrusted}/metrics"), now=1.0)
    assert isinstance(got, FetchProblem)
    assert "certificate is not valid here (self-signed" in got.reason.replace("self signed", "self-signed")
    assert "SSL_CERT_FILE" in got.fix


def test_a_host_that_has_no_address_is_said():
    got = fetch(open_client("http://no-such-host.invalid/metrics"), now=1.0)
    assert isinstance(got, FetchProblem)
    assert "no address is known" in got.reason


@pytest.mark.parametrize(
    ("pages", "server"),
    [
        ({"/v1/models": b'{"data": [{"owned_by": "sglang"}]}'}, "SGLang"),
        ({"/v1/models": b'{"data": [{"owned_by": "vllm"}]}'}, "vLLM"),
        ({"/v1/models": b'{"data": [{"owned_by": 5}]}', "/": b"Ollama is running"}, "Ollama"),
        ({"/info": b'{"model_id": "m", "max_total_tokens": 9}'}, "text-generation-inference"),
        ({"/info": b'{"model_id": "m", "model_type": {"embedding": {}}}'}, "text-embeddings-inference"),
        ({"/v1/models": b"[" * 100_000, "/info": b"[]"}, None),
        ({"/v1/models": b'{"data": ["x"]}', "/": b"<html>"}, None),
        ({}, None),
    ],
)
def test_what_serves_is_told_by_what_it_says_of_itself(pages, server):
    assert identify(pages.get) == server
