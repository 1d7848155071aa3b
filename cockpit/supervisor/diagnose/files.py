"""The diagnosis of a whole log: a file, a stream or an instance on record."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from cockpit.errors import CockpitError
from cockpit.supervisor.boot import BootLog
from cockpit.supervisor.boot_history import earlier_version
from cockpit.supervisor.diagnose.types import Diagnosis, End
from cockpit.supervisor.diagnose.unwrap import unwrapped
from cockpit.supervisor.logfile import NO_LOG_FIX, NoLogError, open_log, read_lines
from cockpit.supervisor.record import InstanceRecord

_MAX_CHARACTERS = 8000
"""Of a line: the flags of a server are one line."""
_PROBE_BYTES = 8192


def diagnose_lines(lines: Iterable[str], end: End | None = None, spawned_at: float | None = None) -> Diagnosis:
    """The diagnosis of cleaned lines."""
    end = End() if end is None else end
    log = BootLog(spawned_at, end.arguments)
    log.feed(lines, time.time())
    return log.diagnosis(end)


def diagnose_file(source: str) -> Diagnosis:
    """The diagnosis of a log file, or of stdin for ``-``.

    Raises CockpitError for a file that is missing, unreadable or no text.
    """
    if source == "-":
        return _diagnose(sys.stdin.buffer, "stdin")
    try:
        with open_log(Path(source).expanduser()) as stream:
            return _diagnose(stream, source)
    except NoLogError as error:
        raise CockpitError(f"{source} cannot be read", error.strerror or str(error), NO_LOG_FIX) from error
    except OSError as error:
        fix = "Give the path of a log, - for stdin, or the name of an instance of `cockpit ps`."
        raise CockpitError(f"{source} cannot be read", error.strerror or str(error), fix) from error


def diagnose_record(record: InstanceRecord, end: End) -> Diagnosis:
    """The diagnosis of an instance, from its log and its record."""
    try:
        with open_log(record.log) as stream:
            return diagnose_lines(read_lines(stream, _MAX_CHARACTERS), end, record.created_at)
    except OSError:
        return diagnose_lines((), end, record.created_at)


def end_of(record: InstanceRecord, dead: bool) -> End:
    """What a record knows of its server's end."""
    values = {name: value for name, value in record.values.items() if value is not None}
    values["tensor_parallel_size"] = values.pop("tensor_parallel", None)
    values["enforce_eager"] = values.pop("enforce_eager", None) == "on"
    return End(
        dead=dead,
        exit_code=record.exit_code,
        asked_for=record.stop_requested_at is not None,
        arguments={
            **values,
            "model": record.model,
            "port": record.port,
            "platform": record.platform,
            "environment": {**record.env, **record.extra_env},
            "engine_version": record.engine_version or None,
            "earlier_version": earlier_version(record),
        },
    )


def _diagnose(stream: BinaryIO, name: str) -> Diagnosis:
    head = stream.peek(_PROBE_BYTES)[:_PROBE_BYTES] if hasattr(stream, "peek") else b""
    if _is_binary(head):
        raise CockpitError(f"{name} is no text", fix="Give the log of a vLLM server; unpack a compressed one first.")
    return diagnose_lines(unwrapped(iter(read_lines(stream, _MAX_CHARACTERS))))


def _is_binary(head: bytes) -> bool:
    """Whether a file's start has NULs or mostly bytes that text does not have; broken UTF-8 alone does not count."""
    if head[:2] in (b"\x1f\x8b", b"PK", b"BZ") or b"\x00" in head:
        return True
    odd = sum(byte < 9 or 13 < byte < 27 or 27 < byte < 32 for byte in head)
    return odd > len(head) // 10
