"""The environments that docs/int8.md compares, and a vLLM or a script of this folder run in one of them.

Standard library only: the drivers run under any Python 3.11, the scripts that need torch under vLLM's own.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
OVERLAYS = HERE.parents[1] / "cockpit" / "launch" / "overlays"
STOCK: dict[str, str] = {}
DROPPED = {"VLLM_MARLIN_INPUT_DTYPE": "int8"}
"""The variable alone, which stock vLLM up to 0.33 does not hand on."""
INT8 = {**DROPPED, "PYTHONPATH": f"{OVERLAYS / 'autoround_int8'}:{OVERLAYS / 'common'}"}
CLAMPED = {**INT8, "COCKPIT_INT8_FOLD": "clamp"}
EMBEDDING = {
    "COCKPIT_QUANTIZED_EMBEDDING": "1",
    "PYTHONPATH": f"{OVERLAYS / 'quantized_embedding'}:{OVERLAYS / 'common'}",
}
COMMON = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_DISABLED_KERNELS": "MacheteLinearKernel",  # on Hopper it would be taken instead of Marlin
}


def environment(variant: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment with a variant in front of it; what the caller has in PYTHONPATH stays behind."""
    merged = {**COMMON, **os.environ, **variant}
    for name in (*DROPPED, *EMBEDDING, "COCKPIT_INT8_FOLD"):
        if name not in variant and name != "PYTHONPATH":
            merged.pop(name, None)
    paths = [path for path in (variant.get("PYTHONPATH"), os.environ.get("PYTHONPATH")) if path]
    return merged | ({"PYTHONPATH": os.pathsep.join(paths)} if paths else {})


def run(python: str, script: str, words: Sequence[str], variant: Mapping[str, str], log: Path) -> bool:
    """Run a script of this folder under vLLM's Python, its output in ``log``; whether it ended well."""
    began = time.monotonic()
    with log.open("wb") as stream:
        done = subprocess.run(
            [python, str(HERE / script), *words],
            env=environment(variant),
            stdout=stream,
            stderr=subprocess.STDOUT,
            check=False,
        )
    print(f"{log.stem}: exit {done.returncode} after {time.monotonic() - began:.0f} s", flush=True)
    return done.returncode == 0


def said(log: Path, *marks: str) -> list[str]:
    """The lines of a log that hold one of the marks, from the mark on."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return [line[line.index(mark) :] for line in lines for mark in marks if mark in line]
