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


def install(folder: Path) -> str | None:
    """Install the peers below ``folder``; why not, if not."""
    try:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True, capture_output=True)
        pip = [folder / "bin" / "pip", "install", "--quiet", VLLMSTAT, NVITOP]
        subprocess.run(pip, check=True, capture_output=True, text=True, timeout=300)
    except (OSError, subprocess.SubprocessError) as error:
        return f"not measured: they cannot be installed here ({type(error).__name__})"
    return None


def environment() -> dict[str, str]:
    """This one, without what makes Python read the cockpit's modules."""
    return {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
    }


def measure(argv: Sequence[str], first_text: str, runs: int = 8) -> list[tuple[str, str]]:
    """First frame, and cost at rest."""
    first = first_frame(argv, environment(), first_text, runs)
    with Terminal(argv, environment()) as screen:
        screen.until(first_text)
        return [("first frame", first), ("at rest", rest(screen))]


def nvitop_problem(folder: Path) -> str | None:
    """Why nvitop cannot run here; None when it can."""
    done = subprocess.run([folder / "bin" / "nvitop", "-1"], capture_output=True, text=True, timeout=60, check=False)
    return (
        None if done.returncode == 0 else "not measured: it needs an NVIDIA driver, which this machine does not have"
    )
