"""Small JSON files, one a key: shared by several cockpits, of several versions, and edited by hand."""

from __future__ import annotations

import json
import multiprocessing
import threading
from pathlib import Path

import msgspec
import pytest

from cockpit import paths
from cockpit.errors import CockpitError
from cockpit.supervisor import file_lock, store
from cockpit.supervisor.file_lock import hold
from cockpit.supervisor.key_files import FORMAT, Found, KeyedFile, KeyFiles


class Content(KeyedFile, frozen=True, kw_only=True):
    name: str
    numbers: tuple[int, ...] = ()


FILES = KeyFiles("things", Content, "name", "nothing counts", lambda key: key.replace("/", "-"))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def add(key: str, number: int) -> None:
    def with_it(file: Content | None) -> Content:
        return Content(name=key, numbers=(*(() if file is None else file.numbers), number))

    FILES.change(key, with_it)


def numbers(key: str) -> tuple[int, ...]:
    content = FILES.read(key).content
    return () if content is None else content.numbers


def folder() -> Path:
    return paths.state_home() / "things"


def files() -> list[Path]:
    return sorted(folder().glob("*.json"))


@pytest.mark.parametrize("other", ["a-b/c", "a-b-c", "a/b/c", "A/b-c", "a/b-c ", "../a/b-c", "a/b-c\x00"])
def test_no_two_keys_share_a_file(other: str) -> None:
    add("a/b-c", 1)
    add(other, 2)
    assert (numbers("a/b-c"), numbers(other)) == ((1,), (2,)) and len(files()) == 2
    assert all(file.parent == folder() and file.stat().st_mode & 0o77 == 0 for file in files())


def test_a_file_of_an_earlier_name_is_read_and_moves_when_it_changes() -> None:
    folder().mkdir(parents=True)
    earlier = folder() / "a-b-c.json"
    earlier.write_bytes(msgspec.json.encode(Content(name="a/b-c", numbers=(1,))))
    assert numbers("a/b-c") == (1,)
    assert FILES.read("a-b/c") == Found(), "another key had that name too, and its file is not this one's"
    add("a-b/c", 7)
    assert earlier.exists()
    add("a/b-c", 2)
    assert numbers("a/b-c") == (1, 2) and not earlier.exists() and numbers("a-b/c") == (7,)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "cannot be read"),
        ("{", "cannot be read"),
        ("[]", "cannot be read"),
        ("[" * 100_000, "cannot be read"),
        ("\x00\xff", "cannot be read"),
        (json.dumps({"format": FORMAT, "name": "k", "numbers": "x"}), "cannot be read"),
        (json.dumps({"format": FORMAT, "name": "another"}), "cannot be used"),
        (json.dumps({"format": FORMAT - 1, "name": "k"}), "cannot be used"),
        (json.dumps({"format": FORMAT + 1, "name": "k", "numbers": [1]}), "is of a newer cockpit"),
        (json.dumps({"format": FORMAT + 1, "what": {"is": "unlike"}}), "is of a newer cockpit"),
    ],
)
def test_what_cannot_be_used_is_named_and_left_as_it_is(text: str, says: str) -> None:
    add("k", 1)
    (file,) = files()
    file.write_text(text, encoding="latin-1")
    found = FILES.read("k")
    assert found.content is None and found.problem is not None
    assert found.problem == f"{file} {says}, so nothing counts; delete it to begin anew"
    add("k", 2)
    assert file.read_text(encoding="latin-1") == text and FILES.read("k") == found
    file.unlink()
    add("k", 3)
    assert numbers("k") == (3,)


def _add_many(start: int) -> None:
    for number in range(start, start + 25):
        add("k", number)


def test_several_cockpits_lose_nothing_of_each_other() -> None:
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_add_many, args=(100 * one,)) for one in range(4)]
    for one in writers:
        one.start()
    for one in writers:
        one.join(60)
    assert sorted(numbers("k")) == [100 * one + number for one in range(4) for number in range(25)]


def test_nothing_is_written_where_nothing_changes() -> None:
    add("k", 1)
    (file,) = files()
    before = file.stat()
    FILES.change("k", lambda content: content)
    FILES.change("k", lambda _: None)
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_home_that_cannot_be_written_to_is_said() -> None:
    paths.state_home().mkdir(parents=True)
    folder().write_text("a file where the folder should be")
    with pytest.raises(CockpitError, match="cannot write"):
        add("k", 1)


def test_a_key_that_is_no_text_is_one_sentence() -> None:
    assert FILES.read("\udcff") == Found()
    with pytest.raises(CockpitError, match="its name is no text"):
        add("\udcff", 1)


def test_a_lock_that_another_holds_on_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_lock, "_PATIENCE_SECONDS", 0.2)
    for one in (folder(), paths.instances_home()):
        one.mkdir(parents=True)
        with hold(one / ".lock"), pytest.raises(CockpitError, match="another process has held") as told:
            add("k", 1) if one == folder() else store.locked().__enter__()
        assert "See which cockpit" in told.value.fix
    add("k", 1)
    with store.locked():
        assert numbers("k") == (1,)


def test_a_lock_is_waited_for_while_it_is_held_for_a_moment() -> None:
    folder().mkdir(parents=True)
    released = threading.Event()

    def holder() -> None:
        with hold(folder() / ".lock"):
            held.set()
            released.wait(0.3)

    held = threading.Event()
    thread = threading.Thread(target=holder)
    thread.start()
    assert held.wait(60)
    add("k", 1)
    thread.join()
    assert numbers("k") == (1,)


def test_no_descriptor_is_left_open() -> None:
    add("k", 0)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for number in range(20):
        add("k", number)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
