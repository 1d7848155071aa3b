"""Figures of a run, printed as they come and written as docs/cost.md."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import psutil

_FACTS = """# What the screen costs

Made by `{command}`.

The real screen in a pseudo-terminal of 120x35, looked at from outside. Shares of CPU are of one core. The clock
depends on what else the machine does, so the least of several runs stands beside the median; CPU seconds depend on
that less. Memory is the resident set, shared libraries included. {server}

Machine: {machine}. Python {python}, Textual {textual}. Load average at the start {load}.

"""


def machine() -> str:
    """Processor, cores, memory, kernel."""
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    memory = psutil.virtual_memory().total / (1 << 30)
    return f"{model}, {os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()} {platform.release()}"


_PRETENDS = "A server of the benchmark only looks like one: it gives a\nrecorded /metrics page and writes a log."
_RUNS = "The server is one that runs; all programs look at it at the same time."


class Report:
    """Rows in the order in which they were measured."""

    def __init__(self) -> None:
        self._rows: list[tuple[str, str, str]] = []
        self._load = os.getloadavg()[0]

    def line(self, name: str, text: str, budget: str = "") -> None:
        """One figure."""
        self._rows.append((name, text, budget))
        print(f"{name:<52} {text}" + (f"   (budget {budget})" if budget else ""), flush=True)

    def write(self, file: Path, words: Sequence[str]) -> None:
        """The table as a document; ``words`` are the command line that made it."""
        facts = _FACTS.format(
            command=" ".join(("python tests/bench/cost.py", *words)),
            server=_RUNS if "--server" in words else _PRETENDS,
            machine=machine(),
            python=platform.python_version(),
            textual=version("textual"),
            load=f"{self._load:.1f}, {time.strftime('%Y-%m-%d')}",
        )
        table = "".join(f"| {name} | {text} | {budget} |\n" for name, text, budget in self._rows)
        file.write_text(f"{facts}| what | measured | budget |\n|---|---|---|\n{table}", encoding="utf-8")
