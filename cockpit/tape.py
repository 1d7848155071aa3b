"""Tapes: what a cockpit saw of one server, in a file that any cockpit can show again.

gzip over lines of JSON: a header, then one Observation a line. A reader trusts nothing in it.
"""

from __future__ import annotations

import gzip
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from cockpit import __version__
from cockpit.errors import CockpitError, FailedError
from cockpit.watch import Observation

FORMAT = "cockpit-tape"
VERSION = 1
MAX_OBSERVATIONS = 36_000
"""Ten hours at one a second."""
MAX_BYTES = 256 * 1024**2
"""Of the text; a tape takes about a tenth of it, and a real hour about 20 MiB."""
MAX_LINE_BYTES = 8 * 1024**2
MAX_AT = 1e11
"""Unix time in the year 5138: no later moment can be written as a date everywhere."""
_HOME = "~"
_FLUSH_OBSERVATIONS = 5
"""So often what was written reaches the disk: all that a recorder that is killed can lose."""


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The first line."""

    format: str
    version: int
    cockpit: str = ""
    """Version of the one that recorded it."""
    recorded_at: float = 0.0
    """Unix time."""


class Tape(msgspec.Struct, frozen=True, kw_only=True):
    """A tape as read."""

    header: Header
    observations: tuple[Observation, ...]
    """At least one; ``frame.at`` never goes back."""
    is_cut: bool = False
    """The file ends in the middle: what came after these observations is lost."""

    @property
    def seconds(self) -> float:
        """From the first observation to the last."""
        return self.observations[-1].frame.at - self.observations[0].frame.at


class TapeWriter:
    """Writes a tape as it happens. The user's home folder is written as ``~``, so that a tape can be passed on.

    Raises CockpitError when the file exists or its folder does not, FailedError when it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._home = str(Path.home())
        self._bytes = 0
        self.count = 0
        """Observations written."""
        try:
            self._file = gzip.open(path, "xb")  # noqa: SIM115 - open until close()
        except FileExistsError as error:
            raise CockpitError(f"{path} exists", fix="Give another name, or delete it.") from error
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise CockpitError(f"{path} cannot be written", why, "Give a file in a folder of yours.") from error
        header = Header(format=FORMAT, version=VERSION, cockpit=__version__, recorded_at=time.time())
        self._write(msgspec.json.encode(header))

    def add(self, seen: Observation) -> bool:
        """Write one observation; False when the tape is full and took it no longer."""
        line = msgspec.json.encode(seen)
        if self._home != "/":
            line = line.replace(msgspec.json.encode(self._home)[1:-1], _HOME.encode())
        if self.count >= MAX_OBSERVATIONS or self._bytes + len(line) > MAX_BYTES or len(line) > MAX_LINE_BYTES:
            return False
        self._write(line)
        self.count += 1
        if self.count % _FLUSH_OBSERVATIONS == 1:
            self._flush()
        return True

    def close(self) -> None:
        """Complete the file: of one that was not closed only what had reached the disk can be read."""
        try:
            self._file.close()
        except OSError as error:
            raise self._failed(error) from error

    def _write(self, line: bytes) -> None:
        self._bytes += len(line) + 1
        try:
            self._file.write(line + b"\n")
        except OSError as error:
            raise self._failed(error) from error

    def _flush(self) -> None:
        try:
            self._file.flush()
        except OSError as error:
            raise self._failed(error) from error

    def _failed(self, error: OSError) -> FailedError:
        return FailedError(
            f"{self._path} cannot be written", error.strerror or str(error), "Make room, or elsewhere."
        )


def read_tape(path: Path) -> Tape:
    """The tape in a file; of one that ends in the middle, as a killed recorder leaves it, what is intact.

    Raises CockpitError with one sentence for whatever else is wrong with it.
    """
    try:
        with gzip.open(path, "rb") as file:
            return _parse(path, _lines(path, file))
    except gzip.BadGzipFile as error:
        raise _bad(path, "it is no tape") from error
    except zlib.error as error:
        raise _bad(path, "it is damaged") from error
    except EOFError as error:
        raise _bad(path, "it ends in the middle, before the first observation") from error
    except OSError as error:
        raise CockpitError(
            f"{path} cannot be read", error.strerror or str(error), "Give the file of a tape."
        ) from error


def _bad(path: Path, why: str) -> CockpitError:
    return CockpitError(
        f"{path} cannot be replayed", why, "Record one with `cockpit top NAME --record FILE`, and end it with Ctrl-C."
    )


def _lines(path: Path, file: gzip.GzipFile) -> Iterator[tuple[int, bytes]]:
    """Numbered lines, bounded in length, number and all together."""
    whole = 0
    for number in range(1, MAX_OBSERVATIONS + 3):
        line = file.readline(MAX_LINE_BYTES + 2)
        if not line:
            return
        whole += len(line)
        if len(line) > MAX_LINE_BYTES + 1 or whole > MAX_BYTES + MAX_OBSERVATIONS:
            raise _bad(path, f"line {number} passes the bound of a tape")
        yield number, line
    raise _bad(path, f"it holds more than {MAX_OBSERVATIONS:,} observations")


def _parse(path: Path, lines: Iterator[tuple[int, bytes]]) -> Tape:
    header = _header(path, next(lines, (1, b""))[1])
    observations: list[Observation] = []
    is_cut = False
    try:
        for seen in _observations(path, lines):
            observations.append(seen)
    except (EOFError, gzip.BadGzipFile) as error:
        if not observations or not _lacks_its_end(error):
            raise
        is_cut = True
    if not observations:
        raise _bad(path, "nothing was recorded on it")
    return Tape(header=header, observations=tuple(observations), is_cut=is_cut)


def _lacks_its_end(error: Exception) -> bool:
    """Whether the file ends too early, or goes on with something else, where all before it is as it was written."""
    return isinstance(error, EOFError) or str(error).startswith("Not a gzipped file")


def _observations(path: Path, lines: Iterator[tuple[int, bytes]]) -> Iterator[Observation]:
    decoder = msgspec.json.Decoder(Observation)
    before: float | None = None
    for number, line in lines:
        try:
            seen = decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _bad(path, f"line {number}: {str(error)[:200]}") from error
        if not 0 <= seen.frame.at <= MAX_AT:
            raise _bad(path, f"line {number} is of no time that there is")
        if before is not None and seen.frame.at < before:
            raise _bad(path, f"line {number} is older than the one before")
        before = seen.frame.at
        yield seen


def _header(path: Path, line: bytes) -> Header:
    try:
        header = msgspec.json.decode(line, type=Header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _bad(path, "it is no tape") from error
    if header.format != FORMAT:
        raise _bad(path, "it is no tape")
    if header.version != VERSION:
        why = f"it is of version {header.version}, and this cockpit reads version {VERSION}"
        other = "a newer cockpit" if header.version > VERSION else "the cockpit that recorded it"
        raise CockpitError(f"{path} cannot be replayed", why, f"Replay it with {other}.")
    return header


class Replay:
    """A tape followed as a Watch follows a server: ``tick`` gives what was seen at that moment of the tape.

    ``speed`` 2 shows it in half the time; ``clock`` gives monotonic seconds. At its end the last sight stays.
    """

    is_live = False

    def __init__(self, tape: Tape, speed: float = 1.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._tape = tape
        self._speed = speed
        self._clock = clock
        self._began: float | None = None
        self._shown = -1

    @property
    def name(self) -> str:
        """The instance's name."""
        return self._tape.observations[0].record.name

    @property
    def position(self) -> str:
        """Where it is, e.g. ``tape 12 of 60 s``."""
        start = self._tape.observations[0].frame.at
        at = self._tape.observations[max(0, self._shown)].frame.at - start
        cut = ", cut off there" if self._tape.is_cut else ""
        return f"tape {at:.0f} of {self._tape.seconds:.0f} s{cut}"

    @property
    def at_end(self) -> bool:
        """Whether the last observation was shown."""
        return self._shown == len(self._tape.observations) - 1

    def tick(self) -> Observation:
        """The newest observation of this moment, with all lines of the log since the last tick."""
        now = self._clock()
        if self._began is None:
            self._began = now
        observations = self._tape.observations
        until = observations[0].frame.at + (now - self._began) * self._speed
        first = self._shown + 1
        while not self.at_end and (self._shown < 0 or observations[self._shown + 1].frame.at <= until):
            self._shown += 1
        lines = tuple(line for seen in observations[first : self._shown + 1] for line in seen.lines)
        return msgspec.structs.replace(observations[self._shown], lines=lines)

    def close(self) -> None:
        """Nothing to let go of: a tape is read whole."""
