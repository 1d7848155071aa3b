"""Write docs/reliability.md from the results of a run: ``reliability.py RESULTS.jsonl > docs/reliability.md``.

Each line of RESULTS is what tests/faults.py keeps of one fault: nothing in the table is written by hand.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from typing import Any

SUITES = {
    "process": "real processes, a fake vLLM",
    "tui": "under the open screen, a fake vLLM",
    "live": "a real vLLM",
}
TEXT = """# What was tried, and what survived

Every row is a fault that tests bring about, with what must hold afterwards. Besides that, each test asserts that
no process and no shared memory of the server is left, that its record is right or gone, and, where a screen is
involved, that it is alive. `scripts/reliability.py` made the figures from the results of one run; `make soak`
makes a long one, `make test` a short pass of the same.

Run on {date}, {cores} cores, Python {python}: {tried} tries of {faults} faults, {failed} failed.

{table}

## Limits, honestly

- A cockpit has no daemon. What happens while none looks is found out by the next one: how a server ended (its exit
  code is known only to the cockpit that started it), and that its log grew past its bound of 64 MiB.
- A log is bounded by whoever looks: its beginning stays, its middle moves to a second file. Lines written in the
  microseconds between the copy and the cut are lost.
- Shared memory that a killed server leaves is removed when a cockpit saw it mapped once, which it looks for during
  the boot and when the server gets ready. What nobody ever saw is nobody's, and stays.
- Orphans that are on no record are told by vLLM's process titles, their group, and that no Python program is above
  them. They are ended only on request, by pid and start time, never by name. Where init itself is a Python program
  none is told.
- A process stuck in the kernel, as by a GPU that fell off the bus, withstands SIGKILL: the stop says so and keeps
  the record.
- Two servers that bind one port before either listens are not kept from it by Linux, and the second never listens:
  `serve --wait` and the screen say so once it claims to be ready. A port is not given away while a vLLM that names it
  on its command line runs; one that only a `--config` file names is seen once it is bound.
- Ports and processes of other users are seen by root only; a server in a container shows without its address.
"""


def main() -> None:
    """Print the document."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "results", type=argparse.FileType(encoding="utf-8"), help="what tests/faults.py kept of a run"
    )
    results: list[dict[str, Any]] = [json.loads(line) for line in parser.parse_args().results]
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for result in results:
        if result["outcome"] != "skipped":
            groups.setdefault((result["suite"], result["fault"], result["then"]), []).append(result)
    tried = sum(len(group) for group in groups.values())
    failed = sum(result["outcome"] != "passed" for group in groups.values() for result in group)
    print(
        TEXT.format(
            date=time.strftime("%Y-%m-%d"),
            cores=len(os.sched_getaffinity(0)),
            python=platform.python_version(),
            tried=tried,
            faults=len(groups),
            failed=failed,
            table=table(groups),
        ).rstrip()
    )


def table(groups: dict[tuple[str, str, str], list[dict[str, Any]]]) -> str:
    """One row a fault."""
    rows = [
        "| fault | cases | what must hold | tried on | survived | slowest |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for suite, where in SUITES.items():
        for (of, fault, then), group in groups.items():
            if of == suite:
                cases = ", ".join(dict.fromkeys(result["case"] for result in group if result["case"])) or "–"
                passed = sum(result["outcome"] == "passed" for result in group)
                slowest = max(result["seconds"] for result in group)
                rows.append(f"| {fault} | {cases} | {then} | {where} | {passed} of {len(group)} | {slowest:.1f} s |")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
