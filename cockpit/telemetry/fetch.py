"""One bounded HTTP GET of /metrics."""

from __future__ import annotations

import contextlib
import socket
import time
import zlib
from base64 import b64encode
from collections.abc import Callable
from typing import Self
from urllib.parse import SplitResult, quote, unquote, urlsplit, urlunsplit

import msgspec

from cockpit.errors import CockpitError
from cockpit.http_get import BrokenAnswerError, Connection, Head, NoConnectionError, NoTlsError, SlowAnswerError
from cockpit.telemetry.answers import (
    CHECK_ADDRESS,
    FetchProblem,
    UnusableAnswerError,
    moved_to,
    refuse_other_kinds,
    refuse_status,
)
from cockpit.telemetry.clock import elapsed
from cockpit.telemetry.scrape import Scrape
from cockpit.telemetry.vllm import parse_scrape

MAX_BODY_BYTES = 4 * 1024 * 1024
"""Eighty times a real answer; a body that passes it is not read on."""
STEP_TIMEOUT_SECONDS = 1.0
"""Longest wait for a connection and for each piece of the answer."""
WHOLE_TIMEOUT_SECONDS = 2.0
"""Longest wait for the whole head and for the whole body, so that one that drips cannot hold a tick."""
_MOST_REDIRECTS = 3
_ZLIB_CODINGS = ("gzip", "x-gzip", "deflate")
"""What some proxies send although plain text was asked for."""
_ANY_ZLIB = 47
"""wbits of zlib: the header says which of the formats it is."""
_CHECK_SCHEME = "Check the port, and whether it wants https://."
_TRUST = "Name its authority's file in SSL_CERT_FILE, or give the host name that the certificate is for."
_FAILURES = (OSError, ValueError, BrokenAnswerError, NoConnectionError, NoTlsError, SlowAnswerError)


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
    if any(character <= " " or character == "\x7f" for character in parts.hostname):
        raise CockpitError("This is not a server's URL", "a blank stands in its host", fix)
    path = parts.path.rstrip("/").removesuffix("/metrics").removesuffix("/v1")
    return urlunsplit((parts.scheme, parts.netloc, f"{path}/metrics", "", ""))


class MetricsClient:
    """One kept connection to one server; no proxy is asked, no redirect followed elsewhere, plain text asked for.

    Raises CockpitError when the key cannot be sent in a header.
    """

    def __init__(self, url: str, api_key: str | None = None) -> None:
        if api_key is not None and not (api_key.isascii() and api_key.isprintable()):
            raise CockpitError(
                "The API key cannot be sent",
                "it holds characters that no header may hold",
                "Check it for line ends.",
            )
        self._has_key = api_key is not None
        self._parts = urlsplit(url)
        self._path = self._parts.path
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
        """One GET. Raises UnusableAnswerError, what http_get raises, and OSError; then the connection is closed."""
        try:
            connection, head = self._moved(*self._answer(self._path))
            refuse_status(head, self._parts, self._has_key)
            body = _body(connection, head)
            refuse_other_kinds(head.headers.get("content-type", ""), body)
        except BaseException:
            self.close()
            raise
        if not connection.is_reusable:
            self.close()
        return body

    def _moved(self, connection: Connection, head: Head) -> tuple[Connection, Head]:
        """The answer behind redirects to other paths of the same server, where it is asked from then on."""
        for _ in range(_MOST_REDIRECTS):
            path = moved_to(head, self._parts)
            if path is None or path == self._path:
                break
            self._path = path
            self.close()
            connection, head = self._answer(path)
        return connection, head

    def page(self, path: str) -> bytes | None:
        """Body of another path below the same base; None when it cannot be had."""
        try:
            connection, head = self._answer(self._parts.path.removesuffix("/metrics") + path)
            return _body(connection, head) if head.status == 200 else None
        except (UnusableAnswerError, *_FAILURES):
            return None
        finally:
            self.close()

    def _answer(self, path: str) -> tuple[Connection, Head]:
        """The beginning of the answer; a kept connection that its server has closed meanwhile is opened again."""
        if self._connection is not None:
            with contextlib.suppress(ConnectionError):
                head = self._ask(self._connection, path)
                if head is not None:
                    return self._connection, head
            self.close()
        self._connection = Connection(self._parts, STEP_TIMEOUT_SECONDS)
        head = self._ask(self._connection, path)
        if head is None:
            raise BrokenAnswerError("the connection was closed without an answer")
        return self._connection, head

    def _ask(self, connection: Connection, path: str) -> Head | None:
        return connection.get(quote(path, safe="/%:@!$&'()*+,;=~"), self._headers, WHOLE_TIMEOUT_SECONDS)


def open_client(url: str, api_key: str | None = None) -> MetricsClient:
    """A client for a /metrics address. Raises CockpitError when the key cannot be sent in a header."""
    return MetricsClient(url, api_key)


def _basic(parts: SplitResult) -> str:
    """The user and password of a URL as a header."""
    words = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    return f"Basic {b64encode(words.encode()).decode()}"


def fetch(client: MetricsClient, now: float, clock: Callable[[], float] = elapsed) -> Scrape | FetchProblem:
    """Read once. ``now`` is Unix time, ``clock`` gives monotonic seconds; nothing a server does raises."""
    try:
        body = client.body()
        arrived = clock()
    except UnusableAnswerError as error:
        return msgspec.structs.replace(error.problem, at=now)
    except _FAILURES as error:
        reason, fix = _why(error)
        return FetchProblem(at=now, reason=reason, fix=fix)
    return parse_scrape(body.decode("utf-8", errors="replace"), at=now, clock=arrived)


def _why(error: Exception) -> tuple[str, str]:
    """What went wrong, as a clause, and what to do."""
    match error:
        case NoTlsError() | NoConnectionError():
            return _why_not_connected(error)
        case SlowAnswerError():
            return f"the answer took more than {WHOLE_TIMEOUT_SECONDS:g} s", CHECK_ADDRESS
        case TimeoutError():
            return f"no answer within {STEP_TIMEOUT_SECONDS:g} s", CHECK_ADDRESS
        case ValueError():
            return "the URL cannot be used", CHECK_ADDRESS
    return "the answer broke off or was not HTTP", _CHECK_SCHEME


def _why_not_connected(error: NoTlsError | NoConnectionError) -> tuple[str, str]:
    """The same before anything was asked."""
    cause = error.__cause__
    if isinstance(error, NoTlsError):
        detail = getattr(cause, "verify_message", "")
        if detail:
            return f"its certificate is not valid here ({detail.rstrip('.')})", _TRUST
        return "it does not speak TLS there", "Try http:// instead of https://."
    if isinstance(cause, socket.gaierror):
        return "no address is known for the host's name", CHECK_ADDRESS
    if isinstance(cause, ConnectionRefusedError):
        return "the connection was refused, as nothing listens there", CHECK_ADDRESS
    return "the host is not reachable", CHECK_ADDRESS


def _body(connection: Connection, head: Head) -> bytes:
    """The whole body, bounded in bytes and in time; raises UnusableAnswerError."""
    coding = head.headers.get("content-encoding", "identity").lower()
    if coding not in _ZLIB_CODINGS and coding != "identity":
        raise UnusableAnswerError("the answer is compressed in a way that was not asked for")
    unpack = zlib.decompressobj(_ANY_ZLIB) if coding in _ZLIB_CODINGS else None
    deadline = time.monotonic() + WHOLE_TIMEOUT_SECONDS
    body = bytearray()
    while piece := connection.piece(deadline):
        body += piece if unpack is None else _unpacked(unpack, piece, MAX_BODY_BYTES + 1 - len(body))
        if len(body) > MAX_BODY_BYTES:
            raise UnusableAnswerError(f"the answer passed {MAX_BODY_BYTES // 1024**2} MiB")
    if unpack is not None and not unpack.eof:
        raise UnusableAnswerError("the answer was cut short")
    return bytes(body)


def _unpacked(unpack: zlib._Decompress, piece: bytes, most: int) -> bytes:
    """A piece of a compressed body, no more than so many bytes of it."""
    is_over = unpack.eof
    try:
        plain = b"" if is_over else unpack.decompress(piece, most)
    except zlib.error as error:
        raise UnusableAnswerError("the answer is compressed, and damaged") from error
    if is_over or unpack.unused_data:
        # zlib would keep whatever comes now, without a bound.
        raise UnusableAnswerError("the answer goes on behind its compressed part")
    return plain
