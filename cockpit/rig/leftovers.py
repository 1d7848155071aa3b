"""vLLM processes whose server is gone: killed with -9 it leaves engines and workers, and full GPUs, behind."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec

from cockpit.rig.gpus import gpu_holders
from cockpit.rig.programs import program_pids, read_of

_TITLE = "VLLM::"
"""vLLM titles its engines and workers so; the kernel keeps 15 characters of it."""
_OTHER_TITLE = re.compile(rb"[^\s\0]{1,60}::(?:EngineCore|Worker|APIServer|DPCoordinator)")
"""The same with another VLLM_PROCESS_NAME_PREFIX, as the whole command line has it."""
_PYTHON = ("python", "pypy")
SETTLE_SECONDS = 3.0
"""A worker whose engine is gone ends by itself within some two seconds (seen on vLLM 0.32)."""


class Leftover(msgspec.Struct, frozen=True, kw_only=True):
    """One process that nothing will end by itself."""

    pid: int
    title: str
    started_at: float
    """Unix time."""
    group: int = 0
    """Its process group, which bears the pid of the server that is gone when that was started in one of its own."""
    gpu_bytes: Mapping[int, int | None]
    """Bytes that it holds by GPU index; empty when it holds none or NVML does not say."""


class _Process(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one process."""

    pid: int
    parent: int
    name: str
    started_at: float


def find_settled_leftovers(settle_seconds: float = SETTLE_SECONDS) -> tuple[Leftover, ...]:
    """`find_leftovers` that are still there a while later: those of a server that is just ending are not."""
    first = find_leftovers()
    if not first:
        return ()
    time.sleep(settle_seconds)
    known = {(left.pid, left.started_at) for left in first}
    return tuple(left for left in find_leftovers() if (left.pid, left.started_at) in known)


def find_leftovers() -> tuple[Leftover, ...]:
    """Engines and workers of vLLM that have lost their server, by pid.

    A process counts when the one that its line of VLLM:: processes hangs from is no Python program: it is init, or
    whatever takes orphans in. One whose program cannot be seen does not make a leftover.
    """
    processes = _processes()
    lost = [process for process in processes.values() if _is_lost(process, processes)]
    held = gpu_holders() if lost else {}
    return tuple(
        Leftover(
            pid=process.pid,
            title=process.name,
            started_at=process.started_at,
            group=_group_of(process.pid),
            gpu_bytes={gpu: by_pid[process.pid] for gpu, by_pid in held.items() if process.pid in by_pid},
        )
        for process in sorted(lost, key=lambda one: one.pid)
    )


def _processes() -> dict[int, _Process]:
    """Processes that may bear a title of vLLM's and all that they hang from, by pid."""
    found: dict[int, _Process] = {}
    for pid in program_pids():
        if b"::" in read_of(pid, "comm"):
            found.update(_line_of(pid, found))
    return found


def _line_of(pid: int, known: Collection[int]) -> dict[int, _Process]:
    """A process and its parents as far as they are not known; without those that have ended."""
    import psutil

    line: dict[int, _Process] = {}
    while pid and pid not in known and pid not in line:
        try:
            process = psutil.Process(pid)
            with process.oneshot():
                if process.status() == psutil.STATUS_ZOMBIE:
                    break
                name = "".join(char for char in process.name() if char.isprintable())
                line[pid] = _Process(pid=pid, parent=process.ppid(), name=name, started_at=process.create_time())
        except psutil.Error:
            break
        pid = line[pid].parent
    return line


def _is_titled(process: _Process) -> bool:
    """Whether it bears a title as vLLM gives them."""
    if process.name.startswith(_TITLE):
        return True
    if "::" not in process.name:
        return False
    return _OTHER_TITLE.match(read_of(process.pid, "cmdline")) is not None


def _group_of(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except OSError:
        return 0


def _is_lost(process: _Process, processes: Mapping[int, _Process]) -> bool:
    """Whether it is one of vLLM's and its line ends at no server."""
    if not _is_titled(process):
        return False
    seen: set[int] = set()
    at: _Process | None = process
    while at is not None and at.pid not in seen and _is_titled(at):
        seen.add(at.pid)
        at = processes.get(at.parent)
    return at is None or not _may_be_python(at)


def _may_be_python(process: _Process) -> bool:
    """Whether it runs a Python interpreter, under whatever title, or may do so for all that can be seen."""
    try:
        program = Path(f"/proc/{process.pid}/exe").readlink().name
    except OSError:
        return process.pid != 1 or process.name.lower().startswith(_PYTHON)
    return program.lower().startswith(_PYTHON)
