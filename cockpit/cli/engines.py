"""`cockpit engines`: the vLLMs found here; install and remove managed ones."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from cockpit.cli.options import verb
from cockpit.cli.output import emit, say, table, tell
from cockpit.units import UNKNOWN

if TYPE_CHECKING:
    from cockpit.rig.types import Engine


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = verb(verbs, "engines", "list the vLLM installs; install or remove one", run)
    parser.add_argument("action", nargs="?", choices=["install", "remove"], help="what to do; without it, list")
    parser.add_argument("what", nargs="?", metavar="cpu|VERSION|ID", help="cpu or a vLLM version; an id to remove")


def engine_json(engine: Engine) -> dict[str, Any]:
    """One row of `cockpit engines`."""
    return {
        "id": engine.id,
        "path": engine.path,
        "version": engine.version,
        "platform": engine.platform,
        "torch": engine.torch,
        "wna16_bits": engine.wna16_bits,
        "wna16_zero_point_bits": engine.wna16_zero_point_bits,
        "humming": engine.humming,
        "quantized_embedding": engine.quantized_embedding,
        "autoround_int8": engine.autoround_int8,
        "moe_packed_widths": engine.moe_packed_widths,
        "kv_cache_dtypes": engine.kv_cache_dtypes,
        "min_capabilities": engine.min_capabilities,
        "source": engine.source,
        "overlays": {name: overlay.state for name, overlay in engine.overlays.items()},
        "overlay_reasons": {name: overlay.reason for name, overlay in engine.overlays.items()},
    }


def run(arguments: argparse.Namespace) -> int:
    """List, install or remove."""
    from cockpit.errors import CockpitError

    if arguments.action is None:
        return _list(arguments.json)
    if arguments.what is None:
        what = (
            "cpu or a vLLM version such as 0.33.0" if arguments.action == "install" else "an id of `cockpit engines`"
        )
        raise CockpitError(f"engines {arguments.action} needs a name", fix=f"Give {what}.")
    return _install(arguments) if arguments.action == "install" else _remove(arguments)


def _list(as_json: bool) -> int:
    from cockpit.session import Session

    session = Session()
    for problem in session.engine_problems:
        tell(f"⚠ {problem.title}. {problem.fix}")
    if as_json:
        emit([engine_json(engine) for engine in session.engines])
        return 0
    if not session.engines:
        say("No vLLM was found. `cockpit engines install cpu` makes one that needs no GPU.")
        return 0
    rows = [
        [
            engine.id,
            engine.version,
            engine.platform,
            engine.torch or UNKNOWN,
            engine.humming or UNKNOWN,
            ",".join(map(str, engine.wna16_bits)) if engine.wna16_bits else UNKNOWN,
            engine.path,
        ]
        for engine in session.engines
    ]
    table(["ID", "VLLM", "PLATFORM", "TORCH", "HUMMING", "WNA16 BITS", "PATH"], rows, spare=(5, 4, 3), cut=6)
    return 0


def _install(arguments: argparse.Namespace) -> int:
    from cockpit.supervisor.install import install

    engine = install(arguments.what, progress)
    if arguments.json:
        emit(engine_json(engine))
    else:
        say(f"{engine.id} is ready: vLLM {engine.version} {engine.platform} at {engine.path}")
    return 0


def progress(title: str, detail: str) -> None:
    """One line a step on stderr."""
    tell(f"  {title}: {detail}" if detail else f"  {title}")


def _remove(arguments: argparse.Namespace) -> int:
    from cockpit.supervisor.install import remove

    remove(arguments.what)
    if arguments.json:
        emit({"id": arguments.what, "removed": True})
    else:
        say(f"{arguments.what} is gone")
    return 0
