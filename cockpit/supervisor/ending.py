"""How a server process ended, in words."""

from __future__ import annotations

import signal

_MEMORY = "if nobody stopped it, the host probably ran out of memory: `journalctl -k` or `dmesg` says so"
_HINTS = {
    signal.SIGKILL: _MEMORY,
    signal.SIGHUP: "its terminal was closed",
    signal.SIGSEGV: "it crashed in native code: its log has the last lines before it",
    signal.SIGABRT: "it aborted itself, often in CUDA or NCCL: its log says why",
    signal.SIGBUS: "often /dev/shm was full",
    signal.SIGILL: "its build uses instructions that this processor lacks",
}


def ending(exit_code: int | None) -> str:
    """``exit code 1``, ``exit code -9: killed by signal 9 (SIGKILL)``, or that nobody saw it.

    A code of 128 + N is a signal as a shell or a container passes it on.
    """
    if exit_code is None:
        return "its exit code was not seen"
    number = _signal_of(exit_code)
    how = "" if number is None else f": killed by signal {number.value} ({number.name})"
    return f"exit code {exit_code}{how}"


def likely_cause(exit_code: int | None) -> str | None:
    """What such a signal usually means, as a clause; never stated as a fact. None where nothing can be said."""
    number = None if exit_code is None else _signal_of(exit_code)
    return None if number is None else _HINTS.get(number)


def _signal_of(exit_code: int) -> signal.Signals | None:
    number = -exit_code if exit_code < 0 else exit_code - 128
    try:
        return signal.Signals(number)
    except ValueError:
        return None
