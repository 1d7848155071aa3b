"""Where the screen can be opened, in a terminal that is really one."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import termios

ASK = "import cockpit.terminal as t, sys; sys.stdout.write(str(t.fits_screen())); t.require_terminal()"


def asked(error_to_terminal: bool) -> tuple[int, str]:
    """Exit status of a process that needs the screen, and what it wrote to a stderr that leads elsewhere."""
    near, far = pty.openpty()
    try:
        termios.tcsetwinsize(far, (24, 80))
        stderr = far if error_to_terminal else subprocess.PIPE
        done = subprocess.run(
            [sys.executable, "-c", ASK], stdin=far, stdout=far, stderr=stderr, text=True, timeout=600, check=False
        )
        assert os.read(near, 100).decode() == str(error_to_terminal)
        return done.returncode, done.stderr or ""
    finally:
        os.close(near)
        os.close(far)


def test_a_terminal_of_80x24_opens_it() -> None:
    assert asked(error_to_terminal=True) == (0, "")


def test_a_stderr_that_leads_elsewhere_is_refused_and_draws_nothing_into_a_file() -> None:
    status, said = asked(error_to_terminal=False)
    assert status == 1 and "stderr leads elsewhere" in said
