"""Other monitors, measured as the cockpit is: installed into an environment that is thrown away."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from measures import first_frame, rest
from terminal import Terminal

VLLMSTAT, NVITOP = "vllmstat==0.9.1", "nvitop==1.7.2"
_SIMULATED_DRIVER = Path(__file__).parent / "simulated_driver"
"""It answers what a benchmark of the cockpit asks and no more, so that nvitop has less to show than on a machine."""


def install(folder: Path) -> str | None:
    """Install the peers below ``folder``; why not, if not."""
    try:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True, capture_output=True)
        pip = [folder / "bin" / "pip", "install", "--quiet", VLLMSTAT, NVITOP]
        subprocess.run(pip, check=True, capture_output=True, text=True, timeout=300)
    except (OSError, subprocess.SubprocessError) as error:
        return f"not measured: they cannot be installed here ({type(error).__name__})"
    return None


def environment(first_on_path: Path | None = None) -> dict[str, str]:
    """This one, without what makes Python read the cockpit's modules."""
    kept = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
    }
    return kept if first_on_path is None else {**kept, "PYTHONPATH": str(first_on_path)}


def measure(argv: Sequence[str], first_text: str, env: dict[str, str], runs: int = 8) -> list[tuple[str, str]]:
    """First frame, and cost at rest."""
    first = first_frame(argv, env, first_text, runs)
    with Terminal(argv, env) as screen:
        screen.until(first_text)
        return [("first frame", first), ("at rest", rest(screen))]


def nvitop(folder: Path) -> tuple[str, dict[str, str]] | str:
    """Its name and environment: with this machine's driver, else with one that is simulated; or why it cannot run."""
    said = ""
    for name, env in ((NVITOP, environment()), (f"{NVITOP}, 8 simulated GPUs", environment(_SIMULATED_DRIVER))):
        done = subprocess.run(
            [folder / "bin" / "nvitop", "-1"], env=env, capture_output=True, text=True, timeout=60, check=False
        )
        if done.returncode == 0:
            return name, env
        said = said or " ".join(done.stderr.split())[:100]
    return f"not measured: it cannot run here ({said})"
