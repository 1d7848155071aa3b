"""Look at servers of known truth with `cockpit top` and write what was shown into docs/telemetry.md.

    python scripts/telemetry_table.py [--check]

Takes about a minute. Exit code 1 when any figure is wrong.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "fakes"))

from truth_check import NO_ANSWER, WINDOW_SECONDS, Figure, Shown, figures, show_all  # noqa: E402 - the line above finds it
from truth_modes import MODES  # noqa: E402

BEGIN, END = "<!-- begin of the table -->", "<!-- end of the table -->"


def text_of(value: float | None) -> str:
    """A figure in four digits; – is unknown."""
    return "–" if value is None else f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def difference(figure: Figure) -> str:
    """Shown less truth in percent of the truth."""
    if not figure.truth or figure.shown is None:
        return "–" if figure.truth is None and figure.shown is None else "0"
    return f"{(figure.shown - figure.truth) / figure.truth * 100:+.2f} %"


def section(shown: Shown) -> list[str]:
    """One mode: its figures, or the sentence that it ends in, and its notes."""
    lines = [f"### {shown.mode}", ""]
    if shown.mode in NO_ANSWER:
        return [*lines, f"Exit code {shown.code}: {shown.error.strip().splitlines()[0]}", ""]
    lines += ["| figure | truth | shown | difference |", "|---|--:|--:|--:|"]
    for one in figures(shown):
        wrong = "" if one.is_right else " **wrong**"
        lines.append(f"| {one.name} | {text_of(one.truth)} | {text_of(one.shown)} | {difference(one)}{wrong} |")
    return [*lines, "", *(f"- {note}" for note in shown.frame["notes"]), ""]


def main() -> int:
    """Run, write, and say how many figures are right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing")
    arguments = parser.parse_args()
    shown = show_all(list(MODES))
    found = [one for mode in MODES if mode not in NO_ANSWER for one in figures(shown[mode])]
    wrong = [one for one in found if not one.is_right]
    silent = [mode for mode, words in NO_ANSWER.items() if words not in shown[mode].error]
    if not arguments.check:
        page = ROOT / "docs" / "telemetry.md"
        before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
        head = f"{len(found)} figures in {len(MODES)} modes, windows of {WINDOW_SECONDS:g} s; {len(wrong)} wrong.\n"
        body = "\n".join(line for mode in MODES for line in section(shown[mode]))
        page.write_text(f"{before}{BEGIN}\n\n{head}\n{body}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    print(f"{len(found)} figures, {len(wrong)} wrong; {len(NO_ANSWER)} failures, {len(silent)} unsaid")
    return 1 if wrong or silent else 0


if __name__ == "__main__":
    sys.exit(main())
