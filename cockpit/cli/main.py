"""The command line: runs one verb or opens the screen, and turns every error into one sentence."""

from __future__ import annotations

import contextlib
import gc
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from typing import NoReturn

from cockpit import paths
from cockpit.cli.output import emit, flush, ready_streams, tell
from cockpit.errors import CockpitError

VERBS = (
    *("slugs", "best", "inspect", "kv", "doctor", "check", "plan"),
    *("serve", "ps", "top", "replay", "logs", "diagnose", "stop", "adopt", "forget"),
    *("engines", "demo"),
)
"""Modules of this package; each has add(subparsers), which names its run function."""


def _screen(rig: str | None = None) -> int:
    """Open the screen, for this machine or for one that a rig file describes."""
    # Until the first frame is drawn, see the app's on_mount: collecting while modules load costs a tenth of the way.
    gc.disable()
    from cockpit.terminal import require_terminal

    require_terminal()
    from cockpit.tui.app import run_app

    if rig is None:
        return run_app()
    from cockpit.rig.described import load_rig
    from cockpit.session import Session

    return run_app(Session(described_rig=load_rig(rig)))


def _internal_error(error: BaseException) -> int:
    """Keep the traceback in a file for a bug report, and say where."""
    from cockpit.redact import redact, secret_values

    note = ""
    with contextlib.suppress(OSError, CockpitError):
        file = paths.ensure_private(paths.state_home()) / f"crash-{time.strftime('%Y%m%d-%H%M%S')}.txt"
        text = redact("".join(traceback.format_exception(error)), secret_values())
        paths.write_atomic(file, text.encode("utf-8", errors="replace"))
        note = f" The details are in {file}; please report them."
    tell(f"cockpit: this is a bug in cockpit: {type(error).__name__}: {redact(str(error), secret_values())}.{note}")
    return 1


def _run(words: list[str]) -> int:
    """Parse and run one command; errors become one sentence and an exit code."""
    try:
        if not words:
            return _screen()  # before the parser and the verbs, whose modules the screen does not need
        from cockpit.cli.parser import build_parser

        arguments = build_parser(VERBS).parse_args(words)
        if arguments.verb is None:
            return _screen(arguments.screen_rig)
        if arguments.screen_rig is not None:
            raise CockpitError("--rig before a verb is for the screen", fix=f"Put it after {arguments.verb}.")
        return int(arguments.run(arguments))
    except CockpitError as error:
        if "--json" in words:
            with contextlib.suppress(BrokenPipeError, CockpitError):
                emit({"error": error.as_json()})
        tell(f"cockpit: {error.sentence()}")
        return error.exit_code
    except BrokenPipeError:
        # The reader went away (`| head`): not an error, and nothing more can be printed.
        return 0
    except Exception as error:  # noqa: BLE001 - the top-level guard: a bug never shows as a traceback
        if "--json" in words:
            from cockpit.redact import redact, secret_values

            detail = redact(str(error), secret_values())
            emit({"error": {"title": f"a bug in cockpit: {type(error).__name__}", "detail": detail, "fix": ""}})
        return _internal_error(error)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 fine, 1 failed, 2 wrong usage or refused."""
    try:
        return _run(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt:
        return 130
    finally:
        flush()  # argparse prints its help without doing so


def entry() -> NoReturn:
    """The console script."""
    ready_streams()
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        # A shell's background job ignores SIGINT, and so would the server that it starts: it could not be stopped
        # while it loads.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            signal.signal(signal.SIGHUP, lambda *_: sys.exit(129))
    sys.exit(main())
