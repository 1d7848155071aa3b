"""vLLM servers of this host that no cockpit started: found by their command lines and their listening ports."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import psutil

from cockpit import paths
from cockpit.redact import redact, secret_values
from cockpit.supervisor import process
from cockpit.supervisor.record import ProcessIdentity
from cockpit.supervisor.spawn import MARK

DEFAULT_PORT = 8000
"""vLLM's own."""
_MODULES = ("vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server")
_CLI_MODULES = ("vllm", "vllm.entrypoints.cli.main")
_INTERPRETERS = ("python", "pypy", "vllm")
_HELP = re.compile(r"-h|--help(?:=.*)?")
_OPENING_WORDS = 8
"""Interpreter and its options come before what it runs."""
_MARK = f"{MARK}=".encode()
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1", "*": "127.0.0.1"}


class Foreign(msgspec.Struct, frozen=True, kw_only=True):
    """One such server."""

    process: ProcessIdentity
    command: str
    """Its command line without secrets, for showing."""
    model: str
    """What it says it serves: the served name, else the model."""
    port: int
    url: str | None
    """None when its network is not this one's, as in a container."""


def find_foreign(known: Collection[int] = ()) -> tuple[Foreign, ...]:
    """Every ``vllm serve`` of this host that is neither in ``known`` nor on record in another state home, by pid.

    Only the first process of a server counts: one that serves with several API processes is one server. Command lines
    are readable whoever owns the process; ports of other users' processes are what their command line says.
    """
    words = {pid: found for pid, argv in _command_lines() if (found := serve_words(argv)) is not None}
    servers = {pid: found for pid, found in words.items() if not _ancestors(pid) & words.keys()}
    unknown = {pid: found for pid, found in servers.items() if pid not in known and not _is_of_another_home(pid)}
    if not unknown:
        return ()
    listening = _listening_addresses()
    described = (_describe(pid, options, listening) for pid, options in sorted(unknown.items()))
    return tuple(one for one in described if one is not None)


def serve_words(argv: Sequence[str]) -> list[str] | None:
    """What follows ``vllm serve`` (or the API server's module) in a command line; None when it runs no server.

    A shell, an editor or a search whose words merely name vLLM is none: an interpreter must come first. Neither is
    one that only prints its help.
    """
    if not argv or not Path(argv[0]).name.startswith(_INTERPRETERS) or any(map(_HELP.fullmatch, argv)):
        return None
    for at, word in enumerate(argv[:_OPENING_WORDS]):
        following = list(argv[at + 1 :])
        if word == "-c":
            return None
        if word == "-m":
            if following[:1] and following[0] in _MODULES:
                return following[1:]
            return (
                following[2:] if following[:1] and following[0] in _CLI_MODULES and _serves(following[1:]) else None
            )
        if Path(word).name == "vllm" and _serves(following):
            return following[1:]
        if word.endswith("vllm/entrypoints/openai/api_server.py"):
            return following
    return None


def _serves(words: Sequence[str]) -> bool:
    return list(words[:1]) == ["serve"]


def option(words: Sequence[str], name: str) -> str | None:
    """The last value of ``--name VALUE`` or ``--name=VALUE``; underscores are dashes, as vLLM reads them."""
    found = None
    for at, word in enumerate(words):
        flag, equals, value = word.partition("=")
        if flag.startswith("--") and flag[2:].replace("_", "-") == name:
            found = value if equals else next(iter(words[at + 1 : at + 2]), None)
    return found


def _command_lines() -> Iterator[tuple[int, list[str]]]:
    for name in os.listdir("/proc"):  # noqa: PTH208
        if not name.isdigit():
            continue
        try:
            data = Path("/proc", name, "cmdline").read_bytes()
        except OSError:
            continue
        if b"vllm" in data:
            text = data.rstrip(b"\0").decode("utf-8", errors="replace")
            yield int(name), text.split("\0")


def _ancestors(pid: int) -> set[int]:
    try:
        return {parent.pid for parent in psutil.Process(pid).parents()}
    except psutil.Error:
        return set()


def _is_of_another_home(pid: int) -> bool:
    """Whether a cockpit with another state home started it, which lists it there; false where that cannot be seen."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    marks = [Path(os.fsdecode(entry).partition("=")[2]) for entry in environment if entry.startswith(_MARK)]
    return bool(marks) and marks[0].parent != paths.instances_home()


def _listening_addresses() -> dict[int, list[tuple[str, int]]]:
    """Listening addresses by pid, as far as they can be seen."""
    found: dict[int, list[tuple[str, int]]] = {}
    try:
        connections = psutil.net_connections(kind="tcp")
    except (psutil.Error, OSError):
        return found
    for one in connections:
        if one.pid is not None and one.status == psutil.CONN_LISTEN and one.laddr:
            found.setdefault(one.pid, []).append((one.laddr.ip, one.laddr.port))
    return found


def _describe(pid: int, words: Sequence[str], listening: Mapping[int, list[tuple[str, int]]]) -> Foreign | None:
    who = process.identity(pid)
    if who is None:
        return None
    addresses = [address for member in (who, *process.children_of(who)) for address in listening.get(member.pid, ())]
    host, port = _address(words, addresses)
    positional = next((word for word in words[:1] if not word.startswith("-")), "")
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    return Foreign(
        process=who,
        command=_shown(["vllm", "serve", *words]),
        model=_shown([option(words, "served-model-name") or option(words, "model") or positional]),
        port=port,
        url=url if _shares_network(pid) else None,
    )


def _address(words: Sequence[str], listening: Sequence[tuple[str, int]]) -> tuple[str, int]:
    """Where clients of this host reach it: what it listens on, else what its command line says."""
    text = option(words, "port") or ""
    wanted = int(text) if text.isascii() and text.isdigit() and 0 < int(text) < 65536 else DEFAULT_PORT
    host = option(words, "host") or "0.0.0.0"
    port = wanted
    if listening:
        host, port = next((one for one in listening if one[1] == wanted), min(listening, key=lambda one: one[1]))
    return _WILDCARDS.get(host, host), port


def _shares_network(pid: int) -> bool:
    """Whether its ports are those of this network namespace; true where that cannot be seen."""
    try:
        return Path(f"/proc/{pid}/ns/net").readlink() == Path("/proc/self/ns/net").readlink()
    except OSError:
        return True


def _shown(words: Sequence[str]) -> str:
    text = redact(" ".join(words), secret_values())
    return "".join(c if c.isprintable() else "�" for c in text)
