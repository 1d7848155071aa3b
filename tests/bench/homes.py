"""Homes of the cockpit that a benchmark may fill: slugs by the thousand, servers that only pretend to be vLLM."""

from __future__ import annotations

import compileall
import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cockpit.launch.types import LaunchPlan
from cockpit.supervisor import store
from cockpit.supervisor.boot_watch import wait_ready
from cockpit.supervisor.spawn import attach, start
from cockpit.supervisor.stop import stop

_HERE = Path(__file__).parent
REPOSITORY = _HERE.parent.parent
PAGE = _HERE.parent / "fixtures" / "metrics" / "cpu-0.32-tiny.txt"
SLUG = """name: bench/model-{n}
model: Bench {n}
weights: {{repo: bench/model-{n}, format: auto-round, bits: 4, size_gib: 16.8, moe: false}}
tensor_parallel: 2
max_model_len: 131072
"""


@contextmanager
def homes(folder: Path) -> Iterator[dict[str, str]]:
    """An environment with homes below ``folder``, in force for this process too."""
    names = ("CONFIG", "STATE", "CACHE")
    env = {
        **os.environ,
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPATH": os.pathsep.join((str(REPOSITORY), *_python_path())),
        **{f"XDG_{name}_HOME": str(folder / name.lower()) for name in names},
    }
    before = dict(os.environ)
    os.environ.update(env)
    try:
        yield env
    finally:
        for record in store.load_all()[0]:
            stop(attach(record))
        os.environ.clear()
        os.environ.update(before)


def _python_path() -> list[str]:
    """Where else this process finds its packages."""
    parts = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return [part for part in parts if part and Path(part).resolve() != REPOSITORY]


def compile_all() -> None:
    """Bytecode of the cockpit, as an installation has it: a first frame is measured warm."""
    compileall.compile_dir(REPOSITORY / "cockpit", quiet=2)


def write_slugs(env: dict[str, str], count: int) -> None:
    """So many slugs of one kind in the user's folder."""
    folder = Path(env["XDG_CONFIG_HOME"]) / "cockpit" / "slugs"
    folder.mkdir(parents=True)
    for number in range(count):
        (folder / f"model-{number}.yaml").write_text(SLUG.format(n=number), encoding="utf-8")


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def serve(*options: str, slug: str) -> str:
    """Start a server that only looks like one, on record, and wait until it is ready; the instance's name."""
    port = _free_port()
    plan = LaunchPlan(
        slug=slug,
        model="fake",
        served_model_name="fake",
        argv=(sys.executable, str(_HERE / "page_server.py"), "--port", str(port), "--page", str(PAGE), *options),
        env={},
        cwd="/",
        host="127.0.0.1",
        port=port,
        gpus=(),
        platform="cpu",
        engine="fake",
        values={"int8": "off"},
        findings=(),
    )
    running = start(plan)
    *_, last = wait_ready(running, 20.0)
    if last.life != "ready":
        raise RuntimeError(f"{slug} is {last.life} after {time.time() - running.record.created_at:.0f} s")
    return running.record.name
