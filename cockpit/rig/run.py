"""Run a foreign program for its output, within a time and a size: it may hang, flood or fork."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence

import msgspec

_CHUNK_BYTES = 65536


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it. ``exit_code`` is None when it was killed for its time or its size."""

    exit_code: int | None
    stdout: str
    stderr: str
    problem: str | None = None
    """Why it was killed, as a clause; None when it ended by itself."""


def run_bounded(
    argv: Sequence[str],
    *,
    timeout_seconds: float,
    limit_bytes: int = 1 << 20,
    env: Mapping[str, str] | None = None,
) -> Outcome:
    """Run ``argv`` in a session of its own from ``/`` and collect at most ``limit_bytes`` a stream.

    Whatever it started in its group is killed with it. Raises OSError when it cannot be started at all.
    """
    with subprocess.Popen(
        list(argv),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd="/",
        env=None if env is None else dict(env),
        start_new_session=True,
    ) as process:
        try:
            problem, streams = _collect(process, time.monotonic() + timeout_seconds, limit_bytes)
            problem = problem and problem.format(seconds=timeout_seconds, bytes=limit_bytes)
        finally:
            kill_group(process.pid)
        code = process.wait()
    stdout, stderr = (stream.decode("utf-8", "replace") for stream in streams)
    return Outcome(exit_code=None if problem else code, stdout=stdout, stderr=stderr, problem=problem)


def kill_group(leader_pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Signal the whole process group of ``leader_pid``; no error when it is gone already."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader_pid, number)


def _collect(process: subprocess.Popen[bytes], deadline: float, limit_bytes: int) -> tuple[str | None, list[bytes]]:
    """Read both streams until the process ends, or say why it must be killed."""
    assert process.stdout is not None and process.stderr is not None
    streams = {process.stdout.fileno(): b"", process.stderr.fileno(): b""}
    with selectors.DefaultSelector() as selector:
        for descriptor in streams:
            selector.register(descriptor, selectors.EVENT_READ)
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                return "it did not answer within {seconds:g} s", list(streams.values())
            for key, _ in selector.select(min(left, 0.2)):
                chunk = os.read(key.fd, _CHUNK_BYTES)
                streams[key.fd] += chunk
                if not chunk:
                    selector.unregister(key.fd)
                elif len(streams[key.fd]) > limit_bytes:
                    return "it printed more than {bytes:,} bytes", list(streams.values())
    return _wait(process, deadline), list(streams.values())


def _wait(process: subprocess.Popen[bytes], deadline: float) -> str | None:
    """Wait for a process that has closed both its streams."""
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return "it did not answer within {seconds:g} s"
    return None
