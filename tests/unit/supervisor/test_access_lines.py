"""Which lines of a log say only that a request was answered."""

from __future__ import annotations

import pytest

from cockpit.supervisor.access_lines import is_access, is_only_access


@pytest.mark.parametrize(
    "line",
    [
        'INFO:     127.0.0.1:41346 - "GET /health HTTP/1.1" 200 OK',
        '(APIServer pid=12) INFO:     10.0.0.7:5 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
        'INFO:     ::1:41346 - "GET /metrics?x=1 HTTP/1.0" 307 Temporary Redirect',
        'INFO 11-29 20:00:00 [httptools_impl.py:481] 127.0.0.1:1 - "OPTIONS /v1/models HTTP/2" 204 No Content',
        'INFO:      - "GET / HTTP/1.1" 304',
    ],
)
def test_an_answered_request_is_an_access_line(line):
    assert is_access(line)


@pytest.mark.parametrize(
    "line",
    [
        "",
        'INFO:     127.0.0.1:41346 - "POST /v1/completions HTTP/1.1" 400 Bad Request',
        'INFO:     127.0.0.1:41346 - "GET /metrics HTTP/1.1" 500 Internal Server Error',
        "INFO 11-29 20:00:00 [launcher.py:46] Route: /health, Methods: GET",
        "Received request cmpl-1: prompt: '- \"GET / HTTP/1.1\" 200 OK', params: SamplingParams(n=1)",
        'Received request cmpl-1: prompt: "say - "GET / HTTP/1.1" 200 OK, 201 or 404',
        "an HTTP/1.1 server answered 200",
    ],
)
def test_anything_else_is_none(line):
    assert not is_access(line)


@pytest.mark.parametrize(
    "text",
    ['127.0.0.1:41346 - "GET /health HTTP/1.1" 200 OK', '[::1%2]:5 - "GET / HTTP/1.1" 304', '- "PUT /a HTTP/2" 204 '],
)
def test_a_text_may_be_an_access_line_whole(text):
    assert is_only_access(text)


@pytest.mark.parametrize(
    "text",
    [
        'ValueError: x 127.0.0.1:41346 - "GET /health HTTP/1.1" 200 OK',
        'an error - "GET / HTTP/1.1" 200 OK',
        '127.0.0.1:41346 - "GET /health HTTP/1.1" 500 Internal Server Error',
    ],
)
def test_a_text_with_anything_else_is_not(text):
    assert not is_only_access(text)
