"""Gathers the facts of this host that decide whether a server boots."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from cockpit.hub import cached_repos, hub_cache, is_offline, token_source
from cockpit.rig.toolkit import cuda_toolkit, kernel_caches, scratch_folder
from cockpit.rig.types import HostFacts

SHARED_MEMORY = Path("/dev/shm")
_HARMLESS = {
    "VLLM_API_KEY",
    "VLLM_ASSETS_CACHE",
    "VLLM_CACHE_ROOT",
    "VLLM_CONFIGURE_LOGGING",
    "VLLM_CONFIG_ROOT",
    "VLLM_DISABLE_LOG_LOGO",
    "VLLM_DO_NOT_TRACK",
    "VLLM_LOGGING_COLOR",
    "VLLM_LOGGING_LEVEL",
    "VLLM_NO_USAGE_STATS",
    "VLLM_USAGE_SOURCE",
}
"""Variables that change what is logged, stored or asked for, and nothing that a plan says."""
_ALLOCATORS = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
_NAME = re.compile(r"VLLM_[A-Za-z0-9_]+")


def read_facts(environ: Mapping[str, str]) -> HostFacts:
    """The facts as they are now, for a server that would inherit ``environ``; some ten file-system calls."""
    shared_total, shared_free = file_system(SHARED_MEMORY)
    cache = hub_cache(environ)
    return HostFacts(
        shared_memory_total_bytes=shared_total,
        shared_memory_free_bytes=shared_free,
        compiler=find_compiler(environ),
        inherited=inherited_variables(environ),
        expandable_segments=any(asks_for_segments(environ.get(name, "")) for name in _ALLOCATORS),
        token=token_source(environ),
        offline=is_offline(environ),
        model_cache=str(cache),
        model_cache_free_bytes=free_bytes(cache),
        cuda_toolkit=cuda_toolkit(environ),
        cache_rooms={str(place): free for place in kernel_caches(environ) if (free := free_bytes(place)) is not None},
        cached_repos=cached_repos(cache),
        unwritable=tuple(str(place) for place in (cache, *kernel_caches(environ)) if not is_writable(place)),
        socket_folder=environ.get("VLLM_RPC_BASE_PATH") or str(scratch_folder(environ)),
        amx=has_amx(),
    )


def has_amx(processors: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether Linux names AMX tiles among the processor's flags; they are those of the first one."""
    try:
        with processors.open(encoding="utf-8", errors="replace") as lines:
            flags = next((line for line in lines if line.startswith("flags")), "")
    except OSError:
        return False
    return "amx_tile" in flags.split()


def find_compiler(environ: Mapping[str, str]) -> str | None:
    """The C compiler as Triton looks for it: CC, then gcc, then clang in PATH; None when there is none."""
    named = environ.get("CC")
    path = environ.get("PATH")
    if named:
        # CC may hold arguments; Triton takes it as one program, so that only the whole of it counts.
        return shutil.which(named, path=path)
    return shutil.which("gcc", path=path) or shutil.which("clang", path=path)


def inherited_variables(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the VLLM_ variables that would change a plan, sorted."""
    return tuple(sorted(name for name in environ if _NAME.fullmatch(name) and name not in _HARMLESS))


def asks_for_segments(text: str) -> bool:
    """Whether a value of PyTorch's allocator variable turns expandable segments on."""
    pairs = (part.partition(":") for part in text.split(","))
    return any(key.strip() == "expandable_segments" and value.strip().lower() == "true" for key, _, value in pairs)


def file_system(place: Path) -> tuple[int | None, int | None]:
    """Size and free bytes of the file system that ``place`` is on; None twice when it is not there."""
    try:
        status = os.statvfs(place)
    except (OSError, ValueError):
        return None, None
    return status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize


def is_writable(folder: Path) -> bool:
    """Whether this user can write into the folder, or make it where it is not there yet."""
    try:
        nearest = next((place for place in (folder, *folder.parents) if place.exists()), None)
        return nearest is not None and nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)
    except OSError:
        return False


def free_bytes(folder: Path) -> int | None:
    """Free bytes where ``folder`` is, or will be once it is made."""
    rooms = (file_system(place)[1] for place in (folder, *folder.parents))
    return next((size for size in rooms if size is not None), None)
