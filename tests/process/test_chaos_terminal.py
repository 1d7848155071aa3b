"""A terminal that goes away: the cockpit ends with it, the server does not."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable

import msgspec
import pytest

from cockpit.launch.types import LaunchPlan
from cockpit.supervisor import process, store
from cockpit.supervisor.ready import state_of
from cockpit.supervisor.spawn import start
from cockpit.supervisor.stop import stop

from .conftest import PATIENCE, until_settled, wait_for

Plans = Callable[..., LaunchPlan]
SERVE = (
    "import sys, msgspec\nfrom cockpit.launch.types import LaunchPlan\n"
    "from cockpit.supervisor import boot_watch, spawn\n"
    "running = spawn.start(msgspec.json.decode(sys.argv[1], type=LaunchPlan))\n"
    "for seen in boot_watch.wait_ready(running, 600): print('seen', flush=True)\n"
)


class Terminal:
    """A command whose controlling terminal is a pty of 120x35."""

    def __init__(self, *words: str) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 35, 120, 0, 0))
        env = {**os.environ, "TERM": "xterm-256color"}
        # `setsid --ctty` makes the pty the controlling terminal, so that its end is a hangup.
        self.process = subprocess.Popen(
            ["setsid", "--ctty", "--wait", *words], stdin=slave, stdout=slave, stderr=slave, env=env
        )
        os.close(slave)
        self.text = ""

    def read_until(self, word: str, seconds: float = PATIENCE) -> None:
        limit = time.monotonic() + seconds
        while word not in self.text:
            assert time.monotonic() < limit, self.text[-2000:]
            if select.select([self.master], [], [], 0.2)[0]:
                self.text += os.read(self.master, 1 << 16).decode(errors="replace")

    def hang_up(self) -> None:
        """What a closed window does."""
        os.close(self.master)


@pytest.mark.fault(
    "the terminal of a cockpit is closed (SIGHUP)", "the cockpit ends, the server goes on, the next adopts it"
)
@pytest.mark.parametrize("what", ["the screen", "a verb that waits"])
def test_the_terminal_hangs_up(make_plan: Plans, what: str) -> None:
    if what == "the screen":
        running = start(make_plan("--fork-children", "1"))
        assert until_settled(running).life == "ready"
        terminal = Terminal(sys.executable, "-m", "cockpit")
        terminal.read_until("1 serving")
    else:
        plan = msgspec.json.encode(make_plan("--fork-children", "1", "--boot-seconds", "3600")).decode()
        terminal = Terminal(sys.executable, "-c", SERVE, plan)
        terminal.read_until("seen")
    terminal.hang_up()
    try:
        assert terminal.process.wait(PATIENCE) is not None
    finally:
        if terminal.process.poll() is None:
            terminal.process.kill()
            terminal.process.wait()
    record = store.load("cpu-fake")
    assert record.process is not None and process.is_alive(record.process)
    assert state_of(record) == ("ready" if what == "the screen" else "starting")
    assert wait_for(lambda: len(process.members_of(record)) == 3)
    family = process.members_of(record)
    assert stop(record, grace_seconds=4).stopped
    assert not any(process.is_alive(who) for who in family) and store.load_all() == ([], [])


@pytest.mark.fault("SIGTERM and SIGKILL of a screen that nobody reads", "the screen ends, the server goes on")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
def test_the_screen_is_ended(make_plan: Plans, number: signal.Signals) -> None:
    running = start(make_plan("--fork-children", "1"))
    assert until_settled(running).life == "ready"
    terminal = Terminal(sys.executable, "-m", "cockpit")
    terminal.read_until("1 serving")
    child = process.identity(terminal.process.pid)
    assert child is not None and process.send_signal(child, number)
    assert wait_for(lambda: not process.is_alive(child))
    terminal.process.wait(PATIENCE)
    terminal.hang_up()
    assert state_of(store.load("cpu-fake")) == "ready"
    assert stop(running).stopped
