"""The live screen beside vllmstat and nvitop, at one server that runs, all at the same time.

python tests/bench/cost.py --server http://127.0.0.1:8000

Needs the packages of the cockpit and of both peers on the path of this Python, and a GPU for nvitop. Each program
refreshes as often as it does by default.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from importlib.metadata import version
from urllib.parse import urlsplit

from homes import REPOSITORY
from measures import first_frame, rest_together
from terminal import Terminal

Env = dict[str, str]
Line = Callable[[str, str], None]
_FIRST_FRAME_RUNS = 4
_REST_SECONDS = 20.0
_NAMES = ("cockpit", "vllmstat", "nvitop")
_FIRST_TEXT = {"cockpit": "/ filter", "vllmstat": "╰", "nvitop": "NVITOP"}


def beside(url: str, env: Env, line: Line) -> None:
    """First frames one after another, then all at rest together; a peer that cannot run is said to.

    Raises SystemExit when the URL does not answer.
    """
    _adopt(url, env)
    line("GPUs", _gpus())
    fit = []
    for name in _NAMES:
        argv, its = _argv(name, url), _env(name, env)
        problem = _problem(name, argv, its)
        if problem is None:
            line(f"{_title(name)}, first frame", first_frame(argv, its, _FIRST_TEXT[name], _FIRST_FRAME_RUNS))
            fit.append(name)
        else:
            line(name, f"not measured: {problem}")
    with ExitStack() as stack:
        screens = [stack.enter_context(Terminal(_argv(name, url), _env(name, env))) for name in fit]
        for name, screen in zip(fit, screens, strict=True):
            screen.until(_FIRST_TEXT[name])
        _open_live(screens[0], url)
        for name, text in zip(fit, rest_together(screens, _REST_SECONDS), strict=True):
            line(f"{_title(name)}, at rest{', live' if name == 'cockpit' else ''}", text)


def _title(name: str) -> str:
    return name if name == "cockpit" else f"{name}=={version(name)}"


def _argv(name: str, url: str) -> tuple[str, ...]:
    return (sys.executable, "-m", name, *(("-u", url) if name == "vllmstat" else ()))


def _env(name: str, env: Env) -> Env:
    """The peers get the path that this process was given, without the cockpit's tree."""
    if name == "cockpit":
        return env
    parts = env.get("PYTHONPATH", "").split(os.pathsep)
    return {**env, "PYTHONPATH": os.pathsep.join(part for part in parts if part != str(REPOSITORY))}


def _adopt(url: str, env: Env) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cockpit", "adopt", url], env=env, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(done.stderr.strip())


def _problem(name: str, argv: Sequence[str], env: Env) -> str | None:
    """Why a peer cannot show its screen here; None when it can. The cockpit's own failure is none to report."""
    try:
        with Terminal(argv, env) as screen:
            screen.until(_FIRST_TEXT[name])
    except (EOFError, TimeoutError) as error:
        if name == "cockpit":
            raise
        return " ".join(str(error).split())[:200]
    return None


def _open_live(screen: Terminal, url: str) -> None:
    """The live screen of the adopted server, which comes first in the list."""
    screen.press("i")
    screen.until(f":{urlsplit(url).port or 80}")
    screen.press("\r")
    screen.until("KV pool")


def _gpus() -> str:
    """Names and driver by NVML."""
    try:
        import pynvml

        pynvml.nvmlInit()
        devices = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        names = ", ".join(pynvml.nvmlDeviceGetName(device) for device in devices)
        return f"{names}; driver {pynvml.nvmlSystemGetDriverVersion()}"
    except (ImportError, pynvml.NVMLError) as error:
        return f"none: {error}"
