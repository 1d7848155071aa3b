"""Small JSON files, one a key: read without trust, changed under a lock, replaced in one step.

What cannot be understood, or is of a newer cockpit, is left as it is: it counts as nothing, and that is said.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from cockpit import paths
from cockpit.errors import CockpitError
from cockpit.supervisor.file_lock import hold, way_out

FORMAT = 1
_MAX_BYTES = 1 << 20


class KeyedFile(msgspec.Struct, frozen=True, kw_only=True):
    """What such a file holds at least; the field that names its key is the subclass's own."""

    format: int = FORMAT


File = TypeVar("File", bound=KeyedFile)


class Found(msgspec.Struct, Generic[File], frozen=True):
    """The content of a file, and what is wrong with it; neither where there is none."""

    content: File | None = None
    problem: str | None = None
    """One sentence that names the file."""


class KeyFiles(Generic[File]):
    """The files of one kind, in a folder of the state home.

    ``key_field`` names the field of ``kind`` with the key; ``earlier_name`` gives the name of a key's file before
    names were free of clashes; ``loss`` says what a file that cannot be used costs.
    """

    def __init__(
        self,
        folder: str,
        kind: type[File],
        key_field: str,
        loss: str,
        earlier_name: Callable[[str], str] | None = None,
    ) -> None:
        self._folder = folder
        self._kind = kind
        self._key_field = key_field
        self._loss = loss
        self._earlier_name = earlier_name

    def read(self, key: str) -> Found[File]:
        """What is on file for a key. Never raises."""
        found = self._read(self._file(key), key)
        if found != Found() or self._earlier_name is None:
            return found
        earlier = self._read(self._earlier(key), key)
        # Another key may have had that name: its file is none of this one's.
        return Found() if earlier.content is None else earlier

    def change(self, key: str, alter: Callable[[File | None], File | None]) -> None:
        """Write what ``alter`` makes of the content; nothing where it gives None or the file cannot be used.

        Raises CockpitError when the file cannot be written.
        """
        folder = paths.ensure_private(paths.state_home() / self._folder)
        file = self._file(key)
        try:
            with hold(folder / ".lock"):
                found = self.read(key)
                after = None if found.problem is not None else alter(found.content)
                if after is not None and after != found.content:
                    paths.write_atomic(file, msgspec.json.encode(after))
                    self._drop_earlier(key)
        except OSError as error:
            raise CockpitError(
                f"cannot write {file}", error.strerror or str(error), way_out(error, "Make room there.")
            ) from error
        except UnicodeEncodeError as error:
            raise CockpitError(f"nothing is kept of {key!a:.120}", "its name is no text", "Rename it.") from error

    def _file(self, key: str) -> Path:
        """A name of its own for every key, whatever characters the key has."""
        digest = hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:24]
        return paths.state_home() / self._folder / f"{digest}.json"

    def _earlier(self, key: str) -> Path:
        assert self._earlier_name is not None
        return paths.state_home() / self._folder / f"{self._earlier_name(key)}.json"

    def _drop_earlier(self, key: str) -> None:
        if self._earlier_name is not None and self._read(self._earlier(key), key).content is not None:
            with contextlib.suppress(OSError):
                self._earlier(key).unlink()

    def _read(self, file: Path, key: str) -> Found[File]:
        try:
            with file.open("rb") as handle:
                data = paths.read_up_to(handle, _MAX_BYTES + 1)
            if len(data) > _MAX_BYTES:
                return self._unusable(file, "cannot be read")
            if msgspec.json.decode(data, type=KeyedFile).format > FORMAT:
                return self._unusable(file, "is of a newer cockpit")
            content = msgspec.json.decode(data, type=self._kind)
        except FileNotFoundError:
            return Found()
        except (OSError, msgspec.MsgspecError, ValueError, RecursionError):
            return self._unusable(file, "cannot be read")
        if content.format != FORMAT or getattr(content, self._key_field) != key:
            return self._unusable(file, "cannot be used")
        return Found(content)

    def _unusable(self, file: Path, why: str) -> Found[File]:
        return Found(problem=f"{file} {why}, so {self._loss}; delete it to begin anew")
