"""Many logs at once: those of a folder, and the cases of a YAML file such as a collection of bug reports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import yaml

from cockpit.errors import CockpitError
from cockpit.supervisor.diagnose.files import diagnose_file, diagnose_lines
from cockpit.supervisor.diagnose.types import Diagnosis
from cockpit.supervisor.logfile import clean

_YAML = (".yaml", ".yml")
_LOGS = ("", ".txt", ".out", ".err", *_YAML)
"""How files end that may be logs, besides those with ``.log`` anywhere in their names (``x.log.1``)."""
_MAX_YAML_BYTES = 16 << 20
_MAX_CHARACTERS = 8000
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One log; either field is set."""

    name: str
    """Path below the folder; in a file of cases also its ``id``, or its number from 1."""
    diagnosis: Diagnosis | None = None
    problem: str | None = None
    """Why it was not read."""


def holds_many(source: Path) -> bool:
    """Whether it is a folder or a file of cases rather than one log."""
    return source.is_dir() or (source.suffix in _YAML and _cases(source) is not None)


def diagnose_many(source: Path) -> Iterator[Case]:
    """Every log of a folder and of those below it, in the order of their names; hidden files are left out.

    A YAML file that is a list of mappings with a ``log`` gives one case for each; another one is no log. Raises
    CockpitError when there is nothing to read.
    """
    folder = source if source.is_dir() else source.parent
    files = list(_files(source)) if source.is_dir() else [source]
    if not files:
        raise CockpitError(f"{source} has no logs in it", fix="Name a folder with *.log or *.txt files.")
    for file in files:
        yield from _of_file(file, str(file.relative_to(folder)))


def _files(folder: Path) -> Iterator[Path]:
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise CockpitError(f"{folder} cannot be read", error.strerror or str(error)) from error
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir() and not entry.is_symlink():
            yield from _files(entry)
        elif entry.is_file() and (entry.suffix in _LOGS or ".log" in entry.suffixes):
            yield entry


def _of_file(file: Path, name: str) -> Iterator[Case]:
    if file.suffix not in _YAML:
        try:
            yield Case(name=name, diagnosis=diagnose_file(str(file)))
        except CockpitError as error:
            yield Case(name=name, problem=error.detail or error.title)
        return
    cases = _cases(file)
    if cases is None:
        yield Case(name=name, problem="a YAML file without cases: a list of mappings with a `log`")
        return
    for number, case in enumerate(cases, 1):
        lines = [clean(line, _MAX_CHARACTERS) for line in case["log"].split("\n")]
        yield Case(name=f"{name}:{case.get('id', number)}", diagnosis=diagnose_lines(lines))


def _cases(file: Path) -> list[dict[str, Any]] | None:
    """The cases of a YAML file; None when it has none, or cannot be read as YAML."""
    try:
        with file.open(encoding="utf-8", errors="replace") as stream:
            found = yaml.load(stream.read(_MAX_YAML_BYTES), Loader=_Loader)
    except (OSError, yaml.YAMLError, RecursionError, ValueError):
        return None
    if not isinstance(found, list) or not found:
        return None
    return found if all(isinstance(one, dict) and isinstance(one.get("log"), str) for one in found) else None
