"""JSON that other people wrote: read with a limit, and every key checked for its type before it is used."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cockpit import paths
from cockpit.errors import CockpitError

MAX_CONFIG_BYTES = 16 * 1024**2
"""A config.json of today has some 10 KiB, one with a quantization entry for every module of a large MoE 5 MiB."""
_MAX_WORD = 256
_SHOWN = 48
_FIX = "Correct that key, or download the checkpoint again."
_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:+/ -]*")


def shown(value: object) -> str:
    """Any value as a short piece of plain text: control characters are escaped, long values cut."""
    if isinstance(value, dict | list):
        kind = "an object" if isinstance(value, dict) else "a list"
        return f"{kind} of {len(value)}"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 10**_SHOWN:
        return "a huge number"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = ascii(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def fail_reading(file: Path, error: OSError) -> CockpitError:
    """The error for a file of a checkpoint that the system would not read."""
    missing = isinstance(error, FileNotFoundError)
    fix = "Download the checkpoint again." if missing else "Make it readable."
    if missing and file.is_symlink():
        return CockpitError(f"{file}: the symbolic link points at nothing", fix=fix)
    return CockpitError(f"{file}: cannot be read", error.strerror or type(error).__name__, fix)


def read_json(file: Path, limit: int = MAX_CONFIG_BYTES) -> dict[str, Any]:
    """The JSON object in ``file``, which must be a regular file of at most ``limit`` bytes.

    Infinity and NaN parse as they do in transformers, which writes them; a key that is used refuses them.
    Raises CockpitError for everything else that is not one JSON object.
    """
    try:
        status = file.stat()
        if not stat.S_ISREG(status.st_mode):
            raise CockpitError(f"{file}: not a file", fix="Name a checkpoint folder or its config.json.")
        if status.st_size > limit:
            raise _too_large(file, limit)
        with file.open("rb") as handle:
            data = paths.read_up_to(handle, limit + 1)
    except OSError as error:
        raise fail_reading(file, error) from error
    except ValueError as error:
        raise CockpitError(f"{shown(str(file))}: not a path", fix="Name a checkpoint folder.") from error
    if len(data) > limit:
        raise _too_large(file, limit)
    return parse_object(data, str(file))


def parse_object(data: bytes, origin: str) -> dict[str, Any]:
    """The JSON object in ``data``. Raises CockpitError naming ``origin`` when there is none."""
    fix = "Download the file again."
    try:
        value = json.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise CockpitError(f"{origin}: not UTF-8 text", fix=fix) from error
    except json.JSONDecodeError as error:
        raise CockpitError(f"{origin}: not JSON", f"{error.msg}, line {error.lineno}", fix) from error
    except RecursionError as error:
        raise CockpitError(f"{origin}: nested too deeply", fix=fix) from error
    except ValueError as error:
        # A number with thousands of digits, which Python refuses to convert.
        raise CockpitError(f"{origin}: holds a number that is too long", fix=fix) from error
    if not isinstance(value, dict):
        raise CockpitError(f"{origin}: must be a JSON object", f"is {shown(value)}", fix)
    return value


def _too_large(file: Path, limit: int) -> CockpitError:
    return CockpitError(f"{file}: larger than {limit // 1024**2} MiB", fix="Name the config.json of a checkpoint.")


class Keys:
    """One JSON object whose values are checked as they are taken; null counts as not there.

    Every method raises CockpitError naming file and key when the value is of the wrong type or out of range.
    """

    def __init__(self, data: dict[str, Any], origin: str, path: str = "") -> None:
        self.data = data
        self.origin = origin
        self.path = path

    def fail(self, key: str, wanted: str) -> CockpitError:
        """The error for ``key``: what it must be and what it is."""
        name = f"{self.path}.{key}" if self.path else key
        name = ascii(name)[1:-1]
        name = name if len(name) <= _MAX_WORD else name[:_MAX_WORD] + "…"
        detail = f"is {shown(self.data[key])}" if key in self.data else "there is no such key"
        return CockpitError(f"{self.origin}: {name} must be {wanted}", detail, _FIX)

    def has(self, *keys: str) -> bool:
        """Whether one of ``keys`` is there and not null."""
        return any(self.data.get(key) is not None for key in keys)

    def first(self, *keys: str) -> str:
        """The first of ``keys`` that is there, else the first of all."""
        return next((key for key in keys if self.has(key)), keys[0])

    def integer(self, key: str, low: int, high: int) -> int | None:
        """A whole number from ``low`` to ``high``."""
        value = self.data.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.fail(key, f"a whole number from {low:,} to {high:,}")
        return value

    def required(self, keys: tuple[str, ...], low: int, high: int) -> int:
        """A whole number under the first of ``keys`` that is there; one of them must be."""
        key = self.first(*keys)
        value = self.integer(key, low, high)
        if value is None:
            raise self.fail(key, f"a whole number from {low:,} to {high:,}")
        return value

    def flag(self, key: str) -> bool | None:
        """True or false; None when it is not there. Raises CockpitError for anything else, as all of these do."""
        value = self.data.get(key)
        if value is not None and not isinstance(value, bool):
            raise self.fail(key, "true or false")
        return value

    def word(self, key: str) -> str | None:
        """A name: printable ASCII, at most 256 characters."""
        value = self.data.get(key)
        if value is not None and not (
            isinstance(value, str) and len(value) <= _MAX_WORD and _WORD.fullmatch(value) is not None
        ):
            raise self.fail(key, "a name")
        return value

    def words(self, key: str) -> tuple[str, ...]:
        """A list of texts, e.g. module names and patterns; one text alone is a list of one."""
        value = self.data.get(key)
        if value is None:
            return ()
        if isinstance(value, str):
            return (value,)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.fail(key, "a list of names")
        return tuple(value)

    def items(self, key: str) -> list[Any]:
        """A list of anything, empty when it is not there."""
        value = self.data.get(key)
        if value is not None and not isinstance(value, list):
            raise self.fail(key, "a list")
        return value or []

    def mapping(self, key: str) -> Keys | None:
        """The object under ``key``, which knows its path for errors; None when it is not there."""
        value = self.data.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.fail(key, "an object")
        return Keys(value, self.origin, f"{self.path}.{key}" if self.path else key)

    def mappings(self, key: str) -> Iterator[tuple[str, Keys]]:
        """Name and object of every entry of the object under ``key``."""
        parent = self.mapping(key)
        for name in parent.data if parent else ():
            assert parent is not None
            child = parent.mapping(name)
            if child is not None:
                yield name, child
