"""vLLM servers of this host that no cockpit started: found by their command lines and their listening ports."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from cockpit import paths
from cockpit.redact import redact, secret_values
from cockpit.rig.programs import program_pids, read_of
from cockpit.supervisor import process
from cockpit.supervisor.command_line import model_of, option, serve_words
from cockpit.supervisor.listeners import addresses_of, listening_sockets
from cockpit.supervisor.record import ProcessIdentity
from cockpit.supervisor.spawn import MARK

DEFAULT_PORT = 8000
"""vLLM's own."""
_MARK = f"{MARK}=".encode()
_ANY_HOST = "0.0.0.0"
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1", "*": "127.0.0.1"}


_Own = Mapping[int, Sequence[tuple[str, int]] | None]
"""Addresses on which each process of one server listens, by pid; None of one that cannot be seen."""


class Foreign(msgspec.Struct, frozen=True, kw_only=True):
    """One such server."""

    process: ProcessIdentity
    command: str
    """Its command line without secrets, for showing."""
    model: str | None
    """What it says it serves: the served name, else the model; None where its command line does not say."""
    url: str | None
    """None when its network is not this one's, as in a container, it serves on no port, or a file that it was given
    names the port."""
    listens: bool | None
    """Whether it listens at its address: a vLLM does so at the end of its boot. None where that cannot be seen."""


class PortClaim(msgspec.Struct, frozen=True):
    """A port that a vLLM was told to serve on; it may not have bound it yet."""

    pid: int
    host: str
    port: int


def find_foreign(known: Collection[int] = ()) -> tuple[Foreign, ...]:
    """Every ``vllm serve`` of this host that is neither in ``known`` nor on record in another state home, by pid.

    Only the first process of a server counts: one that serves with several API processes is one server. Command lines
    are readable whoever owns the process; ports of other users' processes are what their command line says.
    """
    words = {pid: found for pid, argv in _command_lines() if (found := serve_words(argv)) is not None}
    servers = {pid: found for pid, found in words.items() if not process.ancestors_of(pid) & words.keys()}
    unknown = {pid: found for pid, found in servers.items() if pid not in known and not _is_of_another_home(pid)}
    if not unknown:
        return ()
    seen = {who: unknown[pid] for pid in sorted(unknown) if (who := process.identity(pid)) is not None}
    below, listening, secrets = process.children_of_all(seen), listening_sockets(), secret_values()
    own = {who: {one.pid: addresses_of(one.pid, listening) for one in (who, *below[who])} for who in seen}
    everybody = {port for _, port in listening.values()}
    return tuple(_describe(who, options, own[who], everybody, secrets) for who, options in seen.items())


def _command_lines() -> Iterator[tuple[int, list[str]]]:
    for pid in program_pids():
        data = read_of(pid, "cmdline")
        if b"vllm" in data:
            text = data.rstrip(b"\0").decode("utf-8", errors="replace")
            yield pid, text.split("\0")


def _is_of_another_home(pid: int) -> bool:
    """Whether a cockpit with another state home started it, which lists it there; false where that cannot be seen."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    marks = [Path(os.fsdecode(entry).partition("=")[2]) for entry in environment if entry.startswith(_MARK)]
    return bool(marks) and marks[0].parent != paths.instances_home()


def _describe(
    who: ProcessIdentity, words: Sequence[str], own: _Own, everybody: Collection[int], secrets: Collection[str]
) -> Foreign:
    """``own`` is where each of its processes listens, ``everybody`` the ports on which any process does."""
    address = _address(words, who.pid, own) if _shares_network(who.pid) else None
    model = option(words, "served-model-name") or model_of(words)
    return Foreign(
        process=who,
        command=_shown(["vllm", "serve", *words], secrets),
        model=None if model is None else _shown([model], secrets),
        url=None if address is None else _url(*address),
        listens=None if address is None else _listens(address[1], own, everybody),
    )


def port_claims() -> tuple[PortClaim, ...]:
    """What the vLLM servers of this host's network were told to serve on, whoever started them.

    A vLLM binds its port some ten seconds after its start: until then nobody else can see that it will have it.
    """
    servers = ((pid, words) for pid, argv in _command_lines() if (words := serve_words(argv)) is not None)
    told = ((pid, words, _told_port(words)) for pid, words in servers)
    return tuple(
        PortClaim(pid, option(words, "host") or _ANY_HOST, port)
        for pid, words, port in told
        if port is not None and _shares_network(pid)
    )


def _told_port(words: Sequence[str]) -> int | None:
    """By its command line; None where only a file or the kernel says, and for one that serves on no port."""
    if "--headless" in words or option(words, "uds") is not None:
        return None
    text = option(words, "port")
    if text is None:
        return None if option(words, "config") is not None else DEFAULT_PORT
    return int(text) if text.isascii() and text.isdigit() and 0 < int(text) < 65536 else None


def _address(words: Sequence[str], pid: int, own: _Own) -> tuple[str, int] | None:
    """Where clients of this host reach it: what its command line says, else what the server itself listens on.

    Its engine and workers listen too, from early in its boot, on ports by which they meet each other.
    """
    told = _told_port(words)
    if told is None:
        host, port = min(own.get(pid) or (), key=lambda one: one[1], default=("", 0))
    else:
        every = (one for of_one in own.values() for one in of_one or ())
        host, port = next((one for one in every if one[1] == told), (option(words, "host") or _ANY_HOST, told))
    return (_WILDCARDS.get(host, host), port) if port else None


def _listens(port: int, own: _Own, everybody: Collection[int]) -> bool | None:
    """Whether any of the server's processes listens on the port; None where one that cannot be seen may do so."""
    if any(one[1] == port for of_one in own.values() for one in of_one or ()):
        return True
    return None if port in everybody and None in own.values() else False


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _shares_network(pid: int) -> bool:
    """Whether its ports are those of this network namespace; true where that cannot be seen."""
    try:
        return Path(f"/proc/{pid}/ns/net").readlink() == Path("/proc/self/ns/net").readlink()
    except OSError:
        return True


def _shown(words: Sequence[str], secrets: Collection[str]) -> str:
    text = redact(" ".join(words), secrets)
    return "".join(c if c.isprintable() else "�" for c in text)
