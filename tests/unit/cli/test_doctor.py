"""`cockpit doctor` on this machine, whatever it has."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_done import Cockpit

import cockpit.cli.main as main_module
from cockpit.rig import leftovers


@pytest.fixture(autouse=True)
def doctor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The verb on the command line, and a Hugging Face home of this test alone."""
    monkeypatch.setattr(main_module, "VERBS", tuple(dict.fromkeys((*main_module.VERBS, "doctor"))))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    for variable in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_HUB_CACHE", "CC"):
        monkeypatch.delenv(variable, raising=False)


def test_one_line_a_check_and_the_same_as_json(cockpit: Cockpit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "find_leftovers", tuple)  # tests that run beside this one orphan some between both
    shown = cockpit("doctor")
    done = cockpit("doctor", "--json")
    assert [set(check) for check in done.json] == [{"check", "status", "message", "fix"}] * len(done.json)
    lines = shown.out.splitlines()
    assert len(lines) == len(done.json)
    for line, check in zip(lines, done.json, strict=True):
        assert line.startswith({"ok": "✓", "warn": "⚠", "fail": "✕"}[check["status"]] + f" {check['check']}: ")
    failed = any(check["status"] == "fail" for check in done.json)
    assert done.code == shown.code == (1 if failed else 0)
    names = {check["check"] for check in done.json}
    assert {"driver", "compiler", "shared-memory", "disk-models", "homes", "token", "environment"} <= names


def test_it_fails_when_a_home_cannot_be_written(cockpit: Cockpit, homes: Path) -> None:
    homes.mkdir()
    (homes / "state").write_text("a file where a folder should be")
    done = cockpit("doctor", "--json")
    assert done.code == 1
    assert "homes" in [check["check"] for check in done.json if check["status"] == "fail"]


def test_secrets_are_never_shown(cockpit: Cockpit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_verysecret")
    monkeypatch.setenv("VLLM_API_KEY", "verysecret-key")
    monkeypatch.setenv("VLLM_SPECIAL_TOKEN", "verysecret-too")
    done = cockpit("doctor")
    assert "verysecret" not in done.out + done.err
    assert "VLLM_SPECIAL_TOKEN" in done.out and "HF_TOKEN" in done.out


@pytest.fixture
def orphan() -> Iterator[int]:
    """A process titled like an engine, with no Python above it."""
    title = "import ctypes, os, time; ctypes.CDLL(None).prctl(15, b'VLLM::EngineCore', 0, 0, 0)"
    code = f"{title}; print(os.getpid(), flush=True); time.sleep(60)"
    with subprocess.Popen(
        ["/bin/sh", "-c", '"$0" -c "$1" & exec sleep 60', sys.executable, code],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as shell:
        assert shell.stdout is not None
        yield int(shell.stdout.readline())

        os.killpg(shell.pid, signal.SIGKILL)


def test_a_leftover_is_named_with_its_pid(cockpit: Cockpit, orphan: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers.find_settled_leftovers, "__defaults__", (0.2,))
    done = cockpit("doctor", "--json")
    (line,) = [check for check in done.json if f"pid {orphan}" in check["message"]]
    assert (line["check"], line["status"]) == ("leftovers", "warn")
    assert f"kill {orphan}" in line["fix"]


def test_an_engine_in_path_is_listed(cockpit: Cockpit, cpu_engine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{cpu_engine.parent}:/usr/bin:/bin")
    assert "✓ engines: path: vLLM 0.32.0 for cpu." in cockpit("doctor").out
