"""No false alarm: servers that answer some requests with errors, boots that go on after a traceback, cut logs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from cockpit.supervisor.diagnose.files import diagnose_lines
from cockpit.supervisor.diagnose.types import End
from cockpit.supervisor.logfile import clean

LOGS = Path(__file__).parents[3] / "fixtures" / "boot-logs"
BOOT = [
    clean(line, 8000) for line in (LOGS / "h200-0.26-ct4-graph.log").read_text(encoding="utf-8").rstrip().split("\n")
]
READY = next(index for index, line in enumerate(BOOT) if "Application startup complete" in line)
ANSWERED = 'INFO:     127.0.0.1:1 - "POST /v1/chat/completions HTTP/1.1" 200 OK'
SERVING = "(APIServer pid=101) ERROR 10-03 10:00:00 [serving.py:300] "


def traceback(file: str, function: str, error: str) -> list[str]:
    return ["Traceback (most recent call last):", f'  File "{file}", line 9, in {function}', "    call()", error]


def logged(file: str, function: str, error: str) -> list[str]:
    return [f"{SERVING}{line}" for line in ["Error in preprocessing", *traceback(file, function, error)]]


REQUESTS: dict[str, list[str]] = {
    "a template refuses the roles": logged(
        "/v/jinja2/environment.py",
        "render",
        "jinja2.exceptions.TemplateError: Conversation roles must alternate user/assistant/user/assistant/...",
    ),
    "a prompt is too long": logged(
        "/v/vllm/entrypoints/openai/serving_engine.py",
        "_validate_input",
        "ValueError: This model's maximum context length is 32768 tokens. However, you requested 40000 tokens.",
    ),
    "a body is no JSON": [
        "ERROR:    Exception in ASGI application",
        *traceback(
            "/v/starlette/requests.py", "json", "json.decoder.JSONDecodeError: Expecting value: line 1 column 1"
        ),
    ],
    "a client goes away": [
        "ERROR:    Exception in ASGI application",
        *traceback("/v/starlette/requests.py", "stream", "starlette.requests.ClientDisconnect"),
    ],
    "exceptions in a group": [
        "ERROR:    Exception in ASGI application",
        "  + Exception Group Traceback (most recent call last):",
        '  |   File "/v/uvicorn/protocols/http/h11_impl.py", line 403, in run_asgi',
        "  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)",
        "  +-+---------------- 1 ----------------",
        *(
            f"    | {line}"
            for line in traceback("/v/starlette/responses.py", "wrap", "RuntimeError: already started")
        ),
        "    +------------------------------------",
    ],
    "refused requests": ['INFO:     127.0.0.1:4 - "POST /v1/chat/completions HTTP/1.1" 400 Bad Request'] * 50,
    "an image that cannot be fetched": logged(
        "/v/aiohttp/client.py",
        "_request",
        "aiohttp.client_exceptions.ClientConnectorError: Cannot connect to host a:443",
    ),
    "a tool call that does not parse": logged("/v/vllm/tool_parsers/qwen3coder.py", "extract", "KeyError: 'name'"),
    "too many connections": [
        "ERROR:    socket.accept() out of system resource",
        *traceback("/u/asyncio/selector_events.py", "_accept", "OSError: [Errno 24] Too many open files"),
    ],
    "a task that failed": [
        "Task exception was never retrieved",
        *traceback("/v/vllm/entrypoints/openai/x.py", "foo", "ValueError: bad"),
    ],
}
ASIDE: dict[str, list[str]] = {
    "a thread that reports usage": [
        "Exception in thread Thread-3 (_report_usage_worker):",
        *traceback(
            "/v/requests/adapters.py",
            "send",
            "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='stats.vllm.ai', port=443): Max retries",
        ),
    ],
    "a destructor": [
        "Exception ignored in: <function Foo.__del__ at 0x7f>",
        *traceback("/v/vllm/x/y.py", "__del__", "AttributeError: 'NoneType' object has no attribute 'x'"),
    ],
    "a hub that is asked again": [
        "HTTP Error 504 thrown while requesting HEAD https://huggingface.co/a/b/resolve/main/config.json",
        "'504 Server Error: Gateway Time-out for url: https://huggingface.co/a/b' thrown while requesting GET",
        "Retrying in 1s [Retry 1/5].",
    ],
    "a warning with an out of memory": [
        f"(EngineCore pid=2) WARNING 10-03 10:00:00 [tuner.py:1] {line}"
        for line in traceback("/v/flashinfer/tuner.py", "tune", "torch.OutOfMemoryError: CUDA out of memory.")
    ],
}


def assert_quiet(lines: Sequence[str], end: End, healthy: bool) -> None:
    diagnosis = diagnose_lines(lines, end)
    assert (diagnosis.healthy, diagnosis.symptom, diagnosis.first_exception) == (healthy, None, None)


@pytest.mark.parametrize("dead", [None, False])
@pytest.mark.parametrize("name", [*REQUESTS, *ASIDE])
def test_a_server_with_requests_that_fail_is_healthy(name: str, dead: bool | None) -> None:
    assert_quiet([*BOOT, *{**REQUESTS, **ASIDE}[name], ANSWERED], End(dead=dead), healthy=True)


@pytest.mark.parametrize("part", [0.1, 0.4, 0.7, 0.95])
@pytest.mark.parametrize("name", list(ASIDE))
def test_a_boot_that_goes_on_after_a_traceback_has_not_died(name: str, part: float) -> None:
    at = int(READY * part)
    assert_quiet([*BOOT[:at], *ASIDE[name]], End(), healthy=False)
    assert_quiet([*BOOT[:at], *ASIDE[name], *BOOT[at:]], End(), healthy=True)


def test_an_exception_that_the_boot_went_past_is_not_its_death() -> None:
    stray = traceback("/v/optional/load.py", "load", "ModuleNotFoundError: No module named 'optional'")
    weights = next(index for index, line in enumerate(BOOT) if "Loading model from scratch" in line)
    later = next(index for index, line in enumerate(BOOT) if "Available KV cache memory" in line)
    assert diagnose_lines([*BOOT[: weights - 1], *stray]).symptom == "module-missing"
    assert_quiet([*BOOT[: weights - 1], *stray, *BOOT[weights - 1 : later + 1]], End(), healthy=False)


def test_a_log_that_is_cut_inside_of_a_traceback_does_not_name_a_wrapper() -> None:
    lines = [clean(line, 8000) for line in (LOGS / "h200-0.26-nokv.log").read_text(encoding="utf-8").split("\n")]
    start = next(index for index, line in enumerate(lines) if "EngineCore failed to start" in line)
    for index in range(start, len(lines), 7):
        shown = diagnose_lines(lines[:index]).first_exception or ""
        assert "initialization failed" not in shown and "failed to start" not in shown
