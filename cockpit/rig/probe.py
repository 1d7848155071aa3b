"""Describe one vLLM through its own Python, and remember the answer until its files change."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from cockpit import paths
from cockpit.errors import CockpitError
from cockpit.rig.run import Outcome, run_bounded
from cockpit.rig.shebang import python_of
from cockpit.rig.stamps import Stamp, file_name, stamps_of, unchanged
from cockpit.rig.types import OverlayState

_SCRIPT = Path(__file__).with_name("probe_script.py")
_OVERLAYS = Path(__file__).parents[1] / "launch" / "overlays"
"""Data and one script of the launch layer, read and never imported here."""
_TIMEOUT_SECONDS = 20.0
_FORMAT = 7
_FIX = "Name a vllm command, or the virtual environment it is installed in."


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of probe_script.py; ``package`` is None when that Python has no vLLM."""

    format: int
    prefix: str
    package: str | None
    module_version: str | None = None
    distributions: dict[str, str] = {}
    wna16_bits: tuple[int, ...] | None = None
    wna16_zero_point_bits: tuple[int, ...] | None = None
    moe_packed_widths: tuple[int, ...] | None = None
    quantized_embedding: bool | None = None
    autoround_int8: bool | None = None
    models: tuple[str, ...] | None = None
    quantization_methods: tuple[str, ...] | None = None
    kv_cache_dtypes: tuple[str, ...] | None = None
    tool_parsers: tuple[str, ...] | None = None
    reasoning_parsers: tuple[str, ...] | None = None
    config_types: tuple[str, ...] | None = None
    tokenizers: tuple[str, ...] | None = None
    processors: tuple[str, ...] | None = None
    min_capabilities: dict[str, int] | None = None
    python_headers: bool | None = None
    overlays: dict[str, OverlayState] | None = None
    watch: tuple[str, ...] = ()
    """Files and folders whose change makes this answer stale."""


class Probed(msgspec.Struct, frozen=True, kw_only=True):
    """A probe with the Python that gave it."""

    python: str
    probe: Probe


class _Cached(msgspec.Struct, frozen=True, kw_only=True):
    """A remembered probe and the stamps (modification time in ns, size) of the files it rests on."""

    command: str
    python: str
    probe: Probe
    stamps: dict[str, Stamp]


def probe_command(command: Path) -> Probed:
    """Describe the vLLM behind the console script ``command``.

    A second look costs one small file and some stat calls. Raises CockpitError when it is not a vLLM.
    """
    remembered = _recall(command)
    if remembered is not None:
        return remembered
    python = _python(command)
    probe = _ask(command, python)
    probed = Probed(python=str(python), probe=probe)
    _remember(command, probed)
    return probed


def _python(command: Path) -> Path:
    """The interpreter of ``command``, or CockpitError."""
    try:
        python = python_of(command)
    except OSError as error:
        raise CockpitError(f"{command} cannot be read", error.strerror or str(error), _FIX) from error
    if python is None:
        raise CockpitError(f"{command} is not a vLLM command", "no Python to run it was found", _FIX)
    return python


def _ask(command: Path, python: Path) -> Probe:
    """Run the probe script under ``python``, or CockpitError."""
    argv = [str(python), "-I", str(_SCRIPT), str(_OVERLAYS)]
    try:
        outcome = run_bounded(argv, timeout_seconds=_TIMEOUT_SECONDS)
    except OSError as error:
        raise CockpitError(f"{python} cannot be run", error.strerror or str(error), _FIX) from error
    if outcome.problem or outcome.exit_code != 0:
        raise CockpitError(f"the Python of {command} does not work", _reason(python, outcome), _FIX)
    try:
        probe = msgspec.json.decode(outcome.stdout, type=Probe)
    except msgspec.MsgspecError as error:
        detail = f"{python} did not answer like a Python"
        raise CockpitError(f"{command} is not a vLLM command", detail, _FIX) from error
    if probe.package is None:
        raise CockpitError(f"{command} is not a vLLM command", f"{python} has no vllm package", _FIX)
    return probe


def _reason(python: Path, outcome: Outcome) -> str:
    """Why a probe failed, as one clause of plain text."""
    if outcome.problem:
        return f"{python}: {outcome.problem}"
    lines = [line.strip() for line in outcome.stderr.splitlines() if line.strip()]
    last = "".join(char if char.isprintable() else " " for char in lines[-1][:200]) if lines else "no message"
    return f"{python} ended with code {outcome.exit_code}: {last}"


def _cache_file(command: Path) -> Path:
    """Where the probe of ``command`` is remembered."""
    return paths.cache_home() / "engines" / file_name(str(command))


def _recall(command: Path) -> Probed | None:
    """The remembered probe of ``command`` if every file it rests on is as it was."""
    try:
        cached = msgspec.json.decode(_cache_file(command).read_bytes(), type=_Cached)
    except (OSError, msgspec.MsgspecError):
        return None
    if cached.command != str(command) or cached.probe.format != _FORMAT or cached.probe.package is None:
        return None
    return Probed(python=cached.python, probe=cached.probe) if unchanged(cached.stamps) else None


def _remember(command: Path, probed: Probed) -> None:
    """Write the cache; a home that cannot be written to only costs the next look its time.

    An answer without torch is that of an install in the making, or of one whose torch lies where nothing watches:
    it is asked again.
    """
    if "torch" not in probed.probe.distributions:
        return
    own = (
        _SCRIPT,
        _SCRIPT.with_name("probe_reading.py"),
        *_OVERLAYS.glob("*/*.json"),
        *_OVERLAYS.glob("common/*.py"),
    )
    watched = {str(command), probed.python, *map(str, own), *probed.probe.watch}
    cached = _Cached(
        command=str(command),
        python=probed.python,
        probe=probed.probe,
        stamps=stamps_of(watched),
    )
    with contextlib.suppress(OSError, CockpitError, UnicodeEncodeError):
        target = _cache_file(command)
        paths.ensure_private(target.parent)
        paths.write_atomic(target, msgspec.json.encode(cached))
