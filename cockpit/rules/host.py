"""Findings about the host that a plan would run on: memory, compiler, driver, WSL, environment, download, flags.

A described rig is another host than this one: then only what its file says counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from cockpit.nearest import did_you_mean
from cockpit.rig.check_gpus import driver_is_too_old
from cockpit.rig.check_host import (
    COMPILER_FIX,
    INHERITED_FIX,
    SEGMENTS_FIX,
    SEGMENTS_ON_WSL,
    SHARED_BYTES_A_RANK,
    SHARED_MEMORY_FIX,
)
from cockpit.rig.facts import asks_for_segments
from cockpit.rig.flag_words import refused_values, unknown_flags
from cockpit.rig.flags import EngineFlags
from cockpit.rig.types import HostFacts
from cockpit.rules.context import Context
from cockpit.rules.finding import Finding
from cockpit.rules.int8 import SWITCH
from cockpit.units import gib

_SOCKET_FOLDER_BYTES = 107 - 37
_MOVES = {
    "HF_HOME",
    "HF_HUB_CACHE",
    "HOME",
    "HUGGINGFACE_HUB_CACHE",
    "TMPDIR",
    "TRITON_CACHE_DIR",
    "VLLM_CACHE_ROOT",
    "XDG_CACHE_HOME",
}
"""Variables of a slug that put caches elsewhere: the facts are those of the cockpit's own environment."""
_QUEUE_BYTES = 256 << 20
"""A message queue of vLLM between the ranks takes 160 to 240 MiB of shared memory (seen on vLLM 0.32)."""


def _host(ctx: Context) -> HostFacts | None:
    """The facts of this host, when the plan is for it."""
    return ctx.host if ctx.rig.described is None else None


def _shared_memory(ctx: Context) -> Iterator[Finding]:
    host, ranks = _host(ctx), ctx.values.get("tensor_parallel") or 1
    free = host.shared_memory_free_bytes if host else None
    if free is None or ranks < 2 or free >= ranks * SHARED_BYTES_A_RANK:
        return
    yield Finding(
        rule="shared-memory",
        severity="block" if free < _QUEUE_BYTES else "warn",
        subject="host",
        message=f"/dev/shm has {gib(free, 2)} GiB free, and {ranks} ranks of tensor parallel want "
        f"{gib(ranks * SHARED_BYTES_A_RANK, 0)} GiB of it",
        fix=SHARED_MEMORY_FIX,
        level="rig",
    )


def _compiler(ctx: Context) -> Iterator[Finding]:
    host, on_gpu = _host(ctx), ctx.slug.platform != "cpu"
    if host is None or host.compiler is not None:
        return
    if on_gpu:
        message = "there is no C compiler, and Triton compiles for the GPU at the first start"
    elif ctx.values.get("enforce_eager") != "on":
        message = "there is no C compiler, and torch.compile needs one on the CPU"
    else:
        return
    yield Finding(
        rule="compiler-missing", severity="block", subject="host", message=message, fix=COMPILER_FIX, level="rig"
    )


def _headers(ctx: Context) -> Iterator[Finding]:
    if _host(ctx) is None or ctx.engine is None or ctx.slug.platform == "cpu":
        return
    if ctx.engine.python_headers is False:
        yield Finding(
            rule="python-headers",
            severity="warn",
            subject="engine",
            message=f"the Python of {ctx.engine.id} has no Python.h, which Triton compiles against",
            fix="Install the headers of that Python, e.g. python3-dev.",
            level="rig",
        )


def _driver(ctx: Context) -> Iterator[Finding]:
    engine, cuda = ctx.engine, ctx.rig.driver_cuda
    if engine is None or ctx.slug.platform == "cpu" or not driver_is_too_old(engine, ctx.rig):
        return
    assert engine.cuda is not None and cuda is not None
    yield Finding(
        rule="driver-cuda",
        severity="block",
        subject="engine",
        message=f"{engine.id} needs CUDA {engine.cuda[0]}, and the driver runs CUDA up to {cuda[0]}.{cuda[1]}",
        fix="Update NVIDIA's driver, or choose an older vLLM with --engine.",
        level="rig",
    )


def _wsl(ctx: Context) -> Iterator[Finding]:
    if not ctx.rig.wsl or ctx.slug.platform == "cpu":
        return
    host = _host(ctx)
    names = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
    in_slug = any(asks_for_segments(ctx.slug.env.get(name, "")) for name in names)
    if in_slug or (host is not None and host.expandable_segments):
        yield Finding(
            rule="wsl-segments",
            severity="block",
            subject="host",
            message=SEGMENTS_ON_WSL,
            fix=SEGMENTS_FIX + (" They stand in the slug's env." if in_slug else ""),
            level="rig",
        )
    yield Finding(
        rule="wsl",
        severity="note",
        subject="host",
        message="on WSL2 there is no pinned memory, and vLLM sees about 1.3 GiB less of a GPU than nvidia-smi shows",
        level="rig",
    )


def _inherited(ctx: Context) -> Iterator[Finding]:
    host = _host(ctx)
    # The slug's env wins over the caller's, and the int8 toggle sets or removes its own switch.
    names = [name for name in host.inherited if name not in ctx.slug.env and name != SWITCH] if host else []
    if names:
        yield Finding(
            rule="inherited-variables",
            severity="warn",
            subject="environment",
            message=f"the server inherits {', '.join(names)} from this shell, which may change what the plan says",
            fix=INHERITED_FIX,
            level="rig",
        )


def _download(ctx: Context) -> Iterator[Finding]:
    """What stands against fetching a repository that the cache does not have."""
    host, repo = _host(ctx), ctx.slug.weights.repo
    moved = {"HF_HOME", "HF_HUB_CACHE"} & ctx.slug.env.keys() or "download-dir" in ctx.slug.flags
    if host is None or repo is None or repo in host.cached_repos or moved:
        return
    size, free = ctx.slug.weights.size_bytes, host.model_cache_free_bytes
    if host.offline or ctx.slug.env.get("HF_HUB_OFFLINE") == "1":
        yield Finding(
            rule="download-offline",
            severity="block",
            subject="weights",
            message=f"{repo} is not in the Hugging Face cache, and HF_HUB_OFFLINE forbids its download",
            fix=f"Unset HF_HUB_OFFLINE, or fetch it with `hf download {repo}`.",
            level="rig",
        )
        return
    if size is not None and free is not None and size > free:
        yield Finding(
            rule="download-room",
            severity="block",
            subject="weights",
            message=f"{repo} has {gib(size)} GiB to download, and {host.model_cache} has room for {gib(free)}",
            fix="Free some, or set HF_HOME to a larger disk.",
            level="rig",
        )
    if host.token is None:
        yield Finding(
            rule="no-token",
            severity="note",
            subject="weights",
            message=f"{repo} will be downloaded, and there is no Hugging Face token should it be gated",
            fix="For a gated model run `hf auth login`, or export HF_TOKEN.",
        )


def _unwritable(ctx: Context) -> Iterator[Finding]:
    """Caches that the server could not write: it dies on the first file, minutes into the boot."""
    host, repo = _host(ctx), ctx.slug.weights.repo
    if host is None or _MOVES & ctx.slug.env.keys():
        return
    downloads = repo is not None and repo not in host.cached_repos
    places = [place for place in host.unwritable if downloads or place != host.model_cache]
    if places:
        yield Finding(
            rule="cache-unwritable",
            severity="block",
            subject="host",
            message=f"the server could not write to {', '.join(places)}",
            fix="Correct the owner (an earlier run as root?), or name another: HF_HOME, VLLM_CACHE_ROOT, TMPDIR.",
            level="rig",
        )


def _socket_folder(ctx: Context) -> Iterator[Finding]:
    """A socket's path holds 107 bytes, of which vLLM's name takes 37 (get_open_zmq_ipc_path, zmq)."""
    host = _host(ctx)
    env = ctx.slug.env
    folder = env.get("VLLM_RPC_BASE_PATH") or env.get("TMPDIR") or (host.socket_folder if host else None) or ""
    if len(folder.encode()) > _SOCKET_FOLDER_BYTES:
        yield Finding(
            rule="socket-path",
            severity="block",
            subject="host",
            message=f"{folder} is too long a folder for sockets: vLLM's processes could not meet there",
            fix="Set TMPDIR or VLLM_RPC_BASE_PATH to a short path, such as /tmp.",
            level="rig",
        )


HOST_RULES: tuple[Callable[[Context], Iterator[Finding]], ...] = (
    _shared_memory,
    _compiler,
    _headers,
    _driver,
    _wsl,
    _inherited,
    _download,
    _unwritable,
    _socket_folder,
)


def host_findings(ctx: Context) -> Iterator[Finding]:
    """Every finding about the host; none about it when its facts were not gathered."""
    for rule in HOST_RULES:
        yield from rule(ctx)


def flag_findings(argv: Sequence[str], flags: EngineFlags | None) -> Iterator[Finding]:
    """One finding for each word of a plan's argv that the installed vLLM would refuse; none while that is unknown."""
    if flags is None:
        return
    for word in unknown_flags(argv, flags):
        name, _, nearest = word.partition(" ")
        yield _flag(
            "flag-unknown",
            f"vLLM {flags.version} does not know {name} {nearest}".rstrip(),
            "Take it out of the slug's flags, or choose another vLLM with --engine.",
        )
    for name, value, choices in refused_values(argv, flags):
        # The toggle's own rule speaks of this one.
        if name != "--kv-cache-dtype":
            message = f"vLLM {flags.version} does not take {value[:60]} for {name}"
            fix = f"{did_you_mean(value, choices, '')} It takes {', '.join(choices)}.".lstrip()
            yield _flag("flag-value", message, fix)


def _flag(rule: str, message: str, fix: str) -> Finding:
    return Finding(rule=rule, severity="block", subject="flags", message=message, fix=fix, level="rig")
