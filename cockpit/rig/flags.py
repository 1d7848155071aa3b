"""The `vllm serve` flags of an installed vLLM, as it prints them itself, remembered until it changes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from cockpit import paths
from cockpit.errors import CockpitError, FailedError
from cockpit.rig.help_text import Flag, read_help
from cockpit.rig.run import Outcome, run_bounded
from cockpit.rig.stamps import Stamp, file_name, stamps_of, unchanged
from cockpit.rig.types import Engine

_TIMEOUT_SECONDS = 120.0
"""It imports torch: some 15 s on two cores, far more from a cold disk."""
_LIMIT_BYTES = 8 << 20
_FORMAT = 1
_SOURCES = ("_version.py", "engine/arg_utils.py", "entrypoints/cli/serve.py", "utils/argparse_utils.py")
"""Files of the package whose change makes the flags stale."""


class EngineFlags(msgspec.Struct, frozen=True, kw_only=True):
    """What one vLLM takes on its command line."""

    version: str
    flags: dict[str, Flag]
    """Every spelling with its dashes → the option."""


class _Cached(msgspec.Struct, frozen=True, kw_only=True):
    """Remembered flags and the stamps of what they rest on."""

    format: int
    path: str
    flags: EngineFlags
    stamps: dict[str, Stamp]


def cached_flags(engine: Engine) -> EngineFlags | None:
    """The remembered flags of this engine; None when they were never asked for, or it changed since."""
    try:
        cached = msgspec.json.decode(_cache_file(engine).read_bytes(), type=_Cached)
    except (OSError, msgspec.MsgspecError):
        return None
    known = (cached.format, cached.path, cached.flags.version) == (_FORMAT, engine.path, engine.version)
    return cached.flags if known and unchanged(cached.stamps) else None


def engine_flags(engine: Engine) -> EngineFlags:
    """The flags of this engine, remembered or from its own ``serve --help=all``, which takes 10 s or more.

    Raises FailedError when it does not answer.
    """
    remembered = cached_flags(engine)
    if remembered is not None:
        return remembered
    found = EngineFlags(version=engine.version, flags=_ask(engine))
    _remember(engine, found)
    return found


def _ask(engine: Engine) -> dict[str, Flag]:
    """Run the engine's help and read it."""
    argv = [engine.path, "serve", "--help=all"]
    try:
        outcome = run_bounded(
            argv, timeout_seconds=_TIMEOUT_SECONDS, limit_bytes=_LIMIT_BYTES, env=_quiet(os.environ)
        )
    except OSError as error:
        raise FailedError(
            f"{engine.path} cannot be run", error.strerror or str(error), "Is it executable?"
        ) from error
    flags = read_help(outcome.stdout) if outcome.exit_code == 0 and not outcome.problem else {}
    if not flags:
        raise FailedError(
            f"{engine.id} does not say which flags it takes",
            _reason(outcome),
            f"Run `{engine.path} serve --help=all` to see what is wrong with it.",
        )
    return flags


def _quiet(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of the question: offline, wide lines, and no VLLM_ variable, of which a bad one kills it."""
    kept = {name: text for name, text in environ.items() if not name.startswith("VLLM_") and name != "FORCE_COLOR"}
    return {
        **kept,
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "NO_COLOR": "1",
        "COLUMNS": "400",
    }


def _reason(outcome: Outcome) -> str:
    """Why there are no flags, as one clause."""
    if outcome.problem:
        return outcome.problem
    if outcome.exit_code == 0:
        return "its help shows no option"
    lines = [line.strip() for line in outcome.stderr.splitlines() if line.strip()]
    last = "".join(char if char.isprintable() else " " for char in lines[-1][:200]) if lines else "no message"
    return f"it ended with code {outcome.exit_code}: {last}"


def _cache_file(engine: Engine) -> Path:
    """Where the flags of ``engine`` are remembered."""
    return paths.cache_home() / "flags" / file_name(engine.path)


def _remember(engine: Engine, flags: EngineFlags) -> None:
    """Write the cache; a home that cannot be written to only costs the next look its time."""
    package = Path(engine.package)
    watched = {engine.path, engine.python, str(package), str(package.parent)}
    watched.update(str(package / source) for source in _SOURCES)
    cached = _Cached(format=_FORMAT, path=engine.path, flags=flags, stamps=stamps_of(watched))
    with contextlib.suppress(OSError, CockpitError, UnicodeEncodeError):
        target = _cache_file(engine)
        paths.ensure_private(target.parent)
        paths.write_atomic(target, msgspec.json.encode(cached))
