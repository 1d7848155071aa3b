"""Compare a packed embedding, read with the overlay, with the same one unpacked: docs/int8.md. Prints what was found.

python scripts/int8/embeddings.py FOLDER --python PYTHON [--text-only] [--stand-ins] [--stock]

PYTHON is the interpreter of a vLLM. On the CPU build --stand-ins is needed: torch computes what the embedding's
Triton kernel would, and an empty torchvision takes the place of one that is not installed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from variants import EMBEDDING, HERE, STOCK, run, said

STAND_INS = HERE / "stand_ins"
SWITCHED = "is built with its 8-bit weights"
MARKERS = 490
"""Ids from here on may stand for images."""


def has_torchvision(python: str) -> bool:
    """Whether that Python has a torchvision of its own."""
    code = "import importlib.util as u; raise SystemExit(u.find_spec('torchvision') is None)"
    return subprocess.run([python, "-c", code], check=False).returncode == 0


def stand_in(python: str) -> None:
    """Put the empty torchvision behind everything else, where there is none."""
    if not has_torchvision(python):
        before = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join([*([before] if before else []), str(STAND_INS)])


def compared(folder: Path, python: str) -> tuple[bool, str]:
    """Whether the logits are equal, and how much they differ."""
    argv = [python, str(HERE / "compare.py"), str(folder), "emb-plain", "emb-packed"]
    found = json.loads(subprocess.run(argv, stdout=subprocess.PIPE, check=True).stdout)["emb-packed"]
    equal = found["lost"] == 0 and found["max_difference"] == 0
    return equal, f"{found['positions']} positions, {found['lost']} lost, max difference {found['max_difference']}"


def main() -> int:
    """Exit 1 when a model does not load, the overlay does nothing, or the logits differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", required=True, help="the Python of a vLLM")
    parser.add_argument("--text-only", action="store_true", help="the class without vision")
    parser.add_argument("--stand-ins", action="store_true", help="for the CPU build")
    parser.add_argument("--stock", action="store_true", help="also show how the packed one ends without the overlay")
    words = parser.parse_args()
    folder = words.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if words.stand_ins:
        stand_in(words.python)
    make = folder / "make.log"
    if not run(words.python, "make_embeddings.py", [str(folder), *["--text-only"] * words.text_only], STOCK, make):
        print(make.read_text(encoding="utf-8")[-2000:], file=sys.stderr)
        return 1
    print(make.read_text(encoding="utf-8").splitlines()[-1])
    more = ["--prompts", "2", "--tokens", "64", "--below", str(MARKERS)]
    more += [*["--stand-ins"] * words.stand_ins, *["--no-images"] * (not words.text_only)]
    runs = {"emb-plain": ("emb-plain", STOCK), "emb-packed": ("emb-packed", EMBEDDING)}
    if words.stock:
        runs["emb-stock"] = ("emb-packed", STOCK)
    ended = {}
    for name, (model, variant) in runs.items():
        arguments = [str(folder / model), str(folder / f"{name}.pt"), *more]
        ended[name] = run(words.python, "logits.py", arguments, variant, folder / f"{name}.log")
    lines = said(folder / "emb-packed.log", "cockpit overlay ")
    print("\n".join(lines))
    if words.stock:
        print("\n".join(said(folder / "emb-stock.log", "ValueError: ")[-1:]))
    if not (ended["emb-plain"] and ended["emb-packed"] and any(SWITCHED in line for line in lines)):
        print("no comparison: see the logs")
        return 1
    equal, text = compared(folder, words.python)
    print(text)
    return int(not equal)


if __name__ == "__main__":
    sys.exit(main())
