"""What a cockpit leaves that is killed while it writes: gone at the next start, and nothing else with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cockpit import paths
from cockpit.launch.types import LaunchPlan
from cockpit.supervisor.drafts import drop_drafts
from cockpit.supervisor.origin import marked_pid, pid_mark
from cockpit.supervisor.spawn import start
from cockpit.supervisor.stop import stop

from .conftest import wait_for

Plans = Callable[..., LaunchPlan]
CUTTER = """
import os, sys, time
from pathlib import Path
from cockpit.supervisor import log_bounds
log_bounds._copy_rest = lambda descriptor, start, copy: (os.write(copy, b"x" * 1000), time.sleep(600))
log_bounds.bound(Path(sys.argv[1]), 1000, 10)
"""
WRITER = """
import os, sys, time
from cockpit import paths
from cockpit.supervisor import store
os.fsync = os.link = lambda *_: time.sleep(600)
from cockpit.supervisor.boot_history import _FILES, _File
if sys.argv[1] == "history":
    _FILES.change("a/b", lambda _: _File(slug="a/b", boots=()))
import msgspec
from cockpit.supervisor.record import InstanceRecord
record = InstanceRecord(name="x", slug="x", model="", served_model_name="", argv=(), env={}, cwd="/", host="",
                        port=1, url="", log="/x", created_at=1.0)
store.save(record) if sys.argv[1] == "record" else store.reserve(lambda _: record, "x")
"""


def hidden() -> list[Path]:
    return [path for path in paths.state_home().rglob(".*") if path.is_file() and path.name != ".lock"]


def killed_amid(words: list[str]) -> None:
    """Run a cockpit until its draft is there, and kill it."""
    cockpit = subprocess.Popen([sys.executable, "-c", *words])
    assert wait_for(lambda: any(draft.stat().st_size for draft in hidden()))
    cockpit.kill()
    cockpit.wait()


@pytest.mark.fault("SIGKILL of the cockpit while it cuts a log", "the half copy is deleted at the next start")
def test_the_half_copy_of_a_log_goes_with_the_next_start(make_plan: Plans) -> None:
    log = paths.ensure_private(paths.logs_home()) / "gone-20261130-080000.log"
    log.write_bytes(b"line\n" * 1000)
    killed_amid([CUTTER, str(log)])
    (draft,) = hidden()
    assert draft.name.startswith(f".{log.name}.1.") and draft.stat().st_size == 1000
    running = start(make_plan())
    assert hidden() == [] and log.exists()
    assert stop(running).stopped


@pytest.mark.parametrize("what", ["history", "record", "draft of a record"])
def test_what_was_half_written_goes_once_it_is_old(what: str, make_plan: Plans) -> None:
    killed_amid([WRITER, what])
    for draft in hidden():
        os.utime(draft, (time.time() - 3600, time.time() - 3600))
    running = start(make_plan())
    assert hidden() == []
    assert stop(running).stopped


def test_what_is_being_written_and_what_is_no_draft_stays(tmp_path: Path) -> None:
    old, home = time.time() - 86_400, tmp_path / "home"
    logs = home / "logs"
    logs.mkdir(parents=True)
    names = [
        ".a.log.1.x",
        ".hidden",
        ".lock",
        "a.log",
        "a.log.1",
        "a.json",
        ".a.json",
        ".a.log.1.77.bak",
        ".swp.json.AB",
    ]
    for name in names:
        (logs / name).write_text("mine")
        os.utime(logs / name, (old, old))
    sleeper = subprocess.Popen(["sleep", "600"])
    fresh = logs / f".a.log.1.{marked_pid(sleeper.pid)}"
    fresh.write_text("of a cockpit that works")
    (logs / ".b.json.abcd1234").write_text("as well")
    (logs / ".c.log.1.999999999").mkdir()
    (logs / ".d.log.1.999999999").symlink_to(logs / "a.log")
    before = sorted(logs.iterdir())
    assert drop_drafts(home) == 0 == drop_drafts(logs / "none") and sorted(logs.iterdir()) == before
    os.utime(fresh, (old, old))
    assert drop_drafts(home) == 1, "a pid may be another process's by now"
    sleeper.send_signal(signal.SIGKILL)
    sleeper.wait()
    fresh.write_text("of one that is gone")
    assert drop_drafts(home) == 1 and not fresh.exists()


@pytest.mark.fault(
    "a state home that is shared with another container or host", "what a cockpit there is writing stays"
)
@pytest.mark.parametrize("name", [".a.log.1.999999999{}", ".a.999999999{}.123456789", "..a.999999999{}.12.abcd_123"])
def test_the_draft_of_a_cockpit_whose_pids_are_not_ours_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    folder = tmp_path / "home" / "logs"
    folder.mkdir(parents=True)
    mark = pid_mark()
    monkeypatch.setattr("cockpit.supervisor.origin.pid_namespace", lambda: "pid:[4026532001]")
    theirs = pid_mark()
    assert theirs != mark and theirs
    monkeypatch.undo()
    foreign, earlier, own = (folder / name.format(f".{one}" if one else "") for one in (theirs, "", mark))
    for path in (foreign, earlier, own):
        path.write_text("x")
    assert drop_drafts(folder.parent) == 1 and foreign.exists() and earlier.exists() and not own.exists()
    for path in (foreign, earlier):
        os.utime(path, (time.time() - 7200, time.time() - 7200))
    assert drop_drafts(folder.parent) == 0
    for path in (foreign, earlier):
        os.utime(path, (time.time() - 90_000, time.time() - 90_000))
    assert drop_drafts(folder.parent) == 2


def test_how_old_a_draft_is_says_the_clock_of_its_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "home" / "logs"
    folder.mkdir(parents=True)
    (folder / ".b.json.abcd1234").write_text("being written")
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 3600)
    assert drop_drafts(folder.parent) == 0
