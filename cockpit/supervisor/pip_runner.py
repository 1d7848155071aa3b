"""Run pip (or another installer's program) with its output in a log, its progress told, and a clean end."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from cockpit.errors import FailedError

Tell = Callable[[str], None]
"""Receives one line of plain text about what is being done now."""

_TAIL_LINES = 200
_ERROR_LINES = 3
_GRACE_SECONDS = 5.0
_COUNTED = re.compile(r"Installing collected packages: (.*)")
_SIMPLE = re.compile(r"\s*(?:(Collecting) (\S+)|(Downloading) (\S+)(?: \(([^)]*)\))?)")


_OFFERED = re.compile(
    r"Could not find a version that satisfies the requirement ([\w-]+)==\S+ \(from versions: ([^)]*)\)"
)
_RELEASE = re.compile(r"\d+(?:\.\d+)*(?:\.post\d+)?")


class ProgramError(FailedError):
    """A program that ended with another code than 0; ``lines`` are the last of its output."""

    def __init__(self, title: str, lines: Sequence[str], fix: str) -> None:
        super().__init__(title, error_of(lines), fix)
        self.lines = tuple(lines)


def offered_versions(lines: Sequence[str], name: str) -> list[str]:
    """The versions of ``name`` that there are, as pip lists them when it finds no other fault than the one asked for.

    Empty where it says nothing of the kind, or that it found none at all (no network, say).
    """
    for line in lines:
        found = _OFFERED.search(line)
        if found is not None and found[1] == name:
            return [version for version in found[2].split(", ") if version != "none"]
    return []


def nearest_versions(wanted: str, versions: Sequence[str], most: int = 3) -> list[str]:
    """The releases around ``wanted``, oldest first: the next one above it where there is one, else those below."""
    releases = sorted({one for one in versions if _RELEASE.fullmatch(one)}, key=_numbers)
    below = [one for one in releases if _numbers(one) <= _numbers(wanted)]
    above = releases[len(below) :]
    return [*below[-(most - bool(above)) :], *above[: max(1, most - len(below))]][:most]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))


def progress_of(line: str) -> str | None:
    """What a line of pip's output says about progress, for people; None for the other lines."""
    installing = _COUNTED.match(line)
    if installing:
        names = [name for name in installing[1].split(",") if name.strip()]
        return f"installing {len(names)} package{'' if len(names) == 1 else 's'}"
    match = _SIMPLE.match(line)
    if match is None:
        return None
    if match[1]:
        return f"collecting {re.split(r'[<>=!~;,(]', match[2])[0]}"
    file = match[4].rsplit("/", 1)[-1]
    return f"downloading {file}" + (f", {match[5]}" if match[5] else "")


def error_of(lines: Sequence[str]) -> str:
    """The lines that say why pip failed: the last ERROR ones, else the last line that has text."""
    plain = ["".join(char if char.isprintable() else " " for char in line).strip() for line in lines]
    errors = [line.removeprefix("ERROR:").strip() for line in plain if line.startswith("ERROR:")]
    if errors:
        return "\n".join(error[:300] for error in errors[-_ERROR_LINES:])
    return next((line[:300] for line in reversed(plain) if line), "no message")


class Runner:
    """Runs programs one after another, all with their output appended to one log file.

    ``hold`` is a file descriptor that every program inherits: a lock taken on it stays taken as long as any
    of them lives, also when the cockpit itself was killed.
    """

    def __init__(self, log: Path, hold: int | None = None) -> None:
        self.log = log
        self._hold = hold

    def run(self, argv: Sequence[str], tell: Tell, failure: str) -> list[str]:
        """Run ``argv`` to its end and return its last lines of output.

        Raises FailedError titled ``failure`` when it ends with another code than 0 or cannot be started. When
        the caller is interrupted, its whole process group is ended before the interrupt goes on.
        """
        tail: deque[str] = deque(maxlen=_TAIL_LINES)
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"\n$ {' '.join(argv)}\n")
            log.flush()
            held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                process = self._start(argv)
            except OSError as error:
                signal.pthread_sigmask(signal.SIG_SETMASK, held)
                raise FailedError(failure, f"{argv[0]}: {error.strerror or error}") from error
            try:
                signal.pthread_sigmask(signal.SIG_SETMASK, held)  # an interrupt meanwhile is raised in here
                assert process.stdout is not None
                for line in process.stdout:
                    log.write(line)
                    log.flush()
                    tail.append(line.rstrip("\n"))
                    said = progress_of(line)
                    if said:
                        tell("".join(char if char.isprintable() else " " for char in said)[:120])
                code = process.wait()
            finally:
                _end_group(process)
        if code != 0:
            raise ProgramError(failure, tail, f"The whole output is in {self.log}.")
        return list(tail)

    def _start(self, argv: Sequence[str]) -> subprocess.Popen[str]:
        """Start ``argv`` as leader of its own session, with both streams in one pipe."""
        return subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
            pass_fds=() if self._hold is None else (self._hold,),
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )


def _end_group(process: subprocess.Popen[str]) -> None:
    """End what still runs of the process's group: SIGTERM, a grace, SIGKILL."""
    if process.poll() is None:
        _signal(process, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_SECONDS)
    _signal(process, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _signal(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """Signal the group that ``process`` leads; no error when it is gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
