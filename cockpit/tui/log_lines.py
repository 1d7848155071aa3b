"""The lines of the log panel: those of answered requests are counted and kept apart until they are asked for."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from cockpit.supervisor.access_lines import is_access
from cockpit.tui.content import Row, fit
from cockpit.tui.present_boot import short_log_line


class LogLines:
    """The last ``most`` lines of all, and the last ``most`` that are no access lines; shortened for the panel."""

    def __init__(self, most: int) -> None:
        self._all: deque[str] = deque(maxlen=most)
        self._useful: deque[str] = deque(maxlen=most)
        self.access_count = 0
        """Access lines so far."""
        self.shows_access = False

    def add(self, lines: Iterable[str]) -> list[str]:
        """Take new lines in; those of them that are to be shown."""
        most = self._all.maxlen or 0
        every: list[str] = []
        useful: list[str] = []
        for line in reversed(list(lines)):
            access = is_access(line)
            self.access_count += access
            if len(every) < most or (not access and len(useful) < most):
                short = short_log_line(line)
                every.append(short)
                if not access:
                    useful.append(short)
        every, useful = every[:most][::-1], useful[:most][::-1]
        self._useful.extend(useful)
        self._all.extend(every)
        return every if self.shows_access else useful

    def toggle(self) -> list[str]:
        """Show access lines too, or no more; all lines that are to be shown now."""
        self.shows_access = not self.shows_access
        return list(self._all if self.shows_access else self._useful)

    def title(self, key: str, width: int, has_log: bool = True, wrapping: tuple[str, str] | None = None) -> Row:
        """``── log · w wraps long lines · 1,234 access lines hidden, a shows them ───``.

        ``key`` is the one that shows them, ``wrapping`` another key and what it does to long lines.
        """
        row: Row = [("── log ", "title")] if has_log else [("── no log: no cockpit started this server ", "dim")]
        if wrapping is not None:
            row += [("· ", "dim"), (wrapping[0], "key"), (f" {wrapping[1]} long lines ", "dim")]
        if self.access_count:
            what = f"{self.access_count:,} access line{'' if self.access_count == 1 else 's'}"
            row.append((f"· {what} {'shown' if self.shows_access else 'hidden'}, ", "dim"))
            row += [(key, "key"), (f" {'hides' if self.shows_access else 'shows'} them ", "dim")]
        used = sum(len(text) for text, _ in row)
        return fit([*row, ("─" * max(0, width - used), "dim")], width)
