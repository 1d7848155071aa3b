"""Processes that run a program, cheaply: a screen looks at all of them every few seconds.

Linux only. A machine of many cores has thousands of kernel threads, which are looked at once.
"""

from __future__ import annotations

import os
import time

_PIECE_BYTES, _MOST_BYTES = 1 << 14, 1 << 17
_REMEMBERED_SECONDS, _APART_SECONDS = 60.0, 10.0
"""After the first, or when nobody looked for the second, a kernel thread's pid may have become a program's."""
_KERNEL_THREAD = 0x0020_0000
"""PF_KTHREAD of the flags in /proc/PID/stat."""


class _Known:
    """What was seen last; the sets are replaced whole, as several threads of the cockpit look."""

    threads: frozenset[int] = frozenset()
    """Kernel threads."""
    since = looked_at = 0.0
    """When they were begun and last used, in monotonic seconds."""
    worded: frozenset[int] = frozenset()
    """Processes that had a command line, and so are none: a kernel thread that took the pid since does no harm."""


def program_pids() -> list[int]:
    """Pids of all processes that can be seen, without the kernel's own threads."""
    pids = {int(name) for name in os.listdir("/proc") if name.isdigit()}  # noqa: PTH208
    now = time.monotonic()
    if now - _Known.since > _REMEMBERED_SECONDS or now - _Known.looked_at > _APART_SECONDS:
        _Known.threads, _Known.worded, _Known.since = frozenset(), frozenset(), now
    _Known.looked_at = now
    known, worded = _Known.threads & pids, _Known.worded & pids
    wordless = {pid for pid in pids - known - worded if not read_of(pid, "cmdline")}
    threads = known.union(filter(_is_kernel_thread, wordless))
    _Known.threads, _Known.worded = threads, frozenset(pids - known - wordless)
    return sorted(pids - threads)


def read_of(pid: int, name: str) -> bytes:
    """The beginning of a file of a process below /proc; empty when it is gone or may not be read.

    A command line may have megabytes, and anybody may start a process with one.
    """
    try:
        # Not pathlib: this is read for every process of the host.
        with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:  # noqa: PTH123
            data = file.read(_PIECE_BYTES)
            while data and len(data) < _MOST_BYTES and (more := file.read(_PIECE_BYTES)):
                data += more
            return data
    except OSError:
        return b""


def _is_kernel_thread(pid: int) -> bool:
    # The name stands in parentheses and may itself hold blanks and parentheses.
    fields = read_of(pid, "stat").rpartition(b")")[2].split()
    return len(fields) > 6 and bool(int(fields[6]) & _KERNEL_THREAD)
