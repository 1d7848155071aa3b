"""Measure what int8 activations change: the numerics of docs/int8.md. Prints the table.

python scripts/int8/numerics.py FOLDER --python PYTHON [--tiny]

PYTHON is the interpreter of a vLLM. FOLDER gets two small models, the logits and a log a variant. Every variant runs
in a process of its own, one after the other. ``--tiny`` rehearses on the CPU build, where no layer is switched.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from variants import CLAMPED, DROPPED, HERE, INT8, STOCK, run, said


class Variant(NamedTuple):
    """One row of the table."""

    name: str
    model: str
    environment: dict[str, str]
    words: tuple[str, ...] = ()


REFERENCES = (Variant("pos-w4a16", "pos", STOCK), Variant("neg-w4a16", "neg", STOCK))
CONTROL = "pos-int8"
EXACT = "neg-int8-exact"
VARIANTS = (
    Variant(CONTROL, "pos", INT8),
    Variant(EXACT, "neg", INT8),
    Variant("neg-int8-clamped", "neg", CLAMPED),
    Variant("neg-int8-no-fold", "neg", INT8, ("--no-fold",)),
    Variant("neg-dropped", "neg", DROPPED),
)
WANTED = 1.1


def measured(folder: Path, python: str, words: Sequence[str]) -> set[str]:
    """Run every variant; the names of those whose logits are there."""
    done = set()
    for variant in (*REFERENCES, *VARIANTS):
        target = folder / f"{variant.name}.pt"
        target.unlink(missing_ok=True)
        log = folder / f"{variant.name}.log"
        arguments = [str(folder / variant.model), str(target), *words, *variant.words]
        if run(python, "logits.py", arguments, variant.environment, log):
            done.add(variant.name)
        for line in said(log, "cockpit overlay "):
            print(f"  {line}")
    return done


def compared(folder: Path, python: str, done: set[str]) -> dict[str, Any]:
    """Figures by variant, each against the W4A16 logits of its own model."""
    figures: dict[str, Any] = {}
    for reference in REFERENCES:
        names = [one.name for one in VARIANTS if one.model == reference.model and one.name in done]
        if reference.name in done and names:
            argv = [python, str(HERE / "compare.py"), str(folder), reference.name, *names]
            figures |= json.loads(subprocess.run(argv, stdout=subprocess.PIPE, check=True).stdout)
    return figures


def rows(figures: dict[str, Any]) -> list[str]:
    """The table; a ratio only where the control has a divergence."""
    control = figures.get(CONTROL, {}).get("kld")
    lines = ["variant             Top-1     mean KLD    to the control   lost"]
    for variant in VARIANTS:
        found = figures.get(variant.name)
        if found is None:
            lines.append(f"{variant.name:18s}  no logits: see {variant.name}.log")
            continue
        kld = found["kld"]
        ratio = f"{kld / control:.3f}" if control and kld is not None else "–"
        shown = "–" if kld is None else f"{kld:.6f}"
        lines.append(f"{variant.name:18s}  {found['top1']:.4f}  {shown:>11s}  {ratio:>15s}  {found['lost']:>5d}")
    return lines


def verdict(figures: dict[str, Any]) -> tuple[int, str]:
    """Exit status and sentence: whether the exact fold costs nothing beyond int8 activations themselves."""
    exact, control = (figures.get(name, {}).get("kld") for name in (EXACT, CONTROL))
    if exact is None or control is None:
        return 1, "the exact fold or its control has no figures"
    if control == 0:
        return 0, "the control does not differ from W4A16: nothing was switched here, only the way there was tried"
    ratio = exact / control
    return int(ratio > WANTED), f"exact fold / control: {ratio:.3f} (wanted: at most {WANTED})"


def main() -> int:
    """Exit 1 when a variant failed or the exact fold costs more than wanted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", required=True, help="the Python of a vLLM")
    parser.add_argument("--tiny", action="store_true", help="2 small layers and 128 positions")
    words = parser.parse_args()
    folder = words.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if not run(
        words.python, "make_models.py", [str(folder), *(["--tiny"] if words.tiny else [])], STOCK, folder / "make.log"
    ):
        print((folder / "make.log").read_text(encoding="utf-8")[-2000:], file=sys.stderr)
        return 1
    print((folder / "make.log").read_text(encoding="utf-8").splitlines()[-1])
    done = measured(folder, words.python, ["--prompts", "2", "--tokens", "64"] if words.tiny else [])
    figures = compared(folder, words.python, done)
    print("\n".join(rows(figures)))
    failed = len(done) < len(REFERENCES) + len(VARIANTS)
    status, sentence = verdict(figures)
    print(sentence)
    return int(failed or bool(status))


if __name__ == "__main__":
    sys.exit(main())
