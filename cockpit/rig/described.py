"""A rig that is not here, described in a file: plans for two cards can be made on a laptop."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from cockpit.errors import CockpitError
from cockpit.nearest import did_you_mean
from cockpit.rig.types import Gpu, Rig
from cockpit.strict_yaml import decode, read_text
from cockpit.units import GIB

_PACKAGED = Path(__file__).with_name("rigs")
_MAX_GPUS = 64
_FIX = "Correct that line and run the command again."

Gibibytes = Annotated[float, Meta(ge=0.1, le=65536)]


class DescribedGpu(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Some cards of one kind."""

    name: Annotated[str, Meta(pattern=r"^[^\n\t]{1,80}$")]
    """As NVML gives it, e.g. ``NVIDIA GeForce RTX 3090``."""
    count: Annotated[int, Meta(ge=1, le=_MAX_GPUS)] = 1
    memory_gib: Gibibytes
    """Each, as nvidia-smi counts: MiB / 1024."""
    usable_memory_gib: Gibibytes | None = None
    """What CUDA sees of it; unknown when absent."""
    used_gib: Annotated[float, Meta(ge=0, le=65536)] = 0.0
    """In use by others already, each."""
    capability: Annotated[str, Meta(pattern=r"^[1-9][0-9]?\.[0-9]$")]
    """Compute capability in quotes, e.g. "8.6"."""


class DescribedRig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The file that `--rig` takes."""

    gpus: Annotated[list[DescribedGpu], Meta(max_length=_MAX_GPUS)] = []
    driver: Annotated[str, Meta(pattern=r"^[0-9]{1,5}(\.[0-9]{1,5}){0,3}$")] | None = None
    """Its version in quotes, e.g. "580.95.05"."""
    host_memory_gib: Gibibytes
    cpu_count: Annotated[int, Meta(ge=1, le=4096)]
    wsl: bool = False


def packaged_rigs() -> list[str]:
    """Names of the rigs that come with the program."""
    return sorted(file.stem for file in _PACKAGED.glob("*.yaml"))


def load_rig(text: str) -> Rig:
    """The rig of that packaged name, or of that file.

    Raises CockpitError for what is neither, and with file and line for a file that is not exactly right.
    """
    packaged = text in packaged_rigs()
    file = _PACKAGED / f"{text}.yaml" if packaged else _file(text)
    if file is None:
        raise _unknown(text)
    try:
        content = read_text(file)
    except FileNotFoundError as error:
        raise _unknown(text) from error
    return _rig(content, str(file), text if packaged else file.name)


def _file(text: str) -> Path | None:
    """The file that the user named; None when nothing like a file goes by that name."""
    try:
        file = Path(text).expanduser() if text.startswith("~/") else Path(text)
        return file if file.exists() and not file.is_dir() else None
    except (OSError, RuntimeError, ValueError):
        return None


def _unknown(text: str) -> CockpitError:
    hint = did_you_mean(text, packaged_rigs(), "")
    return CockpitError(
        f"there is no rig {text[:80]!r}",
        f"known rigs: {', '.join(packaged_rigs())}",
        f"{hint} The path of a file that describes one may be given as well.".lstrip(),
    )


def _rig(content: str, origin: str, name: str) -> Rig:
    """The rig that the text of a file describes."""
    described, lines = decode(content, DescribedRig, origin)
    gpus: list[Gpu] = []
    for at, kind in enumerate(described.gpus):
        for key in ("usable_memory_gib", "used_gib"):
            if (getattr(kind, key) or 0) > kind.memory_gib:
                line = lines.get(("gpus", at, key), 1)
                raise CockpitError(f"{origin}, line {line}: gpus.{at}.{key}: more than memory_gib", fix=_FIX)
        if len(gpus) + kind.count > _MAX_GPUS:
            line = lines.get(("gpus", at), 1)
            raise CockpitError(f"{origin}, line {line}: more than {_MAX_GPUS} GPUs", fix=_FIX)
        gpus += [_gpu(kind, len(gpus) + number) for number in range(kind.count)]
    memory = round(described.host_memory_gib * GIB)
    return Rig(
        gpus=tuple(gpus),
        gpu_problem=None if gpus else f"the rig {name} has no GPU.",
        driver=described.driver,
        memory_total_bytes=memory,
        memory_available_bytes=memory,
        cpu_count=described.cpu_count,
        wsl=described.wsl,
        described=name,
    )


def _gpu(kind: DescribedGpu, index: int) -> Gpu:
    """One card of a kind."""
    major, minor = kind.capability.split(".")
    usable = kind.usable_memory_gib
    return Gpu(
        index=index,
        uuid=f"described-{index}",
        name=kind.name,
        total_bytes=round(kind.memory_gib * GIB),
        usable_bytes=None if usable is None else round(usable * GIB),
        used_bytes=round(kind.used_gib * GIB),
        capability=(int(major), int(minor)),
    )
