"""Servers that the user told the cockpit about by URL: a name and an address, on disk."""

from __future__ import annotations

import contextlib
import re
import time
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from cockpit import paths
from cockpit.errors import CockpitError
from cockpit.supervisor.store import check_name, exists, locked

_MAX_BYTES = 1 << 20
_MAX_SERVERS = 200


class Adopted(msgspec.Struct, frozen=True, kw_only=True):
    """One server elsewhere."""

    name: str
    url: str
    """Without a path that /v1 or /metrics would be, and without a user or password."""
    model: str | None = None
    """The first name that it served when it was adopted."""
    adopted_at: float


class _File(msgspec.Struct, frozen=True, kw_only=True):
    format_version: int = 1
    servers: tuple[Adopted, ...] = ()


def _file() -> Path:
    return paths.state_home() / "adopted.json"


def load_adopted() -> tuple[tuple[Adopted, ...], str | None]:
    """All of them, and one sentence when the file cannot be understood; never raises for its content."""
    try:
        with _file().open("rb") as handle:
            found = msgspec.json.decode(paths.read_up_to(handle, _MAX_BYTES), type=_File)
    except FileNotFoundError:
        return (), None
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return (), f"the adopted servers cannot be read: delete {_file()}"
    if found.format_version != 1:
        return (), f"{_file()} was written by another version of cockpit (format {found.format_version})"
    if not all(_is_usable(one.url) for one in found.servers):
        return (), f"the adopted servers cannot be read, one has no usable URL: correct or delete {_file()}"
    return found.servers, None


def _is_usable(url: str) -> bool:
    """Whether the address can be taken apart; the file may have been edited by hand."""
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.scheme in ("http", "https") and (parts.port or 1) > 0
    except ValueError:
        return False


def remember(url: str, model: str | None, name: str | None = None) -> Adopted:
    """Keep a URL under a name (the model's, unless given); one that is known already keeps its place.

    Raises CockpitError when the name is taken or not allowed, or the file cannot be written or understood.
    """
    with locked():
        servers = _understood()
        same = next((one for one in servers if one.url == url), None)
        chosen = check_name(name or (same.name if same else _free_name(model or url.partition("://")[2], servers)))
        if exists(chosen) or any(one.name == chosen and one.url != url for one in servers):
            raise CockpitError(f"{chosen} is already the name of a server", fix="Give another --name.")
        if same is None and len(servers) >= _MAX_SERVERS:
            raise CockpitError(f"{_MAX_SERVERS} servers are adopted already", fix="Forget some with adopt --forget.")
        adopted = Adopted(name=chosen, url=url, model=model, adopted_at=time.time())
        _save((*(one for one in servers if one.url != url), adopted))
    return adopted


def forget(name: str) -> Adopted:
    """Take one off the list; the server itself is left alone. Raises CockpitError when none has that name or URL."""
    with locked():
        servers = _understood()
        gone = next((one for one in servers if name in (one.name, one.url)), None)
        if gone is None:
            known = ", ".join(one.name for one in servers)
            fix = f"Adopted are: {known}." if known else "None is adopted."
            raise CockpitError(f"no adopted server is called {name!r:.120}", fix=fix)
        _save(tuple(one for one in servers if one is not gone))
    return gone


def _understood() -> tuple[Adopted, ...]:
    servers, problem = load_adopted()
    if problem is not None:
        raise CockpitError(problem)
    return servers


def _save(servers: tuple[Adopted, ...]) -> None:
    paths.ensure_private(paths.state_home())
    try:
        paths.write_atomic(_file(), msgspec.json.format(msgspec.json.encode(_File(servers=servers)), indent=1))
    except OSError as error:
        raise CockpitError("cannot write the adopted servers", error.strerror or str(error), "Make room.") from error


def _free_name(text: str, servers: tuple[Adopted, ...]) -> str:
    """A name from what the server calls its model: outside text, so only what may name a record is kept."""
    base = re.sub(r"[^A-Za-z0-9._-]+|\.{2,}", "-", text.rpartition("/")[2]).strip("-._")[:60] or "server"
    taken = {one.name for one in servers}
    for candidate in (base, *(f"{base}-{number}" for number in range(2, _MAX_SERVERS + 2))):
        with contextlib.suppress(CockpitError):
            if candidate not in taken and not exists(candidate):
                return candidate
    return base
