"""Answers of /metrics that give no figures: each is one clause and a fix."""

from __future__ import annotations

from urllib.parse import SplitResult, urljoin, urlsplit

import msgspec

from cockpit.http_get import Head

CHECK_ADDRESS = "Check that it runs and that the URL and port are right."
_NAME_THE_SERVER = "Give the address of a vLLM, with the path below which its API lies."


class FetchProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Why /metrics gave no figures."""

    at: float
    reason: str
    """A clause of the cockpit's own words, e.g. ``the connection was refused``; nothing the server sent is in it."""
    fix: str = CHECK_ADDRESS
    asks_for_key: bool = False
    has_no_metrics: bool = False
    """Something answers, and it publishes no figures there: what it is may be told by other means."""


class UnusableAnswerError(Exception):
    """An answer that came and gives no figures."""

    def __init__(self, reason: str, fix: str = CHECK_ADDRESS, **more: bool) -> None:
        super().__init__(reason)
        self.problem = FetchProblem(at=0.0, reason=reason, fix=fix, **more)


def refuse_status(head: Head, asked: SplitResult, key_was_sent: bool) -> None:
    """Raise UnusableAnswerError unless the status is 200."""
    status = head.status
    if status in {401, 403}:
        what = "another key than it was sent" if key_was_sent else "a key"
        fix = "Put it into VLLM_API_KEY, or into the file api-key beside config.yaml."
        raise UnusableAnswerError(f"the server asks for {what} (HTTP {status})", fix, asks_for_key=True)
    if 300 <= status < 400:
        raise _redirect(head, asked)
    if status in {404, 405, 501}:
        raise UnusableAnswerError(f"it has no /metrics there (HTTP {status})", _NAME_THE_SERVER, has_no_metrics=True)
    if status != 200:
        raise UnusableAnswerError(f"the server answered HTTP {status}")


def moved_to(head: Head, asked: SplitResult) -> str | None:
    """The path that a redirect names, relative or not, when it stays with the scheme, host and port that were asked.

    Others are not followed: a key or a password would go along.
    """
    if head.status not in {301, 302, 303, 307, 308}:
        return None
    try:
        target = urlsplit(urljoin(asked.geturl(), head.headers.get("location", "")))
        stays = (target.scheme, target.hostname, target.port) == (asked.scheme, asked.hostname, asked.port)
    except ValueError:
        return None
    return target.path if stays and target.path and not target.query else None


def _redirect(head: Head, asked: SplitResult) -> UnusableAnswerError:
    """Why a redirect that was not followed, or not to its end, gives no figures."""
    try:
        target = urlsplit(head.headers.get("location", ""))
        same_host = target.hostname == asked.hostname
    except ValueError:
        return UnusableAnswerError(f"the server sends elsewhere (HTTP {head.status})", _NAME_THE_SERVER)
    if same_host and target.scheme == "https" and asked.scheme == "http":
        return UnusableAnswerError(
            f"the server sends on to https:// (HTTP {head.status})", "Give the URL with https://."
        )
    where = "to another path" if target.hostname is None or same_host else "to another host, as for a login"
    return UnusableAnswerError(f"the server sends on {where} (HTTP {head.status})", _NAME_THE_SERVER)


def refuse_other_kinds(kind: str, body: bytes) -> None:
    """Raise UnusableAnswerError for a web page, JSON, and a text that was cut off."""
    start = body.lstrip()[:64].lower()
    if "html" in kind.lower() or start.startswith((b"<!doctype", b"<html", b"<?xml")):
        raise UnusableAnswerError("the answer is a web page, not figures", _NAME_THE_SERVER, has_no_metrics=True)
    if "json" in kind.lower() or start.startswith((b'{"', b"[", b"{}")):
        raise UnusableAnswerError("the answer is JSON, not figures", _NAME_THE_SERVER, has_no_metrics=True)
    if body and not body.endswith(b"\n"):
        # The format ends each line; a cut figure would read as a counter that went backwards.
        raise UnusableAnswerError("the answer was cut short")
