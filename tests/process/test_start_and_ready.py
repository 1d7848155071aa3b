"""Starting real processes: recorded, followed, seen ready and seen dead."""

from __future__ import annotations

import http.server
import json
import os
import signal
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cockpit import paths
from cockpit.cli.serve import follow, served_json
from cockpit.errors import CockpitError
from cockpit.launch.types import LaunchPlan
from cockpit.supervisor import process, store
from cockpit.supervisor.boot_watch import wait_ready
from cockpit.supervisor.logfile import last_lines
from cockpit.supervisor.ready import probe, state_of
from cockpit.supervisor.spawn import start
from cockpit.supervisor.stop import stop

from .conftest import PATIENCE, until_settled, wait_for

Plans = Callable[..., LaunchPlan]


def test_a_server_is_seen_starting_then_ready_with_its_figures(make_plan: Plans, tmp_path: Path) -> None:
    began, seen = time.monotonic(), []
    running = start(make_plan("--fork-children", "2", "--boots-when", str(tmp_path / "booted")))
    for progress in wait_ready(running, PATIENCE):
        seen.append(progress)
        if progress.seconds >= 1.5:
            (tmp_path / "booted").touch()
    took = time.monotonic() - began
    assert {progress.life for progress in seen[:-1]} == {"starting"}
    last = seen[-1]
    assert last.life == "ready" and last.boot.ready and not last.timed_out
    assert last.boot.facts.capacity_tokens == 2_097_152
    assert 1.5 <= last.seconds <= took + 0.1  # the kernel counts in hundredths
    record = store.load("cpu-fake")
    assert record.ready_at is not None and record.process is not None
    assert len(record.descendants) == 3  # two children and a grandchild
    assert state_of(record) == "ready"
    stop(running)


def test_stages_are_told_by_the_names_that_the_screen_gives_them(
    make_plan: Plans, capsys: pytest.CaptureFixture[str]
) -> None:
    running = start(make_plan())
    progress = follow(running, PATIENCE)
    said = capsys.readouterr().err
    assert "  KV pool " in said and "kv_pool" not in said
    assert "kv_pool" in [stage["id"] for stage in served_json(running, progress)["stages"]]
    stop(running)


def test_what_is_recorded_and_logged_is_private_and_has_no_secrets(make_plan: Plans) -> None:
    env = {"VLLM_API_KEY": "s3cret", "HF_TOKEN": "t0ken", "VLLM_MARLIN_INPUT_DTYPE": None, "MODE": "x"}
    running = start(make_plan(env=env))
    file = paths.instances_home() / "cpu-fake.json"
    text = file.read_text(encoding="utf-8")
    assert "s3cret" not in text and "t0ken" not in text
    assert json.loads(text)["env"] == {
        "VLLM_API_KEY": "<redacted>",
        "HF_TOKEN": "<redacted>",
        "VLLM_MARLIN_INPUT_DTYPE": None,
        "MODE": "x",
    }
    for path in (file, Path(running.record.log)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(paths.instances_home().stat().st_mode) == 0o700
    stop(running)


def test_the_child_gets_the_plans_environment_and_none_removes_a_variable(
    make_plan: Plans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_MARLIN_INPUT_DTYPE", "int8")
    monkeypatch.setenv("KEPT", "yes")
    running = start(make_plan(env={"VLLM_MARLIN_INPUT_DTYPE": None, "VLLM_API_KEY": "s3cret"}))
    assert running.record.process is not None
    environment = Path(f"/proc/{running.record.process.pid}/environ").read_bytes().split(b"\0")
    assert b"VLLM_API_KEY=s3cret" in environment and b"KEPT=yes" in environment
    assert not any(entry.startswith(b"VLLM_MARLIN_INPUT_DTYPE") for entry in environment)
    stop(running)


def test_a_death_at_boot_is_noticed_at_once_with_code_and_last_lines(make_plan: Plans) -> None:
    running = start(make_plan("--die-at", "0.5", "--exit-code", "7", "--boot-seconds", "3600"))
    last = until_settled(running)
    assert last.life == "dead" and last.exit_code == 7
    print(f"found dead {last.seconds:.2f} s after its start")
    assert last.boot.first_exception == "ValueError: No available memory for the cache blocks."
    assert last.boot.current == "weights"
    assert "Engine core initialization failed" in last_lines(running.record.log, 1)[0]
    record = store.load("cpu-fake")
    assert record.ended_at is not None and record.exit_code == 7
    assert state_of(record) == "dead"


def test_a_death_after_ready_is_a_death_even_with_exit_code_zero(make_plan: Plans) -> None:
    running = start(make_plan())
    assert until_settled(running).life == "ready"
    assert running.record.process is not None
    os.kill(running.record.process.pid, signal.SIGTERM)  # which it ends by with exit code 0
    assert wait_for(lambda: probe(running) == "dead")
    assert store.load("cpu-fake").exit_code == 0


def test_a_flood_in_the_log_is_followed_in_bounded_steps(make_plan: Plans) -> None:
    running = start(make_plan("--flood-lines", "200000", "--boot-seconds", "0.2"))
    most = 0
    began = time.process_time()
    for progress in wait_ready(running, PATIENCE):
        most = max(most, sum(map(len, progress.lines)))
    assert progress.life == "ready"
    assert progress.boot.facts.vllm_version == "0.32.0"
    assert most < 4 << 20
    assert time.process_time() - began < 60
    assert Path(running.record.log).stat().st_size > 10 << 20
    stop(running)


def test_a_strangers_listener_on_the_port_is_not_taken_for_ready(make_plan: Plans, free_port: int) -> None:
    class Healthy(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    stranger = http.server.ThreadingHTTPServer(("127.0.0.1", free_port), Healthy)
    threading.Thread(target=stranger.serve_forever, daemon=True).start()
    try:
        running = start(make_plan("--no-listen"))
        last = until_settled(running, timeout=1.5)
        assert last.life == "starting" and last.timed_out
        assert process.owns_port(running.record, free_port) is False
        assert stop(running, grace_seconds=4).stopped
    finally:
        stranger.shutdown()
        stranger.server_close()


def test_its_own_listener_belongs_to_the_instance_and_an_unused_port_to_nobody(
    make_plan: Plans, free_port: int
) -> None:
    running = start(make_plan())
    until_settled(running)
    assert process.owns_port(running.record, free_port) is True
    stop(running)
    assert process.owns_port(running.record, free_port) is False


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("/nowhere/bin/vllm", "serve"), "No such file"),
        (("{tmp}", "serve"), "Permission denied"),
        (("{tmp}/text", "serve"), "Exec format error"),
    ],
)
def test_a_command_that_cannot_be_executed_is_one_sentence_and_leaves_nothing(
    make_plan: Plans, tmp_path: Path, argv: tuple[str, ...], words: str
) -> None:
    (tmp_path / "text").write_text("\x01 no program", encoding="utf-8")
    (tmp_path / "text").chmod(0o755)
    with pytest.raises(CockpitError, match=words) as caught:
        start(make_plan(argv=tuple(word.format(tmp=tmp_path) for word in argv)))
    assert caught.value.fix
    assert store.load_all() == ([], [])
    assert list(paths.logs_home().iterdir()) == []


def test_a_missing_folder_is_named(make_plan: Plans) -> None:
    with pytest.raises(CockpitError, match="/nowhere"):
        start(make_plan(cwd="/nowhere"))
    assert store.load_all() == ([], [])


def test_a_state_folder_that_cannot_be_written_is_one_sentence(
    make_plan: Plans, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.raises(CockpitError, match="cannot write"):
        start(make_plan())


def test_a_server_whose_record_vanishes_at_once_does_not_run_on(
    make_plan: Plans, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids: list[int] = []
    real = process.identity

    def stopped_by_another(pid: int, **options: bool) -> process.ProcessIdentity | None:
        pids.append(pid)
        store.remove(store.load("cpu-fake"))
        return real(pid, **options)

    monkeypatch.setattr(process, "identity", stopped_by_another)
    with pytest.raises(CockpitError, match="stopped while it started"):
        start(make_plan())
    monkeypatch.undo()
    assert pids and not Path(f"/proc/{pids[0]}").exists()


def test_the_second_server_of_a_slug_gets_a_number(make_plan: Plans, free_port: int) -> None:
    first = start(make_plan())
    second = start(make_plan("--no-listen"))
    assert (first.record.name, second.record.name) == ("cpu-fake", "cpu-fake-2")
    with pytest.raises(CockpitError, match="exists already"):
        start(make_plan(), name="cpu-fake")
    for running in (first, second):
        assert stop(running, grace_seconds=4).stopped


def test_the_second_boot_knows_what_the_first_one_took(make_plan: Plans) -> None:
    alike = {"engine_version": "0.32.0", "gpu_model": "CPU"}
    first = start(make_plan("--boot-seconds", "0.6", **alike))
    (*_, last) = wait_ready(first, PATIENCE)
    assert last.pace is None
    took = last.seconds
    stop(first)
    second = start(make_plan("--boot-seconds", "0.6", **alike))
    seen = list(wait_ready(second, PATIENCE))
    assert all(progress.pace is not None for progress in seen)
    assert seen[0].pace is not None and seen[0].pace.boots == 1
    assert seen[0].pace.expected_seconds == pytest.approx(took, abs=0.01)
    assert seen[0].pace.remaining_seconds <= took
    stop(second)
