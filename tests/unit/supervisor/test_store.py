"""Instance records on disk: broken ones are named, none hides another, names are safe."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from cockpit import paths
from cockpit.errors import CockpitError
from cockpit.supervisor import store
from cockpit.supervisor.record import InstanceRecord, ProcessIdentity


@pytest.fixture(autouse=True)
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return paths.ensure_private(paths.instances_home())


def record(name: str, slug: str = "vllm/dual", **changes: object) -> InstanceRecord:
    made = InstanceRecord(
        name=name,
        slug=slug,
        model="m",
        served_model_name="m",
        argv=("vllm", "serve"),
        env={"A": None},
        cwd="/",
        host="127.0.0.1",
        port=8000,
        url="http://127.0.0.1:8000",
        log="/nowhere/log",
        created_at=time.time(),
    )
    return msgspec.structs.replace(made, **changes)


def test_a_record_comes_back_as_it_was_saved() -> None:
    saved = record("a", process=ProcessIdentity(pid=77, start_time=1.5, birth="b:1"), values={"gpus": [0, 1]})
    store.save(saved)
    assert store.load("a") == saved
    assert store.load_all() == ([saved], [])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not an instance record"),
        (b'{"format_version": 1, "name": "bad', "not an instance record"),
        (b'{"format_version": 99, "name": "bad"}', "another version"),
        (b'{"format_version": 1, "name": "bad", "slug": 7}', "not an instance record"),
        (b"[" * 100_000, "not an instance record"),
        (b"\xff\xfe\x00", "not an instance record"),
        (b'"' + b"x" * (2 << 20) + b'"', "too large"),
        (None, "not a file"),
    ],
)
def test_a_broken_record_is_a_sentence_and_hides_no_other(
    state_home: Path, content: bytes | None, words: str
) -> None:
    store.save(record("good"))
    if content is None:
        (state_home / "bad.json").mkdir()
    else:
        (state_home / "bad.json").write_bytes(content)
    records, problems = store.load_all()
    assert [found.name for found in records] == ["good"]
    assert len(problems) == 1 and "bad.json" in problems[0] and words in problems[0]
    with pytest.raises(CockpitError, match=words):
        store.find("bad")


@pytest.mark.parametrize("pid", [0, -1, 1, "7", None])
def test_a_record_that_would_signal_a_group_or_init_is_refused(state_home: Path, pid: object) -> None:
    raw = msgspec.to_builtins(record("bad"))
    raw["process"] = {"pid": pid, "start_time": 1.0}
    (state_home / "bad.json").write_bytes(msgspec.json.encode(raw))
    records, problems = store.load_all()
    assert records == [] and len(problems) == 1


def test_a_copied_record_does_not_pass_for_another_instance(state_home: Path) -> None:
    store.save(record("a"))
    (state_home / "b.json").write_bytes((state_home / "a.json").read_bytes())
    records, problems = store.load_all()
    assert [found.name for found in records] == ["a"] and "another instance" in problems[0]


def test_fields_of_a_later_version_of_the_same_format_are_ignored(state_home: Path) -> None:
    raw = msgspec.to_builtins(record("a"))
    (state_home / "a.json").write_bytes(msgspec.json.encode({**raw, "later": True}))
    assert store.load("a").name == "a"


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".hidden", "-x", "a..b", "x\n", "a" * 101, "ä", "a\0"])
def test_a_name_that_could_leave_the_folder_is_refused(name: str) -> None:
    for use in (store.load, store.check_name, lambda text: store.reserve(record, "vllm/dual", text)):
        with pytest.raises(CockpitError):
            use(name)
    with pytest.raises(CockpitError):
        store.find(name)


def test_names_come_from_the_slug_and_are_numbered() -> None:
    names = [store.reserve(record, "cpu/tiny-qwen3").name for _ in range(3)]
    assert names == ["cpu-tiny-qwen3", "cpu-tiny-qwen3-2", "cpu-tiny-qwen3-3"]


def test_many_cockpits_at_once_never_take_the_same_name() -> None:
    program = (
        "import sys; sys.path[:0] = sys.argv[1:]\n"
        "from test_store import record\n"
        "from cockpit.supervisor import store\n"
        "for _ in range(5): print(store.reserve(record, 'vllm/dual').name)\n"
    )
    command = [sys.executable, "-c", program, str(Path(__file__).parent), str(Path(__file__).parents[3])]
    crowd = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    names = [name for one in crowd for name in one.communicate()[0].split()]
    assert len(names) == 15 and len(set(names)) == 15
    assert len(store.load_all()[0]) == 15


def test_an_update_changes_what_is_on_disk_and_never_brings_a_record_back() -> None:
    first = record("a")
    store.save(first)
    other = store.update(first, descendants=(ProcessIdentity(pid=9, start_time=1.0),))
    changed = store.update(first, ready_at=5.0)
    assert other is not None and changed is not None
    assert changed.descendants == other.descendants and store.load("a").ready_at == 5.0
    store.remove(first)
    assert store.update(first, ready_at=6.0) is None
    assert store.mark_dead(first, 1).exit_code == 1
    assert store.load_all() == ([], [])


def test_a_later_instance_of_the_same_name_is_not_touched() -> None:
    old, new = record("a", created_at=1.0), record("a", created_at=2.0)
    store.save(new)
    assert store.update(old, ready_at=5.0) is None
    store.remove(old)
    assert store.load("a") == new


def test_the_first_known_end_of_a_server_is_kept() -> None:
    store.save(record("a"))
    first = store.mark_dead(store.load("a"), 7)
    again = store.mark_dead(store.load("a"), None)
    assert (again.exit_code, again.ended_at) == (7, first.ended_at)


def test_an_instance_is_found_by_name_and_by_its_slug_when_that_is_unique() -> None:
    store.save(record("vllm-dual"))
    store.save(record("mine", slug="cpu/tiny"))
    assert store.find("mine").name == "mine"
    assert store.find("vllm/dual").name == "vllm-dual"
    store.save(record("vllm-dual-2"))
    with pytest.raises(CockpitError, match="vllm-dual, vllm-dual-2"):
        store.find("vllm/dual")


def test_an_unknown_instance_is_answered_with_the_nearest_names() -> None:
    with pytest.raises(CockpitError, match="cockpit serve"):
        store.find("anything")
    store.save(record("vllm-dual"))
    with pytest.raises(CockpitError, match="vllm-dual"):
        store.find("vllm-dul")
    with pytest.raises(CockpitError, match="On record: vllm-dual"):
        store.find("zzz")


def test_a_folder_of_records_that_is_not_there_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "none"))
    assert store.load_all() == ([], [])
    assert not (tmp_path / "none").exists()
