"""A program in a pseudo-terminal of a fixed size, looked at from outside: what it writes, when, and what it costs."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

COLUMNS, ROWS = 120, 35


class Terminal:
    """One program and the master side of its terminal."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str]) -> None:
        self.started = time.perf_counter()
        self.pid, self._master = pty.fork()
        if self.pid == 0:
            os.execvpe(argv[0], list(argv), {**env, "TERM": "xterm-256color", "COLORTERM": "truecolor"})  # noqa: S606
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self._process = psutil.Process(self.pid)
        self.output = b""
        self._ended = False
        """Nothing more will come: the program closed its side."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)
        self.drain(1.0)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._master)

    def _read(self, timeout: float) -> bytes:
        ready, _, _ = select.select([self._master], [], [], max(0.0, timeout))
        if not ready:
            return b""
        try:
            piece = os.read(self._master, 1 << 16)
        except OSError:
            self._ended = True
            return b""
        self.output = (self.output + piece)[-(1 << 20) :]
        return piece

    def drain(self, seconds: float) -> int:
        """Read whatever comes for so long; how many bytes came."""
        end, count = time.perf_counter() + seconds, 0
        while (left := end - time.perf_counter()) > 0:
            piece = self._read(left)
            count += len(piece)
            if self._ended:
                break
        return count

    def until(self, text: str, timeout: float = 30.0) -> float:
        """Seconds from the start until ``text`` was written.

        Raises TimeoutError, and EOFError when the program ends before.
        """
        end, wanted = time.perf_counter() + timeout, text.encode()
        while wanted not in self.output:
            if time.perf_counter() > end:
                raise TimeoutError(f"{text!r} was not written within {timeout} s: …{self.output[-300:]!r}")
            if self._ended:
                raise EOFError(f"it ended before it wrote {text!r}: …{self.output[-300:]!r}")
            self._read(0.05)
        return time.perf_counter() - self.started

    def press(self, key: str, quiet: float = 0.3) -> float | None:
        """Seconds from a key to the first byte of what it repaints; None when nothing came within a second."""
        self.drain(quiet)
        began = time.perf_counter()
        os.write(self._master, key.encode())
        return time.perf_counter() - began if self._read(1.0) else None

    def cpu_seconds(self) -> float:
        """CPU of all its threads so far, as the scheduler counts nanoseconds, or clock ticks where it does not."""
        used = 0
        for thread in Path(f"/proc/{self.pid}/task").iterdir():
            with contextlib.suppress(OSError):
                used += int((thread / "schedstat").read_text().split()[0])
        return used / 1e9 or self._used()

    def _used(self) -> float:
        """Seconds of CPU so far, those of its children that ended included."""
        times = self._process.cpu_times()
        return float(times.user + times.system + times.children_user + times.children_system)

    def cost(self, seconds: float) -> tuple[float, float, int]:
        """At rest for so long: share of one core, RSS in bytes, bytes written a second."""
        before, began = self._used(), time.perf_counter()
        written = self.drain(seconds)
        used, took = self._used() - before, time.perf_counter() - began
        return used / took, self._process.memory_info().rss, round(written / took)
