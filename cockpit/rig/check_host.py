"""Checks of the doctor: compiler, memory, disk, folders, token and environment of the host."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

from cockpit import paths
from cockpit.hub import TOKEN_VARIABLES, token_file
from cockpit.rig.check_types import Check, Examined, Status
from cockpit.rig.facts import free_bytes
from cockpit.units import GIB, gib

SHARED_BYTES_A_RANK = GIB
"""Of /dev/shm for tensor parallel: NCCL's buffers and vLLM's message queues, with room to spare."""
MODEL_ROOM_BYTES = 20 * GIB
"""About a 27B model with 4-bit weights."""
ENGINE_ROOM_BYTES = 12 * GIB
"""About a CUDA build of vLLM with its torch; the CPU build takes 3.5 GB."""
OPEN_FILES = 65535
"""vLLM raises its own soft limit to this, as far as the hard limit lets it."""


def shared_memory(examined: Examined) -> Iterator[Check]:
    """/dev/shm, for as many ranks as there are GPUs."""
    total, free = examined.facts.shared_memory_total_bytes, examined.facts.shared_memory_free_bytes
    ranks = max(1, len(examined.rig.gpus))
    if total is None or free is None:
        yield Check(check="shared-memory", status="warn", message="/dev/shm cannot be read", fix="Mount it.")
        return
    message = f"/dev/shm has {gib(free)} of {gib(total)} GiB free"
    if free >= ranks * SHARED_BYTES_A_RANK:
        yield Check(check="shared-memory", status="ok", message=message)
    else:
        ranks_text = "one rank" if ranks == 1 else f"{ranks} ranks"
        yield Check(
            check="shared-memory",
            status="warn",
            message=f"{message}; {ranks_text} of tensor parallel want {gib(ranks * SHARED_BYTES_A_RANK, 0)} GiB",
            fix=SHARED_MEMORY_FIX,
        )


SHARED_MEMORY_FIX = (
    "Start the container with --ipc=host or a larger --shm-size, or remount /dev/shm with a larger size."
)
COMPILER_FIX = "Install gcc (Debian and Ubuntu: build-essential), or name a compiler in CC."


def compiler(examined: Examined) -> Iterator[Check]:
    """The C compiler."""
    compiler = examined.facts.compiler
    if compiler is not None:
        yield Check(check="compiler", status="ok", message=f"C compiler {compiler}")
    else:
        status: Status = "fail" if examined.rig.gpus else "warn"
        message = "no C compiler: Triton needs one on a GPU, torch.compile on the CPU"
        yield Check(check="compiler", status=status, message=message, fix=COMPILER_FIX)


def disk(examined: Examined) -> Iterator[Check]:
    """Room for models and for engines."""
    cache = examined.facts.model_cache
    places = (
        ("disk-models", cache, MODEL_ROOM_BYTES, "Free some, or set HF_HOME to a larger disk."),
        (
            "disk-engines",
            str(paths.engines_home()),
            ENGINE_ROOM_BYTES,
            "Free some, or set XDG_DATA_HOME to a larger disk.",
        ),
    )
    for check, place, wanted, fix in places:
        free = free_bytes(Path(place)) if place else None
        if free is None:
            yield Check(check=check, status="warn", message=f"the room for {place} is unknown", fix=fix)
        elif free < wanted:
            yield Check(check=check, status="warn", message=f"{gib(free)} GiB free for {place}", fix=fix)
        else:
            yield Check(check=check, status="ok", message=f"{gib(free, 0)} GiB free for {place}")


def homes(_: Examined) -> Iterator[Check]:
    """Whether the cockpit's own folders can be written to."""
    homes = {
        "config": (paths.config_home(), "XDG_CONFIG_HOME"),
        "data": (paths.data_home(), "XDG_DATA_HOME"),
        "state": (paths.state_home(), "XDG_STATE_HOME"),
        "cache": (paths.cache_home(), "XDG_CACHE_HOME"),
    }
    wrong = {name: home for name, (home, _) in homes.items() if not can_be_written(home)}
    if not wrong:
        yield Check(check="homes", status="ok", message="the config, data, state and cache homes can be written to")
    for name, home in wrong.items():
        yield Check(
            check="homes",
            status="fail",
            message=f"the {name} home {home} cannot be written to",
            fix=f"Make it writable, or set {homes[name][1]} to a folder that is.",
        )


def can_be_written(folder: Path) -> bool:
    """Whether a file could be made in ``folder``, or ``folder`` itself where it is not there yet."""
    for place in (folder, *folder.parents):
        try:
            if place.is_dir():
                return os.access(place, os.W_OK | os.X_OK)
            if place.exists() or place.is_symlink():
                return False
        except OSError:
            return False
    return False


def wsl(examined: Examined) -> Iterator[Check]:
    """What is different on WSL2; nothing elsewhere."""
    if not examined.rig.wsl:
        return
    if examined.facts.expandable_segments:
        yield Check(check="wsl", status="fail", message=SEGMENTS_ON_WSL, fix=SEGMENTS_FIX)
    else:
        message = "WSL2: no pinned memory, and vLLM sees about 1.3 GiB less of a GPU than nvidia-smi shows"
        yield Check(check="wsl", status="ok", message=message)


SEGMENTS_ON_WSL = "PyTorch's expandable segments are on, and they end the boot on WSL2"
SEGMENTS_FIX = "Take expandable_segments out of PYTORCH_ALLOC_CONF and PYTORCH_CUDA_ALLOC_CONF."


def token(examined: Examined) -> Iterator[Check]:
    """Whether there is a Hugging Face token, and that nobody else reads it."""
    source = examined.facts.token
    if source is None:
        fix = "For gated models run `hf auth login`, or export HF_TOKEN."
        yield Check(check="token", status="ok", message="no Hugging Face token: open models only", fix=fix)
    elif source not in TOKEN_VARIABLES and _others_may_read(token_file(examined.environ)):
        fix = f"Run `chmod 600 {source}`."
        yield Check(check="token", status="warn", message=f"other users may read the token in {source}", fix=fix)
    else:
        yield Check(check="token", status="ok", message=f"Hugging Face token in {source}")


def _others_may_read(file: Path) -> bool:
    """Whether more than its owner may read it."""
    try:
        return bool(file.stat().st_mode & 0o077)
    except OSError:
        return False


def environment(examined: Examined) -> Iterator[Check]:
    """Variables that servers would inherit."""
    names = examined.facts.inherited
    if not names:
        yield Check(check="environment", status="ok", message="no VLLM_ variable of this shell changes a plan")
        return
    yield Check(
        check="environment",
        status="warn",
        message=f"servers started from here inherit {', '.join(names)}",
        fix=INHERITED_FIX,
    )


INHERITED_FIX = "Unset them, or write them into the slug's env, where the plan shows them."


def open_files(_: Examined) -> Iterator[Check]:
    """The hard limit of open files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or hard >= OPEN_FILES:
        text = "unlimited" if hard == resource.RLIM_INFINITY else f"{hard:,}"
        yield Check(check="open-files", status="ok", message=f"open files: {soft:,}, and up to {text}")
        return
    yield Check(
        check="open-files",
        status="warn",
        message=f"at most {hard:,} open files a process; vLLM wants {OPEN_FILES:,}",
        fix="Raise the hard limit (`ulimit -Hn`, or LimitNOFILE of the service).",
    )
