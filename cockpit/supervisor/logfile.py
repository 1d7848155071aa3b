"""Log files of servers: followed as they grow, safe for a terminal, without secrets, always in bounded memory."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import BinaryIO

from cockpit.errors import CockpitError
from cockpit.redact import redact, secret_values
from cockpit.supervisor.log_bounds import HEAD_BYTES, MARK

MAX_LINE_CHARACTERS = 2000
_MAX_LINE_BYTES = 1 << 16
_MAX_READ_BYTES = 1 << 20
_BLOCK_BYTES = 1 << 16
_KINDS: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
NO_LOG_FIX = "Give the path of the log itself; what a command prints is read by `COMMAND | cockpit diagnose -`."
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"  # OSC: titles, links, clipboard
    r"|(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x1b\x9c]*(?:\x1b\\|\x9c)"  # DCS, SOS, PM, APC
    r"|\x1b[ -/]*[0-~]"  # other two-character and charset sequences
)


class NoLogError(OSError):
    """What is there is no log: a device or a pipe, which could be read for ever."""


def open_log(path: str | Path) -> BinaryIO:
    """Open a log to read, without waiting for anybody who might write to it.

    Raises OSError for one that cannot be read; NoLogError for what is no regular file.
    """
    _refuse(Path(path).stat().st_mode)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        _refuse(os.fstat(descriptor).st_mode)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _refuse(mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = next((name for is_kind, name in _KINDS if is_kind(mode)), "something else")
        raise NoLogError(errno.EINVAL, f"it is {kind}, and a log is a regular file")


def refuse_no_log(path: str | Path) -> None:
    """Raise CockpitError where the path leads to something that is no log; a file that is not there is none."""
    try:
        open_log(path).close()
    except NoLogError as error:
        raise CockpitError(f"{path} cannot be read", str(error.strerror), NO_LOG_FIX) from error
    except OSError:
        return


def clean(text: str, limit: int = MAX_LINE_CHARACTERS) -> str:
    """``text`` as one printable line of at most ``limit`` characters.

    Terminal sequences go with their arguments; what is left of broken ones, controls, bidirectional overrides and
    other invisible characters are dropped; tabs and odd blanks become blanks; a longer line ends in ``…``.
    """
    if not text.isprintable():
        text = _ESCAPES.sub("", text).expandtabs(4)
        text = "".join(c if c.isprintable() else " " if c.isspace() else "" for c in text)
    return _cut(text, limit)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


class _Lines:
    """Bytes to lines, whatever the chunks: a line that ``\\r`` rewrites ends as its last state."""

    def __init__(self) -> None:
        self._shown = b""
        """Last state of the line that is not empty and was followed by a carriage return."""
        self._current = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Lines that ``data`` completes, each cut to the bound."""
        first, *others = data.split(b"\n")
        if not others:
            self._add(first)
            return []
        lines = [self._finish(first)]
        lines += [self._finish(part) if b"\r" in part else part[:_MAX_LINE_BYTES] for part in others[:-1]]
        self._add(others[-1])
        return lines

    @property
    def unfinished(self) -> bytes:
        """What a terminal would show of the line that has no newline yet."""
        return self._current or self._shown

    def _finish(self, part: bytes) -> bytes:
        self._add(part)
        line = self.unfinished
        self._shown = self._current = b""
        return line

    def _add(self, part: bytes) -> None:
        head, *rewrites = part.split(b"\r")
        self._current = (self._current + head[:_MAX_LINE_BYTES])[:_MAX_LINE_BYTES]
        for state in rewrites:
            self._shown = self._current or self._shown
            self._current = state[:_MAX_LINE_BYTES]


class Tail:
    """Follows one growing file from its beginning; a file that shrank or was replaced is read anew.

    Of one that a cockpit has cut, the beginning that stayed is not read again.
    """

    def __init__(self, path: str | Path, limit: int = MAX_LINE_CHARACTERS) -> None:
        self._path = Path(path)
        self._limit = limit
        self._offset = 0
        self._file_id: tuple[int, int] | None = None
        self._lines = _Lines()
        self._size = 0
        self._secrets = secret_values()

    def read(self) -> list[str]:
        """Lines completed since the last call, cleaned; at most 1 MiB of the file a call.

        A file that is not there (yet) has no lines.
        """
        try:
            with open_log(self._path) as handle:
                status = os.fstat(handle.fileno())
                self._notice(handle, (status.st_dev, status.st_ino), status.st_size)
                handle.seek(self._offset)
                data = handle.read(min(_MAX_READ_BYTES, max(0, status.st_size - self._offset)))
        except OSError:
            return []
        self._offset += len(data)
        return [_text(line, self._limit, self._secrets) for line in self._lines.feed(data)]

    @property
    def unread_bytes(self) -> int:
        """How far the last call was behind the end of the file."""
        return max(0, self._size - self._offset)

    @property
    def read_bytes(self) -> int:
        """How much of the file was read so far."""
        return self._offset

    @property
    def unfinished(self) -> str:
        """The last line while it has no newline yet, e.g. a progress bar, cleaned."""
        return _text(self._lines.unfinished, self._limit, self._secrets)

    def _notice(self, handle: BinaryIO, file_id: tuple[int, int], size: int) -> None:
        replaced = self._file_id is not None and file_id != self._file_id
        if size < self._offset or replaced:
            self._offset = 0 if replaced else _after_cut(handle)
            self._lines = _Lines()
        self._file_id = file_id
        self._size = size


def _after_cut(handle: BinaryIO) -> int:
    """Where the lines begin that came after a cut; 0 when nobody has cut the file."""
    handle.seek(0)
    return max(0, handle.read(HEAD_BYTES + _BLOCK_BYTES).rfind(MARK))


def _text(line: bytes, limit: int, secrets: Collection[str]) -> str:
    """One line to show. It is cut last: half a secret would not be known as one."""
    return _cut(redact(clean(line.decode("utf-8", errors="replace"), _MAX_LINE_BYTES), secrets), limit)


def read_lines(stream: BinaryIO, limit: int = MAX_LINE_CHARACTERS) -> Iterator[str]:
    """Every line of a stream, cleaned, the unfinished last one too; 1 MiB of it is held at a time."""
    lines, secrets = _Lines(), secret_values()
    while data := stream.read(_MAX_READ_BYTES):
        for line in lines.feed(data):
            yield _text(line, limit, secrets)
    if lines.unfinished:
        yield _text(lines.unfinished, limit, secrets)


def last_lines(path: str | Path, count: int, limit: int = MAX_LINE_CHARACTERS) -> list[str]:
    """The last ``count`` lines, cleaned, read from the end (at most 64 KiB a line); none when there is no file."""
    if count <= 0:
        return []
    try:
        with open_log(path) as handle:
            start = handle.seek(0, os.SEEK_END)
            data = b""
            most = count * _MAX_LINE_BYTES
            while start > 0 and data.count(b"\n") <= count and len(data) < most:
                step = min(_BLOCK_BYTES, start)
                start = handle.seek(start - step)
                data = handle.read(step) + data
    except OSError:
        return []
    if start > 0:  # the first line is not whole
        data = data.partition(b"\n")[2] or data
    lines = _Lines()
    complete = lines.feed(data)
    if lines.unfinished:
        complete.append(lines.unfinished)
    secrets = secret_values()
    return [_text(line, limit, secrets) for line in complete[-count:]]
