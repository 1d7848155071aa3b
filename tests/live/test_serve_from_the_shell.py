"""One real server, from `cockpit serve` to `cockpit stop`; the tests share it and run in this order."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from .conftest import CAPACITY_TOKENS, SLUG, Family, cockpit, own_rows, serving
from .mixed_load import MixedLoad, Tokens

pytestmark = pytest.mark.live
NAME = "cpu-tiny-qwen3"
_WINDOWS_SECONDS = (30, 90, 300)
"""The first is long enough on a machine that has nothing else to do."""


@pytest.fixture(scope="module")
def served(home: Path) -> dict[str, Any]:
    """What `cockpit serve --wait --json` said of the server that this module shares."""
    answer = cockpit("serve", SLUG, "--wait", "--json")
    assert answer.code == 0, answer.err
    said: dict[str, Any] = answer.json
    return said


@pytest.fixture(scope="module")
def family(served: dict[str, Any]) -> Family:
    """Its processes and shared memory while it runs."""
    return Family(served["pid"])


def test_serve_waits_until_it_is_ready_and_knows_the_capacity(served: dict[str, Any], home: Path) -> None:
    assert (served["instance"], served["state"], served["exit_code"]) == (NAME, "ready", None)
    assert served["kv"] == {"capacity_tokens": CAPACITY_TOKENS, "max_concurrency": 1024.0}
    assert 0 < served["boot_seconds"] < 1200
    stages = {stage["id"]: stage["seconds"] for stage in served["stages"]}
    order = list(stages)
    assert (order[0], order[-1]) == ("environment", "ready")
    assert sum(seconds or 0 for seconds in stages.values()) == pytest.approx(served["boot_seconds"], abs=5)
    assert len(serving(model_path(served), home)) >= 1


def model_path(served: dict[str, Any]) -> str:
    command = psutil.Process(served["pid"]).cmdline()
    return command[command.index("serve") + 1]


def test_ps_lists_it_as_ready(served: dict[str, Any]) -> None:
    (row,) = own_rows()
    assert (row["instance"], row["slug"], row["state"]) == (NAME, SLUG, "ready")
    assert (row["pid"], row["url"]) == (served["pid"], served["url"])
    assert "ready" in cockpit("ps").out


def test_logs_end_with_the_complete_start(served: dict[str, Any]) -> None:
    answer = cockpit("logs", NAME)
    assert answer.code == 0
    assert "Application startup complete" in answer.out and "\x1b" not in answer.out


def test_top_agrees_with_the_clients_own_count_under_a_mixed_load(served: dict[str, Any]) -> None:
    """All requests begin and end inside the window, so that both sides count the same tokens."""
    began = time.monotonic()
    truth, frame = next(seen for seconds in _WINDOWS_SECONDS if (seen := window_of_load(served, seconds)))
    rates, window = frame["throughput"], frame["window_seconds"]
    assert truth.requests > 20 and truth.computed > 10_000 and truth.cached > 5_000
    assert _WINDOWS_SECONDS[0] <= window <= time.monotonic() - began
    assert rates["prefill_tokens_per_second"] * window == pytest.approx(truth.computed, rel=0.02)
    assert rates["cached_prefill_tokens_per_second"] * window == pytest.approx(truth.cached, rel=0.02)
    assert rates["decode_tokens_per_second"] * window == pytest.approx(truth.generated, rel=0.02)
    hits = truth.cached / (truth.computed + truth.cached)
    assert frame["prefix_cache"]["hit_fraction_window"] == pytest.approx(hits, rel=0.02)
    assert rates["prefill_basis"] == "by_source" and not rates["prefill_is_estimate"]
    assert frame["kv"]["capacity_tokens"] == CAPACITY_TOKENS
    assert frame["latency"]["ttft_seconds"]["mean"] > 0
    assert frame["host"]["instance_bytes"] > 2**28


def window_of_load(served: dict[str, Any], seconds: int) -> tuple[Tokens, dict[str, Any]] | None:
    """What a client and `cockpit top` count in one window; None when it was over before the last request was."""
    load = MixedLoad(served["url"], "tiny-qwen3", name=f"{seconds} s")
    looks = looks_at_metrics(served)
    words = [sys.executable, "-m", "cockpit", "top", NAME, "--once", "--json", "--seconds", str(seconds)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as top:
        assert wait_for(lambda: looks_at_metrics(served) > looks)
        load.start()
        time.sleep(0.7 * seconds)
        truth = load.finish()
        is_inside = top.poll() is None and looks_at_metrics(served) == looks + 1
        frame = json.loads(top.communicate()[0])
    return (truth, frame) if is_inside else None


def looks_at_metrics(served: dict[str, Any]) -> int:
    """How often anybody has read the server's /metrics, by its own log."""
    return Path(served["log"]).read_text(encoding="utf-8", errors="replace").count('"GET /metrics')


def wait_for(condition: Callable[[], bool], seconds: float = 240.0) -> bool:
    limit = time.monotonic() + seconds
    while not condition() and time.monotonic() < limit:
        time.sleep(0.02)
    return condition()


class Terminal:
    """A cockpit in a real pseudo-terminal of 120x35."""

    def __init__(self) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 35, 120, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "cockpit"],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm-256color"},
        )
        os.close(slave)
        self.text = ""

    def read_until(self, *words: str, seconds: float = 240.0) -> None:
        """Read what it draws until every word came."""
        limit = time.monotonic() + seconds
        while not all(word in self.text for word in words):
            assert time.monotonic() < limit, f"{words} not in {self.text[-3000:]!r}"
            if select.select([self._master], [], [], 0.2)[0]:
                drawn = os.read(self._master, 1 << 16).decode(errors="replace")
                self.text += re.sub(r"\x1b\[[0-9;?<>=]*[a-zA-Z]", "", drawn)

    def press(self, keys: str) -> None:
        """Type, forgetting what was drawn before."""
        self.text = ""
        os.write(self._master, keys.encode())

    def close(self) -> None:
        """Let go of the terminal."""
        os.close(self._master)


@pytest.fixture
def terminal(served: dict[str, Any]) -> Iterator[Terminal]:
    terminal = Terminal()
    yield terminal
    if terminal.process.poll() is None:
        terminal.process.kill()
        terminal.process.wait()
    terminal.close()


def test_killing_a_cockpit_on_the_live_screen_leaves_the_server(
    served: dict[str, Any], family: Family, terminal: Terminal
) -> None:
    terminal.read_until("ready", SLUG)
    terminal.press("\r")
    terminal.read_until("KV pool", "2,097,152", "decode")
    terminal.process.kill()
    assert terminal.process.wait(240) == -9
    with urllib.request.urlopen(f"{served['url']}/health", timeout=240) as response:
        assert response.status == 200
    (row,) = own_rows()
    assert (row["state"], row["pid"]) == ("ready", served["pid"])
    assert all(process.is_running() for process in family.processes)


def test_a_terminated_cockpit_gives_the_terminal_back_and_leaves_the_server(
    served: dict[str, Any], terminal: Terminal
) -> None:
    terminal.read_until("ready", SLUG)
    terminal.text = ""
    terminal.process.terminate()
    terminal.read_until("Still running: cpu-tiny-qwen3")
    assert terminal.process.wait(240) == 0
    (row,) = own_rows()
    assert row["state"] == "ready"


def test_stop_leaves_nothing(served: dict[str, Any], family: Family, home: Path) -> None:
    model = model_path(served)
    assert len(family.processes) >= 2 and family.left() != []
    answer = cockpit("stop", NAME, "--json")
    assert answer.code == 0, answer.err
    said = answer.json
    assert (said["instance"], said["stopped"], said["orphans"]) == (NAME, True, [])
    assert said["seconds"] < 240
    assert family.left() == []
    assert serving(model, home) == []
    assert own_rows() == []
    gone = cockpit("top", NAME, "--once", "--json")
    assert gone.code == 2 and "no instance is called" in gone.err
