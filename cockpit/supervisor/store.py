"""Instance records on disk: one JSON file each, replaced atomically, shared by all cockpits of a user."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from cockpit import paths
from cockpit.errors import CockpitError
from cockpit.nearest import did_you_mean
from cockpit.supervisor.file_lock import hold, way_out
from cockpit.supervisor.origin import is_elsewhere, marked_pid, shown_host
from cockpit.supervisor.record import FORMAT_VERSION, InstanceRecord

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_MAX_RECORD_BYTES = 1 << 20
_MAX_NAMES = 1000
"""Instances of one slug; far more than ports."""


def check_name(name: str) -> str:
    """The name itself when it may name a record; CockpitError when it could leave the folder or hide in it."""
    if not _NAME.fullmatch(name) or ".." in name:
        raise CockpitError(
            f"{name!r:.120} cannot name an instance",
            "a name has letters, digits, dots, dashes and underscores and starts with a letter or digit",
            "Choose another name.",
        )
    return name


def _file(name: str) -> Path:
    return paths.instances_home() / f"{check_name(name)}.json"


@contextlib.contextmanager
def locked() -> Iterator[None]:
    """Hold the lock under which records are changed, so that no cockpit brings back what another removed."""
    folder = paths.ensure_private(paths.instances_home())
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(hold(folder / ".lock"))
        except OSError as error:
            raise _write_failure(error) from error
        yield


def _write_failure(error: OSError) -> CockpitError:
    return CockpitError(
        "cannot write the instance record",
        error.strerror or str(error),
        way_out(error, f"Make room in {paths.instances_home()} and make it writable."),
    )


def save(record: InstanceRecord) -> None:
    """Write the record, replacing one of the same name. Raises CockpitError when the folder cannot be written."""
    paths.ensure_private(paths.instances_home())
    try:
        paths.write_atomic(_file(record.name), msgspec.json.format(msgspec.json.encode(record), indent=1))
    except OSError as error:
        raise _write_failure(error) from error


def _create(record: InstanceRecord) -> bool:
    """Write a record whose name must be free; False when it is taken.

    A complete file is linked into place: no reader ever sees an empty one, and one of two cockpits loses.
    """
    target = _file(record.name)
    draft = target.with_name(f".{record.name}.{marked_pid(os.getpid())}.{time.monotonic_ns()}")
    try:
        paths.write_atomic(draft, msgspec.json.format(msgspec.json.encode(record), indent=1))
        os.link(draft, target)
    except FileExistsError:
        return False
    except OSError as error:
        raise _write_failure(error) from error
    finally:
        draft.unlink(missing_ok=True)
    return True


def candidate_names(slug: str) -> Iterator[str]:
    """``vllm/dual`` → ``vllm-dual``, ``vllm-dual-2``, ``vllm-dual-3``…"""
    base = check_name(slug.replace("/", "-"))
    yield base
    for number in range(2, _MAX_NAMES):
        yield f"{base}-{number}"


def reserve(draft: Callable[[str], InstanceRecord], slug: str, name: str | None = None) -> InstanceRecord:
    """Write the record that ``draft`` makes for the first free name (or for ``name``) and return it.

    Raises CockpitError when ``name`` is taken or not allowed.
    """
    paths.ensure_private(paths.instances_home())
    names: Iterator[str] = candidate_names(slug) if name is None else iter((check_name(name),))
    for candidate in names:
        record = draft(candidate)
        if _create(record):
            return record
    raise CockpitError(
        f"an instance named {name or slug} exists already",
        "",
        "Stop it with `cockpit stop`, or choose another name.",
    )


def load(name: str) -> InstanceRecord:
    """The record of that name. Raises CockpitError when there is none or it cannot be understood."""
    path = _file(name)
    if not path.exists():
        raise _unknown(name)
    found = _decoded(path)
    if isinstance(found, str):
        raise CockpitError(found, "", f"Delete {path} once its server is gone.")
    if is_elsewhere(found.origin):
        raise CockpitError(_of_elsewhere(found), "", _once_gone(found))
    return found


def _read(path: Path) -> InstanceRecord | str:
    """The record in ``path``, or one sentence saying why it is none that can be followed here."""
    found = _decoded(path)
    if isinstance(found, InstanceRecord) and is_elsewhere(found.origin):
        return f"{_of_elsewhere(found)}. {_once_gone(found)}"
    return found


def _of_elsewhere(record: InstanceRecord) -> str:
    where = shown_host(record.origin)
    return f"{record.name} was started on {where}, another host or container: only a cockpit there can follow it"


def _once_gone(record: InstanceRecord) -> str:
    return f"Once that is gone: `cockpit forget {record.name} --host {shlex.quote(shown_host(record.origin))}`."


def _decoded(path: Path) -> InstanceRecord | str:
    """The record in ``path``, wherever it was started, or one sentence saying why it is none."""
    name = path.name
    try:
        if not path.is_file():
            return f"{name} is not a file"
        with path.open("rb") as handle:
            data = paths.read_up_to(handle, _MAX_RECORD_BYTES + 1)
    except OSError as error:
        return f"{name} cannot be read: {error.strerror or error}"
    if len(data) > _MAX_RECORD_BYTES:
        return f"{name} is too large for an instance record"
    try:
        version = msgspec.json.decode(data, type=_Version).format_version
        if version != FORMAT_VERSION:
            return f"{name} was written by another version of cockpit (format {version})"
        record = msgspec.json.decode(data, type=InstanceRecord)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return f"{name} is not an instance record: {str(error)[:200]}"
    return record if f"{record.name}.json" == name else f"{name} holds the record of another instance"


class _Version(msgspec.Struct):
    format_version: int


def load_all() -> tuple[list[InstanceRecord], list[str]]:
    """All records, oldest first, and one sentence for each file that is none; never raises for their content."""
    records: list[InstanceRecord] = []
    problems: list[str] = []
    try:
        files = sorted(paths.instances_home().glob("[!.]*.json"))
    except OSError as error:
        return [], [f"the folder of instances cannot be read: {error.strerror or error}"]
    for path in files:
        found = _read(path)
        if isinstance(found, str):
            if path.exists():  # else another cockpit removed it in this moment
                problems.append(found)
        else:
            records.append(found)
    return sorted(records, key=lambda record: record.created_at), problems


def everywhere() -> list[InstanceRecord]:
    """The records that can be understood, also those of servers that were started elsewhere, by name."""
    with contextlib.suppress(OSError):
        found = map(_decoded, sorted(paths.instances_home().glob("[!.]*.json")))
        return [record for record in found if isinstance(record, InstanceRecord)]
    return []


def logs() -> set[str]:
    """Paths of the logs of all records, also of those that were started elsewhere."""
    return {record.log for record in everywhere()}


def update(record: InstanceRecord, **changes: Any) -> InstanceRecord | None:
    """Change fields of the record as it now stands on disk; the new record, or None when it is gone.

    Only the instance that ``record`` describes is changed, not a later one that took its name.
    """
    with locked():
        now = _read(_file(record.name))
        if isinstance(now, str) or now.created_at != record.created_at:
            return None
        changed = msgspec.structs.replace(now, **changes)
        if changed != now:
            save(changed)
        return changed


def remove(record: InstanceRecord) -> None:
    """Delete the record, unless a later instance took its name; one that is gone already is fine."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(CockpitError):  # a full disk may have no room for the lock, and this makes room
            stack.enter_context(locked())
        path = _file(record.name)
        now = _decoded(path)
        if isinstance(now, str) or (now.created_at, now.origin) == (record.created_at, record.origin):
            try:
                path.unlink(missing_ok=True)
            except NotADirectoryError:
                return
            except OSError as error:
                raise _write_failure(error) from error


def mark_dead(record: InstanceRecord, exit_code: int | None) -> InstanceRecord:
    """Note that the server ended unasked; the record stays so that ``ps`` can show it.

    ``exit_code`` is None when nobody saw it. An end noted before is kept.
    """
    now = update(record)
    if now is None:
        return msgspec.structs.replace(record, ended_at=record.ended_at or time.time(), exit_code=exit_code)
    code = now.exit_code if now.exit_code is not None else exit_code
    return update(now, ended_at=now.ended_at or time.time(), exit_code=code) or now


def exists(name: str) -> bool:
    """Whether an instance of that name is on record; a stop takes it away."""
    return _file(name).exists()


def names(text: str) -> bool:
    """Whether ``text`` names an instance on record, or the slug of one."""
    if _NAME.fullmatch(text) and ".." not in text and _file(text).exists():
        return True
    return any(text in (record.slug, record.slug.partition("/")[2]) for record in load_all()[0])


def find(text: str) -> InstanceRecord:
    """The instance named ``text``, else the only one that serves the slug ``text`` (with or without its engine).

    Raises CockpitError when there is none (with the nearest names) or more than one.
    """
    if _NAME.fullmatch(text) and ".." not in text and _file(text).exists():
        return load(text)
    records, _ = load_all()
    of_slug = [record for record in records if text in (record.slug, record.slug.partition("/")[2])]
    if len(of_slug) == 1:
        return of_slug[0]
    if of_slug:
        names = ", ".join(record.name for record in of_slug)
        raise CockpitError(f"{len(of_slug)} instances serve {text}", names, "Give the name of one of them.")
    raise _unknown(text)


def _unknown(text: str) -> CockpitError:
    records, _ = load_all()
    known = sorted({record.name for record in records} | {record.slug for record in records})
    listed = f"On record: {', '.join(record.name for record in records)}."
    otherwise = listed if records else "None is recorded; start one with `cockpit serve SLUG`."
    return CockpitError(f"no instance is called {text!r:.120}", "", did_you_mean(text, known, otherwise))
