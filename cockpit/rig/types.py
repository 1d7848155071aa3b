"""Frozen descriptions of the machine and of the vLLM engines on it."""

from __future__ import annotations

from typing import Literal

import msgspec


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU as NVML sees it; None is unknown."""

    index: int
    uuid: str
    name: str
    total_bytes: int | None = None
    used_bytes: int | None = None
    capability: tuple[int, int] | None = None


class Rig(msgspec.Struct, frozen=True, kw_only=True):
    """The machine."""

    gpus: tuple[Gpu, ...] = ()
    gpu_problem: str | None = None
    """Why no GPU can be read, as one sentence; None when NVML works."""
    driver: str | None = None
    memory_total_bytes: int = 0
    memory_available_bytes: int = 0
    cpu_count: int = 1
    wsl: bool = False


class Engine(msgspec.Struct, frozen=True, kw_only=True):
    """One vLLM that can be started, described without importing it."""

    id: str
    """Short and unique, e.g. ``cpu-0.32.0`` (managed) or ``path`` or ``/opt/vllm``."""
    path: str
    """The ``vllm`` command."""
    python: str
    package: str
    """Folder of the ``vllm`` package."""
    version: str
    """Without the local part, e.g. ``0.33.0``."""
    platform: Literal["cuda", "cpu", "rocm", "xpu", "tpu", "unknown"]
    torch: str | None = None
    wna16_bits: tuple[int, ...] | None = None
    """Widths of WNA16_SUPPORTED_TYPES_MAP; None where it cannot be read."""
    wna16_zero_point_bits: tuple[int, ...] | None = None
    humming: str | None = None
    """Version of humming-kernels."""
    source: Literal["managed", "config", "path"] = "path"


class EngineProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A place where an engine was expected and none can be used."""

    path: str
    title: str
    fix: str
