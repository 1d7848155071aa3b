"""One bounded HTTP GET of /metrics."""

from __future__ import annotations

import contextlib
import time
from base64 import b64encode
from collections.abc import Callable
from typing import Self
from urllib.parse import SplitResult, quote, unquote, urlsplit, urlunsplit

import msgspec

from cockpit.errors import CockpitError
from cockpit.http_get import BrokenAnswerError, Connection, Head, NoConnectionError, NoTlsError, SlowAnswerError
from cockpit.telemetry.scrape import Scrape
from cockpit.telemetry.vllm import parse_scrape

MAX_BODY_BYTES = 4 * 1024 * 1024
"""Eighty times a real answer; a body that passes it is not read on."""
STEP_TIMEOUT_SECONDS = 1.0
"""Longest wait for a connection and for each piece of the answer."""
WHOLE_TIMEOUT_SECONDS = 2.0
"""Longest wait for the whole head and for the whole body, so that one that drips cannot hold a tick."""


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


class MetricsClient:
    """One kept connection to one server; no proxy is asked, no redirect followed, plain text asked for.

    Raises CockpitError when the key cannot be sent in a header.
    """

    def __init__(self, url: str, api_key: str | None = None) -> None:
        if api_key is not None and not (api_key.isascii() and api_key.isprintable()):
            raise CockpitError(
                "The API key cannot be sent",
                "it holds characters that no header may hold",
                "Check it for line ends.",
            )
        self._parts = urlsplit(url)
        self._headers = {"Accept": "text/plain; version=0.0.4", "Accept-Encoding": "identity"}
        if self._parts.username is not None:
            self._headers["Authorization"] = _basic(self._parts)
        elif api_key is not None:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._connection: Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connection."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def body(self) -> bytes:
        """One GET. Raises _UnusableAnswerError, what http_get raises, and OSError; then the connection is closed."""
        try:
            connection, head = self._answer()
            body = _body(connection, head)
        except BaseException:
            self.close()
            raise
        if not connection.is_reusable:
            self.close()
        return body

    def _answer(self) -> tuple[Connection, Head]:
        """The beginning of the answer; a kept connection that its server has closed meanwhile is opened again."""
        if self._connection is not None:
            with contextlib.suppress(ConnectionError):
                head = self._ask(self._connection)
                if head is not None:
                    return self._connection, head
            self.close()
        self._connection = Connection(self._parts, STEP_TIMEOUT_SECONDS)
        head = self._ask(self._connection)
        if head is None:
            raise BrokenAnswerError("the connection was closed without an answer")
        return self._connection, head

    def _ask(self, connection: Connection) -> Head | None:
        path = quote(self._parts.path, safe="/%:@!$&'()*+,;=~")
        return connection.get(path, self._headers, WHOLE_TIMEOUT_SECONDS)


def open_client(url: str, api_key: str | None = None) -> MetricsClient:
    """A client for a /metrics address. Raises CockpitError when the key cannot be sent in a header."""
    return MetricsClient(url, api_key)


def _basic(parts: SplitResult) -> str:
    """The user and password of a URL as a header."""
    words = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    return f"Basic {b64encode(words.encode()).decode()}"


def fetch(client: MetricsClient, now: float, clock: Callable[[], float] = time.monotonic) -> Scrape | FetchProblem:
    """Read once. ``now`` is Unix time, ``clock`` gives monotonic seconds; nothing a server does raises."""
    try:
        body = client.body()
        arrived = clock()
    except _UnusableAnswerError as error:
        return FetchProblem(at=now, reason=error.reason, asks_for_key=error.asks_for_key)
    except (OSError, ValueError, BrokenAnswerError, NoConnectionError, NoTlsError, SlowAnswerError) as error:
        return FetchProblem(at=now, reason=_reason(error))
    return parse_scrape(body.decode("utf-8", errors="replace"), at=now, clock=arrived)


def _reason(error: Exception) -> str:
    """What went wrong, as a clause."""
    match error:
        case NoTlsError():
            return "its certificate is not valid here, or it does not speak TLS"
        case NoConnectionError():
            return "the connection was refused or the host is not reachable"
        case SlowAnswerError():
            return f"the answer took more than {WHOLE_TIMEOUT_SECONDS:g} s"
        case TimeoutError():
            return f"no answer within {STEP_TIMEOUT_SECONDS:g} s"
        case ValueError():
            return "the URL cannot be used"
    return "the answer broke off or was not HTTP"


class _UnusableAnswerError(Exception):
    """An answer that came and gives no figures."""

    def __init__(self, reason: str, asks_for_key: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.asks_for_key = asks_for_key


def _body(connection: Connection, head: Head) -> bytes:
    """The whole body, bounded in bytes and in time; raises _UnusableAnswerError."""
    if head.status in {401, 403}:
        raise _UnusableAnswerError(f"the server asks for another key (HTTP {head.status})", asks_for_key=True)
    if head.status != 200:
        raise _UnusableAnswerError(f"the server answered HTTP {head.status}")
    if head.headers.get("content-encoding", "identity") != "identity":
        # Plain text was asked for; unpacking what comes instead could pass any bound.
        raise _UnusableAnswerError("the answer is compressed, which was not asked for")
    deadline = time.monotonic() + WHOLE_TIMEOUT_SECONDS
    body = bytearray()
    while piece := connection.piece(deadline):
        body += piece
        if len(body) > MAX_BODY_BYTES:
            raise _UnusableAnswerError(f"the answer passed {MAX_BODY_BYTES // 1024**2} MiB")
    if body and not body.endswith(b"\n"):
        # The format ends each line; a cut figure would read as a counter that went backwards.
        raise _UnusableAnswerError("the answer was cut short")
    return bytes(body)
