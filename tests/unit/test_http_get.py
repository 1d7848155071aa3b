"""One bounded GET: what comes in pieces is put together, and what is no answer ends in time."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cockpit import http_get
from cockpit.http_get import BrokenAnswerError, Connection, NoConnectionError, NoTlsError, SlowAnswerError

PATIENCE = 60.0
"""Seconds; only what fails takes them."""
URL = urlsplit("http://127.0.0.1:8000/x")


@contextmanager
def talk(answer, pieces=1, pause=0.0, close=True):
    """A connection whose other side gives ``answer`` in so many pieces, whatever it is asked."""
    ours, theirs = socket.socketpair()
    ours.settimeout(PATIENCE)

    def say():
        step = max(1, -(-len(answer) // pieces))
        try:
            for start in range(0, len(answer), step):
                theirs.sendall(answer[start : start + step])
                time.sleep(pause)
            if close:
                theirs.shutdown(socket.SHUT_WR)
        except OSError:
            return

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(http_get, "_connect", lambda *_: ours)
        connection = Connection(URL, PATIENCE)
    thread = threading.Thread(target=say, daemon=True)
    thread.start()
    with connection, theirs:
        yield connection, theirs
    thread.join(5)


def read(connection, seconds=PATIENCE):
    head = connection.get("/x", {}, seconds)
    assert head is not None
    deadline = time.monotonic() + seconds
    body = b""
    while piece := connection.piece(deadline):
        body += piece
    return head, body


def chunked(body, sizes):
    out, at = b"", 0
    for size in [*sizes, len(body) or 1]:
        if piece := body[at : at + size]:
            out += b"%X;name=value\r\n%s\r\n" % (len(piece), piece)
        at += size
    return out + b"0\r\nTrailer: x\r\n\r\n"


HEAD = b"HTTP/1.1 200 OK\r\n"


@settings(max_examples=60, deadline=None)
@given(
    st.binary(max_size=300),
    st.sampled_from(["length", "chunked", "close"]),
    st.lists(st.integers(1, 40), max_size=5),
    st.integers(1, 30),
)
def test_a_body_is_the_same_however_it_comes(body, framing, sizes, pieces):
    answer = {
        "length": HEAD + b"content-length: %d\r\n\r\n%s" % (len(body), body),
        "chunked": HEAD + b"Transfer-Encoding: Chunked\r\n\r\n" + chunked(body, sizes),
        "close": HEAD + b"X: y\r\n folded\r\n\r\n" + body,
    }[framing]
    with talk(answer, pieces) as (connection, _):
        head, got = read(connection)
        assert (head.status, got) == (200, body)
        assert connection.is_reusable == (framing != "close")


@settings(max_examples=150, deadline=None)
@given(
    st.binary(max_size=80), st.sampled_from([b"", HEAD, HEAD + b"\r\n", HEAD + b"Transfer-Encoding: chunked\r\n\r\n"])
)
def test_no_bytes_raise_anything_but_a_broken_answer(noise, before):
    with talk(before + noise) as (connection, _):
        try:
            if connection.get("/x", {}, PATIENCE) is not None:
                while connection.piece(time.monotonic() + PATIENCE):
                    pass
        except BrokenAnswerError:
            pass


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 200\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200\r\n" + b"a: b\r\n" * 101 + b"\r\n",
        b"HTTP/1.1 200\r\nX: " + b"x" * 70_000,
        b"HTTP/1.1 200\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200\r\nContent-Length: 1e9\r\n\r\n",
        b"HTTP/1.1 200\r\nContent-Length: 9\r\n\r\nshort",
        b"HTTP/1.1 200\r\nTransfer-Encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        b"HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n",
        b"HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello, world\r\n",
        b"HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello",
    ],
)
def test_what_is_no_answer_is_broken(answer):
    with talk(answer) as (connection, _), pytest.raises(BrokenAnswerError):
        read(connection)


@pytest.mark.parametrize("answer", [b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 9, HEAD + b"\r\n" + b"x" * 60])
def test_what_drips_is_given_up_in_time(answer):
    began = time.monotonic()
    with talk(answer, pieces=len(answer), pause=0.05) as (connection, _), pytest.raises(SlowAnswerError):
        read(connection, seconds=0.4)
    assert time.monotonic() - began < PATIENCE


def test_endless_provisional_answers_are_given_up_in_time():
    ours = b"HTTP/1.1 100 Continue\r\n\r\n" * 400
    with talk(ours, pieces=200, pause=0.01, close=False) as (connection, _), pytest.raises(SlowAnswerError):
        connection.get("/x", {}, 0.3)


def test_a_provisional_answer_comes_before_the_true_one():
    with talk(b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD + b"Content-Length: 1\r\n\r\nx") as (connection, _):
        assert read(connection)[1] == b"x"


def test_a_connection_closed_without_a_word_is_no_answer():
    with talk(b"") as (connection, _):
        assert connection.get("/x", {}, PATIENCE) is None


@pytest.mark.parametrize(
    ("answer", "reusable"),
    [
        (HEAD + b"Content-Length: 1\r\n\r\nx", True),
        (HEAD + b"Content-Length: 1\r\n\r\nx and more", False),
        (HEAD + b"Connection: close\r\nContent-Length: 1\r\n\r\nx", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", False),
        (b"HTTP/1.1 204 No Content\r\n\r\n", True),
    ],
)
def test_only_an_answer_that_was_read_to_its_end_is_followed_by_another(answer, reusable):
    with talk(answer, close=False) as (connection, _):
        read(connection)
        assert connection.is_reusable is reusable


@pytest.mark.parametrize("path", ["", "/a b", "/a\r\nX: y", "/\x7f", "/é"])
def test_no_path_begins_another_line_of_the_request(path):
    with talk(b"") as (connection, theirs), pytest.raises(ValueError, match=r"address|header"):
        try:
            connection.get(path, {}, 1.0)
        finally:
            theirs.setblocking(False)
            with pytest.raises(BlockingIOError):
                theirs.recv(100)


def test_no_header_begins_another_line_of_the_request():
    with talk(b"") as (connection, _), pytest.raises(ValueError, match="header"):
        connection.get("/", {"Authorization": "Bearer a\r\nX: y"}, 1.0)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://Example.org/", "example.org"),
        ("http://example.org:80/", "example.org"),
        ("http://example.org:8000/", "example.org:8000"),
        ("https://[::1]:443/", "[::1]"),
        ("http://[fe80::1%eth0]:8000/", "[fe80::1]:8000"),
        ("http://bücher.example/", "xn--bcher-kva.example"),
    ],
)
def test_the_host_is_named_as_the_server_knows_it(url, host):
    parts = urlsplit(url)
    assert http_get._host_header(parts.scheme, parts.hostname, parts.port) == host


def test_where_nothing_listens_there_is_no_connection():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    for host in ("127.0.0.1", "no-such-host.invalid", "x" * 300 + ".invalid"):
        with pytest.raises(NoConnectionError):
            Connection(urlsplit(f"http://{host}:{port}/"), 1.0)


def test_a_host_with_a_blank_is_none():
    with pytest.raises(ValueError, match="blank"):
        Connection(urlsplit("http://a b/"), 1.0)


def test_who_does_not_speak_tls_is_said_not_to():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=lambda: listener.accept()[0].sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"))
        thread.start()
        with pytest.raises(NoTlsError):
            Connection(urlsplit(f"https://127.0.0.1:{listener.getsockname()[1]}/"), 1.0)
        thread.join(5)


@pytest.mark.parametrize("url", ["http://[fe80::1%25eth0]:8000/x", "http://[fe80::1%eth0]:8000/x"])
def test_a_zone_is_understood_however_it_is_written_and_not_told_to_the_server(monkeypatch, url):
    ours, theirs = socket.socketpair()
    hosts = []
    monkeypatch.setattr(http_get, "_connect", lambda _scheme, host, *_: hosts.append(host) or ours)
    with Connection(urlsplit(url), 1.0) as connection, theirs:
        theirs.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        connection.get("/x", {}, 1.0)
        assert b"Host: [fe80::1]:8000\r\n" in theirs.recv(4096)
    assert hosts == ["fe80::1%eth0"]
