"""GET over HTTP/1.1 on a kept connection, bounded in bytes and in time, whatever the server does.

http.client does the same with the whole of ``email`` and the tables of internationalized host names: 2 MB that a
screen which asks its own host once a second need not hold.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from typing import Self, cast
from urllib.parse import SplitResult

import msgspec

_PORTS = {"http": 80, "https": 443}
_MAX_LINE_BYTES = 1 << 16
_MAX_HEADERS = 100
_PIECE_BYTES = 1 << 16


class NoConnectionError(Exception):
    """Nothing listens there, or the host is not known."""


class NoTlsError(Exception):
    """The other side does not speak TLS, or its certificate is not valid here."""


class BrokenAnswerError(Exception):
    """What came is not HTTP, or it ended too early."""


class SlowAnswerError(Exception):
    """The answer was not complete in time."""


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """The beginning of an answer."""

    status: int
    headers: Mapping[str, str]
    """By name in lower case; of one that is repeated, the first."""


class Connection:
    """One connection to the host of a URL. ``step_seconds`` is the longest wait for it and for any piece.

    Every method raises TimeoutError after that wait, and OSError when the network fails.
    """

    def __init__(self, parts: SplitResult, step_seconds: float) -> None:
        """Connect. Raises NoConnectionError, NoTlsError, TimeoutError, and ValueError for what is no host."""
        host = parts.hostname or ""
        if ":" in host:
            # A zone is written as RFC 6874 wants it in a URL, or as all else writes it.
            host = host.replace("%25", "%", 1)
        _require_plain(host)
        self._host = _host_header(parts.scheme, host, parts.port)
        self._socket = _connect(parts.scheme, host, parts.port or _PORTS[parts.scheme], step_seconds)
        self._buffer = bytearray()
        self._left: int | None = 0
        """Bytes of the body, or of its chunk, that are still to come; None when it lasts until the end."""
        self._is_chunked = False
        self._is_kept = False
        self._is_complete = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of it."""
        self._socket.close()

    @property
    def is_reusable(self) -> bool:
        """Whether another question may be asked: the last answer was read to its end and said so."""
        return self._is_kept and self._is_complete and not self._buffer

    def get(self, path: str, headers: Mapping[str, str], seconds: float) -> Head | None:
        """Ask; the status and headers of the answer, None when the server closed the connection instead.

        Raises ValueError for what no request may hold, BrokenAnswerError, and SlowAnswerError after ``seconds``.
        """
        _require_plain(path)
        lines = [f"GET {path} HTTP/1.1", f"Host: {self._host}", *map(": ".join, headers.items())]
        if not all(line.isascii() and line.isprintable() for line in lines):
            raise ValueError("a header holds characters that none may hold")
        self._socket.sendall("\r\n".join([*lines, "", ""]).encode("ascii"))
        deadline = time.monotonic() + seconds
        if not self._buffer and not self._fill(deadline):
            return None
        head = self._head(deadline)
        while 100 <= head.status < 200:
            head = self._head(deadline)
        self._expect(head)
        return head

    def piece(self, deadline: float) -> bytes:
        """The next bytes of the body, empty at its end; ``deadline`` is in monotonic seconds.

        Raises BrokenAnswerError when it ends too early, and SlowAnswerError.
        """
        if self._left == 0 and self._is_chunked and not self._is_complete:
            self._next_chunk(deadline)
        if self._is_complete:
            return b""
        if not self._buffer and not self._fill(deadline):
            if self._left is not None:
                raise BrokenAnswerError("the body ended too early")
            self._is_complete = True
            return b""
        piece = self._take(len(self._buffer) if self._left is None else min(self._left, len(self._buffer)))
        if self._left is not None:
            self._left -= len(piece)
            if self._left == 0 and self._is_chunked and self._line(deadline):
                raise BrokenAnswerError("a chunk is longer than it said")
            self._is_complete = self._left == 0 and not self._is_chunked
        return piece

    # What is read

    def _head(self, deadline: float) -> Head:
        words = self._line(deadline).split(None, 2)
        if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not (words[1].isdigit() and len(words[1]) == 3):
            raise BrokenAnswerError("there is no status line")
        headers: dict[str, str] = {}
        count = 0
        while line := self._line(deadline):
            count += 1
            name, colon, value = line.decode("latin-1").partition(":")
            goes_on = line[0] in b" \t"
            if count > _MAX_HEADERS or not (colon or goes_on):
                raise BrokenAnswerError("the headers cannot be read")
            if not goes_on:
                headers.setdefault(name.strip().lower(), value.strip())
        kept = "close" if words[0] == b"HTTP/1.0" else "keep-alive"
        self._is_kept = headers.get("connection", kept).lower() == "keep-alive"
        return Head(status=int(words[1]), headers=headers)

    def _expect(self, head: Head) -> None:
        """How the end of the body will be known."""
        transfer = head.headers.get("transfer-encoding", "identity").lower()
        if transfer not in ("chunked", "identity"):
            raise BrokenAnswerError("the body is transferred in a way that was not asked for")
        self._is_chunked = transfer == "chunked"
        length = head.headers.get("content-length")
        if self._is_chunked or head.status in (204, 304):
            self._left = 0
        elif length is None:
            self._left, self._is_kept = None, False
        elif length.isascii() and length.isdigit() and len(length) < 20:
            self._left = int(length)
        else:
            raise BrokenAnswerError("the length of the body is no number")
        self._is_complete = self._left == 0 and not self._is_chunked

    def _next_chunk(self, deadline: float) -> None:
        size = self._line(deadline).partition(b";")[0].strip()
        if not size or len(size) > 16 or not all(digit in b"0123456789abcdefABCDEF" for digit in size):
            raise BrokenAnswerError("the size of a chunk is no number")
        self._left = int(size, 16)
        if self._left == 0:
            trailers = 0
            while self._line(deadline):
                trailers += 1
                if trailers > _MAX_HEADERS:
                    raise BrokenAnswerError("there are too many trailers")
            self._is_complete = True

    def _line(self, deadline: float) -> bytes:
        """The next line without its end."""
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            if searched > _MAX_LINE_BYTES:
                raise BrokenAnswerError("a line is too long")
            if not self._fill(deadline):
                raise BrokenAnswerError("the answer ended within a line")
        return self._take(end + 1).rstrip(b"\r\n")

    def _take(self, count: int) -> bytes:
        piece = bytes(self._buffer[:count])
        del self._buffer[:count]
        return piece

    def _fill(self, deadline: float) -> bool:
        """Wait for more; whether there is."""
        if time.monotonic() > deadline:
            raise SlowAnswerError
        data = self._socket.recv(_PIECE_BYTES)
        self._buffer += data
        return bool(data)


def _require_plain(text: str) -> None:
    """No blank or control may get into a request: it would begin another line of it."""
    if not text or any(character <= " " or character == "\x7f" for character in text):
        raise ValueError("a blank or control character in an address")


def _host_header(scheme: str, host: str, port: int | None) -> str:
    name = host if host.isascii() else host.encode("idna").decode("ascii")
    name = f"[{name.partition('%')[0]}]" if ":" in name else name
    return name if port in (None, _PORTS[scheme]) else f"{name}:{port}"


def to_look_up(host: str) -> str:
    """The host as getaddrinfo takes it: a str would load the tables of internationalized names, bytes do not."""
    return cast("str", host.encode("ascii")) if host.isascii() else host


def _connect(scheme: str, host: str, port: int, seconds: float) -> socket.socket:
    try:
        plain = socket.create_connection((to_look_up(host), port), seconds)
    except TimeoutError:
        raise
    except (OSError, UnicodeError) as error:
        raise NoConnectionError from error
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return plain if scheme == "http" else _with_tls(plain, host)
    except BaseException:
        plain.close()
        raise


def _with_tls(plain: socket.socket, host: str) -> socket.socket:
    import ssl

    try:
        return ssl.create_default_context().wrap_socket(plain, server_hostname=host)
    except TimeoutError:
        raise
    except (OSError, ValueError) as error:
        raise NoTlsError from error
