"""One bounded HTTP GET of /metrics."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import msgspec

from cockpit.errors import CockpitError
from cockpit.telemetry.scrape import Scrape
from cockpit.telemetry.vllm import parse_scrape

if TYPE_CHECKING:
    import httpx

MAX_BODY_BYTES = 4 * 1024 * 1024
"""Eighty times a real answer; a body that passes it is not read on."""
STEP_TIMEOUT_SECONDS = 1.0
"""Longest wait for a connection and for each piece of the answer."""
WHOLE_TIMEOUT_SECONDS = 2.0
"""Longest wait for the whole body, so that one that drips cannot hold a tick."""


class FetchProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Why /metrics gave no figures."""

    at: float
    reason: str
    """A clause of the cockpit's own words, e.g. ``the connection was refused``; nothing the server sent is in it."""
    asks_for_key: bool = False


def metrics_url(url: str) -> str:
    """The /metrics address of a server's base URL; an OpenAI base URL (ending in /v1) is understood too.

    Raises CockpitError when it is no http or https URL.
    """
    fix = "Give the server's address like http://127.0.0.1:8000"
    try:
        parts = urlsplit(url.strip())
        port_is_valid = parts.port is None or parts.port > 0
    except ValueError as error:
        raise CockpitError("This is not a server's URL", str(error), fix) from error
    if parts.scheme not in {"http", "https"} or not parts.hostname or not port_is_valid:
        raise CockpitError("This is not a server's URL", "it needs http:// or https:// and a host", fix)
    path = parts.path.rstrip("/").removesuffix("/metrics").removesuffix("/v1")
    return urlunsplit((parts.scheme, parts.netloc, f"{path}/metrics", "", ""))


def open_client(url: str, api_key: str | None = None) -> httpx.Client:
    """A client that ignores proxy variables, follows no redirect and asks for plain text.

    Raises CockpitError when the key cannot be sent in a header.
    """
    import httpx

    headers = {"Accept": "text/plain; version=0.0.4", "Accept-Encoding": "identity"}
    if api_key is not None:
        if not (api_key.isascii() and api_key.isprintable()):
            raise CockpitError(
                "The API key cannot be sent",
                "it holds characters that no header may hold",
                "Check it for line ends.",
            )
        headers["Authorization"] = f"Bearer {api_key}"
    # Reading the host's certificates costs time and memory, which plain HTTP has no use for.
    verify = url.startswith("https")
    return httpx.Client(headers=headers, timeout=STEP_TIMEOUT_SECONDS, trust_env=False, verify=verify)


def fetch(
    client: httpx.Client, url: str, now: float, clock: Callable[[], float] = time.monotonic
) -> Scrape | FetchProblem:
    """Read ``url`` once. ``now`` is Unix time, ``clock`` gives monotonic seconds; nothing a server does raises."""
    import httpx

    try:
        with client.stream("GET", url) as response:
            body = _body(response)
            arrived = clock()
    except _UnusableAnswerError as error:
        return FetchProblem(at=now, reason=error.reason, asks_for_key=error.asks_for_key)
    except httpx.TimeoutException:
        return FetchProblem(at=now, reason=f"no answer within {STEP_TIMEOUT_SECONDS:g} s")
    except httpx.ConnectError:
        return FetchProblem(at=now, reason="the connection was refused or the host is not reachable")
    except (httpx.HTTPError, httpx.StreamError):
        return FetchProblem(at=now, reason="the answer broke off or was not HTTP")
    except httpx.InvalidURL:
        return FetchProblem(at=now, reason="the URL cannot be used")
    return parse_scrape(body.decode("utf-8", errors="replace"), at=now, clock=arrived)


class _UnusableAnswerError(Exception):
    """An answer that came and gives no figures."""

    def __init__(self, reason: str, asks_for_key: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.asks_for_key = asks_for_key


def _body(response: httpx.Response) -> bytes:
    """The whole body, bounded in bytes and in time; raises _UnusableAnswerError."""
    if response.status_code in {401, 403}:
        raise _UnusableAnswerError(
            f"the server asks for another key (HTTP {response.status_code})", asks_for_key=True
        )
    if response.status_code != 200:
        raise _UnusableAnswerError(f"the server answered HTTP {response.status_code}")
    if response.headers.get("content-encoding", "identity") != "identity":
        # Plain text was asked for; unpacking what comes instead could pass any bound.
        raise _UnusableAnswerError("the answer is compressed, which was not asked for")
    deadline = time.monotonic() + WHOLE_TIMEOUT_SECONDS
    body = bytearray()
    for piece in response.iter_raw():
        body += piece
        if len(body) > MAX_BODY_BYTES:
            raise _UnusableAnswerError(f"the answer passed {MAX_BODY_BYTES // 1024**2} MiB")
        if time.monotonic() > deadline:
            raise _UnusableAnswerError(f"the answer took more than {WHOLE_TIMEOUT_SECONDS:g} s")
    if body and not body.endswith(b"\n"):
        # The format ends each line; a cut figure would read as a counter that went backwards.
        raise _UnusableAnswerError("the answer was cut short")
    return bytes(body)
