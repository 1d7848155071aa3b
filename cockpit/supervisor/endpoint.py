"""Two short questions to a server: does it answer, and which models does it serve. No proxy is ever asked."""

from __future__ import annotations

import time
from urllib.parse import urlsplit, urlunsplit

import msgspec

from cockpit.errors import CockpitError
from cockpit.http_get import BrokenAnswerError, Connection, NoConnectionError, NoTlsError, SlowAnswerError

_STEP_SECONDS = 1.0
_WHOLE_SECONDS = 2.0
_MAX_BYTES = 1 << 20
_MAX_NAME = 200


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]


def base_url(url: str) -> str:
    """The address of a server: scheme, host, port and path, without /v1 or what follows it, and without a password.

    Raises CockpitError when it is no http or https URL.
    """
    fix = "Give the server's address like http://127.0.0.1:8000."
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError as error:
        raise CockpitError("this is not a server's URL", str(error), fix) from error
    host = parts.hostname
    if parts.scheme not in {"http", "https"} or not host or not url.strip().isprintable() or port == 0:
        raise CockpitError("this is not a server's URL", "it needs http:// or https:// and a host", fix)
    if parts.username or parts.password:
        raise CockpitError("a URL with a password is not kept", fix="Leave the user and the password out.")
    netloc = f"[{host}]" if ":" in host else host
    path = parts.path.rstrip("/").removesuffix("/metrics").removesuffix("/models").removesuffix("/v1")
    return urlunsplit((parts.scheme, netloc if port is None else f"{netloc}:{port}", path, "", ""))


def answers_health(url: str, patience_seconds: float = _STEP_SECONDS) -> bool:
    """Whether GET /health of ``url`` gives 200, each piece within ``patience_seconds``."""
    return _get(url, "/health", None, patience_seconds) is not None


def served_models(url: str, api_key: str | None = None) -> tuple[str, ...] | None:
    """The names that /v1/models gives, made printable; None when it does not say (no answer, or it wants a key)."""
    body = _get(url, "/v1/models", api_key)
    try:
        found = msgspec.json.decode(body or b"", type=_Models)
    except (msgspec.DecodeError, RecursionError):
        return None
    return tuple("".join(c for c in model.id if c.isprintable())[:_MAX_NAME] for model in found.data)


def _get(url: str, path: str, api_key: str | None, step_seconds: float = _STEP_SECONDS) -> bytes | None:
    """The body of a 200, cut to a bound; None for anything else."""
    headers = {"Connection": "close"} | ({"Authorization": f"Bearer {api_key}"} if api_key else {})
    try:
        parts = urlsplit(url)
        with Connection(parts, step_seconds) as connection:
            head = connection.get(
                f"{parts.path.rstrip('/').removesuffix('/v1')}{path}", headers, max(step_seconds, _WHOLE_SECONDS)
            )
            return _body(connection) if head is not None and head.status == 200 else None
    except (OSError, ValueError, KeyError, BrokenAnswerError, NoConnectionError, NoTlsError, SlowAnswerError):
        return None


def _body(connection: Connection) -> bytes:
    deadline = time.monotonic() + _WHOLE_SECONDS
    body = b""
    while len(body) < _MAX_BYTES and (piece := connection.piece(deadline)):
        body += piece
    return body[:_MAX_BYTES]
