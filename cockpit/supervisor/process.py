"""Processes by identity: who is alive, who belongs to an instance, and signals that cannot hit a stranger.

Linux only, as vLLM's servers are: one read of ``/proc/PID/stat`` tells parent, session and start at once.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec
import psutil

from cockpit.rig.programs import program_pids
from cockpit.supervisor.origin import boot_id
from cockpit.supervisor.record import InstanceRecord, ProcessIdentity

_PROC = Path("/proc")
_START_TIME_TOLERANCE_SECONDS = 1.0
"""Start times are compared only without a birth mark; /proc/stat gives the boot time in whole seconds."""
_GONE_STATES = "ZXx"


class _Stat(msgspec.Struct, frozen=True):
    """Fields of ``/proc/PID/stat`` (see proc_pid_stat(5))."""

    pid: int
    state: str
    parent: int
    group: int
    session: int
    start_ticks: int


def _read_stat(pid: int) -> _Stat | None:
    """The process table's line of ``pid``, zombies included; None when there is no such process."""
    try:
        # Not pathlib: this is read for every process of the host.
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            text = file.read()
    except OSError:
        return None
    # The command name stands in parentheses and may itself hold blanks and parentheses.
    fields = text.rpartition(")")[2].split()
    if len(fields) < 20:
        return None
    return _Stat(pid, fields[0], int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]))


def _identify(stat: _Stat) -> ProcessIdentity | None:
    try:
        start_time = psutil.Process(stat.pid).create_time()
    except psutil.Error:
        return None
    birth = f"{boot_id()}:{stat.start_ticks}" if boot_id() else ""
    return ProcessIdentity(pid=stat.pid, start_time=start_time, birth=birth)


def identity(pid: int, *, zombies: bool = False) -> ProcessIdentity | None:
    """The identity of a running process; None when it is gone (a zombie is gone, unless asked for)."""
    stat = _read_stat(pid) if pid > 1 else None
    if stat is None or (stat.state in _GONE_STATES and not zombies):
        return None
    return _identify(stat)


def same(first: ProcessIdentity, second: ProcessIdentity) -> bool:
    """Whether both name one process: by birth mark where both have one, else by start time."""
    if first.pid != second.pid:
        return False
    if first.birth and second.birth:
        return first.birth == second.birth
    return abs(first.start_time - second.start_time) <= _START_TIME_TOLERANCE_SECONDS


def age_seconds(who: ProcessIdentity) -> float | None:
    """For how long this very process has run, by the kernel's clock, which nobody sets; None when it is gone."""
    stat = _read_stat(who.pid)
    if stat is None or not is_alive(who):
        return None
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - stat.start_ticks / os.sysconf("SC_CLK_TCK"))


def is_alive(who: ProcessIdentity) -> bool:
    """Whether this very process still runs: pid and start agree, and it is no zombie."""
    now = identity(who.pid)
    return now is not None and same(who, now)


def send_signal(who: ProcessIdentity, number: signal.Signals) -> bool:
    """Signal this very process, never one that got its pid later; False when it is gone.

    The pidfd is opened before the identity is checked, so that nothing can slip in between. Raises
    PermissionError when the process belongs to another user.
    """
    try:
        handle = os.pidfd_open(who.pid)
    except ProcessLookupError:
        return False
    except OSError:  # kernels before 5.3: a check just before the signal has to do
        return _kill_checked(who, number)
    try:
        if not is_alive(who):
            return False
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


def _kill_checked(who: ProcessIdentity, number: signal.Signals) -> bool:
    if not is_alive(who):
        return False
    try:
        os.kill(who.pid, number)
    except ProcessLookupError:
        return False
    return True


def ends_by(who: ProcessIdentity, number: signal.Signals) -> bool:
    """Whether the kernel itself ends a process by this signal, as the process neither handles nor ignores it.

    False where that cannot be seen.
    """
    try:
        status = (_PROC / str(who.pid) / "status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    masks = [line.split()[1] for line in status.splitlines() if line.startswith(("SigBlk:", "SigIgn:", "SigCgt:"))]
    return len(masks) == 3 and not any(int(mask, 16) >> (number - 1) & 1 for mask in masks)


def is_engine(who: ProcessIdentity) -> bool:
    """Whether a process bears the title that vLLM gives to its engines and workers (``VLLM::…``)."""
    try:
        return (_PROC / str(who.pid) / "comm").read_bytes().startswith(b"VLLM::")
    except OSError:
        return False


def leads_own_group(who: ProcessIdentity) -> bool:
    """Whether this very process lives and leads its process group, so that killing the group is safe."""
    stat = _read_stat(who.pid)
    return stat is not None and stat.group == who.pid and is_alive(who)


def _table() -> dict[int, _Stat]:
    """Every process of this host that is neither a zombie nor the kernel's own, by pid."""
    rows = map(_read_stat, program_pids())
    return {row.pid: row for row in rows if row is not None and row.state not in _GONE_STATES}


def _children_of(root: int, table: dict[int, _Stat]) -> set[int]:
    """Pids below ``root`` in the process tree."""
    by_parent: dict[int, list[int]] = {}
    for row in table.values():
        by_parent.setdefault(row.parent, []).append(row.pid)
    found: set[int] = set()
    waiting = list(by_parent.get(root, ()))
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting += by_parent.get(pid, ())
    return found


def children_of(who: ProcessIdentity) -> tuple[ProcessIdentity, ...]:
    """Every living process below this very one; none when it is gone."""
    return children_of_all([who])[who]


def children_of_all(parents: Iterable[ProcessIdentity]) -> dict[ProcessIdentity, tuple[ProcessIdentity, ...]]:
    """The same of several, for one look at all processes."""
    table = _table()
    return {who: _living_below(who, table) for who in parents}


def _living_below(who: ProcessIdentity, table: dict[int, _Stat]) -> tuple[ProcessIdentity, ...]:
    below = sorted(_children_of(who.pid, table)) if is_alive(who) else []
    found = (_identify(table[pid]) for pid in below)
    return tuple(one for one in found if one is not None)


def ancestors_of(pid: int) -> set[int]:
    """Pids of its parent, of that one's, and so on."""
    found: set[int] = set()
    row = _read_stat(pid)
    while row is not None and row.parent > 0 and row.parent not in found:
        found.add(row.parent)
        row = _read_stat(row.parent)
    return found


def _writes_to(pid: int, log: str) -> bool:
    """Whether standard output or error of ``pid`` is this log file: children inherit it for life."""
    for descriptor in ("1", "2"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{descriptor}")  # noqa: PTH115
        except OSError:
            continue
        if target.removesuffix(" (deleted)") == log:
            return True
    return False


def _session_is_ours(root: ProcessIdentity, recorded: Iterable[ProcessIdentity], table: dict[int, _Stat]) -> bool:
    """Whether the session and group that bear the root's pid are the instance's own.

    The kernel does not hand out a pid again while a session or group bears it, so one surviving member that is
    known proves the rest.
    """
    holder = identity(root.pid, zombies=True)
    if holder is not None:
        return same(root, holder)
    known = (table[who.pid] for who in recorded if who.pid in table and is_alive(who))
    return any(root.pid in (row.session, row.group) for row in known)


def descendants_of(
    root: ProcessIdentity, recorded: Iterable[ProcessIdentity] = (), log: str | None = None
) -> tuple[ProcessIdentity, ...]:
    """Every living process that belongs to the server ``root``, without the root itself.

    Children at any depth, the rest of its session and group (orphans lose their parent, not those), processes of
    ``recorded`` that still live, and any process whose output is the instance's ``log`` (it may have left the
    session). A recycled pid is in none of these.
    """
    table = _table()
    known = [who for who in recorded if is_alive(who)]
    pids: set[int] = set()
    if is_alive(root):
        pids |= _children_of(root.pid, table)
    for who in known:
        pids |= {who.pid} | _children_of(who.pid, table)
    if _session_is_ours(root, known, table):
        pids |= {row.pid for row in table.values() if root.pid in (row.session, row.group)}
    if log is not None:
        pids |= {pid for pid in table if _writes_to(pid, log)}
    pids -= {root.pid, os.getpid()}
    found = (_identify(table[pid]) for pid in sorted(pids) if pid in table)
    return tuple(who for who in found if who is not None)


def leader_writing_to(log: str) -> ProcessIdentity | None:
    """The session leader whose output is ``log``: a server whose cockpit died before it could note the pid."""
    for pid, row in _table().items():
        if row.session == pid and _writes_to(pid, log):
            return _identify(row)
    return None


def members_of(record: InstanceRecord) -> tuple[ProcessIdentity, ...]:
    """The record's server process, when it lives, and everything that belongs to it."""
    root = record.process or leader_writing_to(record.log)
    if root is None:
        return tuple(who for who in record.descendants if is_alive(who))
    below = descendants_of(root, record.descendants, record.log)
    return (root, *below) if is_alive(root) else below


def owns_port(record: InstanceRecord, port: int) -> bool | None:
    """Whether the listener on TCP ``port`` belongs to the instance; None where that cannot be seen."""
    hidden = False
    for who in members_of(record):
        try:
            sockets = psutil.Process(who.pid).net_connections(kind="tcp")
        except psutil.NoSuchProcess:
            continue
        except (psutil.AccessDenied, OSError):
            hidden = True
            continue
        if any(_listens(connection, port) for connection in sockets):
            return True
    # No process of ours has it: whoever answered there a moment ago was another, even if it is gone by now.
    return None if hidden else False


def _listens(connection: object, port: int) -> bool:
    address = getattr(connection, "laddr", None)
    status = getattr(connection, "status", "")
    return status == psutil.CONN_LISTEN and getattr(address, "port", None) == port
