"""Whether the screen can be opened here."""

from __future__ import annotations

import os
import sys

from cockpit.errors import CockpitError

MIN_COLUMNS = 80
MIN_ROWS = 24


def is_terminal() -> bool:
    """Whether a person sits at both ends."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def fits_screen() -> bool:
    """Whether the screen can be opened here."""
    try:
        require_terminal()
    except CockpitError:
        return False
    return True


def require_terminal() -> None:
    """Raise CockpitError unless there is a terminal of at least 80x24."""
    if not is_terminal():
        raise CockpitError(
            "the screen needs a terminal",
            fix="Use a verb instead, such as `cockpit slugs` or `cockpit ps`; `cockpit --help` lists them.",
        )
    columns, rows = os.get_terminal_size(sys.stdout.fileno())
    # 0x0 is what a terminal says that does not know its size.
    if (columns, rows) != (0, 0) and (columns < MIN_COLUMNS or rows < MIN_ROWS):
        raise CockpitError(
            f"the terminal has {columns}x{rows} cells, the screen needs {MIN_COLUMNS}x{MIN_ROWS}",
            fix="Enlarge the window or use a smaller font; the verbs (`cockpit --help`) work at any size.",
        )
    if not sys.stderr.isatty():  # where Textual draws (LinuxDriver)
        raise CockpitError(
            "the screen is drawn on stderr, and stderr leads elsewhere",
            fix="Leave out the redirection (2>…).",
        )
