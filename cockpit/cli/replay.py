"""`cockpit replay FILE`: a tape on the screen, as text, or as JSON."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from cockpit.cli.options import verb
from cockpit.errors import CockpitError

if TYPE_CHECKING:
    from cockpit.tape import Replay


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = verb(verbs, "replay", "show a tape that `top --record` wrote", run)
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--speed", type=float, default=1.0, metavar="X", help="2 shows it in half the time")
    parser.add_argument("--text", action="store_true", help="no screen, also in a terminal")


def run(arguments: argparse.Namespace) -> int:
    """The screen in a terminal, else one block of figures after another; --json gives all frames at once."""
    from cockpit.tape import Replay, read_tape

    if not 0.01 <= arguments.speed <= 1000:
        raise CockpitError("--speed is out of range", fix="Use 0.01 to 1000; 1 is as it was.")
    tape = read_tape(Path(arguments.file))
    if tape.is_cut:
        from cockpit.cli.output import tell

        tell(f"· {arguments.file} ends in the middle: these are its first {tape.seconds:.0f} s, the rest is lost.")
    if arguments.json:
        from cockpit.cli.output import emit
        from cockpit.telemetry.sampler import frame_to_json

        frames = [frame_to_json(seen.frame) for seen in tape.observations]
        name = tape.observations[0].record.name
        emit({"instance": name, "recorded_at": tape.header.recorded_at, "frames": frames, "is_cut": tape.is_cut})
        return 0
    replay = Replay(tape, arguments.speed)
    from cockpit.terminal import is_terminal, require_terminal

    if is_terminal() and not arguments.text:
        require_terminal()
        from cockpit.tui.app import run_app

        return run_app(replay=replay)
    return _as_text(replay, 1.0 / arguments.speed)


def _as_text(replay: Replay, pause_seconds: float) -> int:
    from cockpit.cli.figures_text import say_block

    while True:
        say_block(replay.tick().frame)
        if replay.at_end:
            return 0
        time.sleep(pause_seconds)
