"""Findings about the machine that few boots meet: too new or too old GPUs, toolkits, caches, RAM, peer-to-peer."""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.rules.context import Context
from cockpit.rules.finding import Finding
from cockpit.units import GIB, gib

_BLACKWELL, _BLACKWELL_CUDA = (10, 0), (12, 8)
_TURING, _TURING_CUDA = (7, 5), (13, 0)
_AMPERE = (8, 0)
_CONSUMER_BLACKWELL, _TOOLKIT = (12, 0), (12, 9)
_CACHE_BYTES = 2 * GIB
"""Compiled graphs and kernels of one model."""
_CPU_POOL = "VLLM_CPU_KVCACHE_SPACE"
_CONSUMER = ("GeForce", "RTX", "TITAN")


def _version(pair: tuple[int, int]) -> str:
    return f"{pair[0]}.{pair[1]}"


def _finding(rule: str, severity: str, subject: str, message: str, fix: str) -> Finding:
    return Finding(
        rule=rule,
        severity="block" if severity == "block" else "warn",
        subject=subject,
        message=message,
        fix=fix,
        level="rig",
    )


def gpu_generation(ctx: Context) -> Iterator[Finding]:
    """The CUDA of the engine's torch must have code for the GPU: 12.8 began with Blackwell, 13 left out Volta."""
    engine, known = ctx.engine, ctx.capabilities
    if engine is None or engine.cuda is None or engine.platform != "cuda" or not known:
        return
    newest, oldest = max(known), min(known)
    if newest >= _BLACKWELL and engine.cuda < _BLACKWELL_CUDA:
        message = f"a GPU of compute capability {_version(newest)} needs CUDA 12.8, {engine.id} was built with "
        yield _finding(
            "gpu-too-new",
            "block",
            "engine",
            f"{message}{_version(engine.cuda)}",
            "Choose a newer vLLM with --engine.",
        )
    if oldest < _TURING and engine.cuda >= _TURING_CUDA:
        message = f"CUDA {_version(engine.cuda)} of {engine.id} has no code for compute capability {_version(oldest)}"
        yield _finding("gpu-too-old", "block", "engine", message, "Choose newer GPUs, or a vLLM built with CUDA 12.")


def cuda_mismatch(ctx: Context) -> Iterator[Finding]:
    """vLLM's kernels and its torch must be built for one major version of CUDA: the import dies otherwise."""
    engine = ctx.engine
    if engine is None or engine.cuda is None or engine.kernels_cuda in (None, engine.cuda[0]):
        return
    message = f"{engine.id} was built for CUDA {engine.kernels_cuda}, and its torch for {_version(engine.cuda)}"
    fix = "Install vLLM and torch together: `uv pip install vllm --torch-backend=auto`."
    runtime = f"it would die for want of libcudart.so.{engine.kernels_cuda}"
    yield _finding("cuda-mismatch", "block", "engine", f"{message}: {runtime}", fix)


def bfloat16(ctx: Context) -> Iterator[Finding]:
    """bfloat16 by name needs compute capability 8.0; vLLM's `auto` falls back to float16 by itself."""
    old = sorted(capability for capability in ctx.capabilities if capability < _AMPERE)
    if ctx.slug.flags.get("dtype") == "bfloat16" and old:
        message = f"bfloat16 needs compute capability 8.0, a chosen GPU has {_version(old[0])}"
        yield _finding("bfloat16-capability", "block", "flags", message, "Set `dtype: half` under the slug's flags.")


def toolkit(ctx: Context) -> Iterator[Finding]:
    """FlashInfer compiles for the GPU with the CUDA toolkit that is installed, if there is one."""
    found = None if ctx.host is None or ctx.rig.described else ctx.host.cuda_toolkit
    newest = max(ctx.capabilities, default=None)
    if found is None or newest is None or newest < _CONSUMER_BLACKWELL or found >= _TOOLKIT:
        return
    message = (
        f"the CUDA toolkit {_version(found)} of this host cannot compile for compute capability {_version(newest)}"
    )
    fix = (
        "Install CUDA 12.9 or newer and name it in CUDA_HOME, or set VLLM_USE_FLASHINFER_SAMPLER=0 in the slug's env."
    )
    yield _finding(
        "cuda-toolkit", "warn", "host", f"{message}, and FlashInfer would say that the GPU is too old", fix
    )


def peer_to_peer(ctx: Context) -> Iterator[Finding]:
    """GeForce cards hang or corrupt data where a slug turns NCCL's peer-to-peer back on."""
    parallel = ctx.values.get("tensor_parallel") or 1
    names = [gpu.name for gpu in ctx.rig.gpus if gpu.index in ctx.gpu_indices]
    consumer = [name for name in names if any(mark in name for mark in _CONSUMER)]
    if parallel > 1 and consumer and ctx.slug.env.get("NCCL_P2P_DISABLE") == "0":
        message = f"the slug turns NCCL's peer-to-peer on, which {consumer[0]} has only with a patched driver"
        fix = "Take NCCL_P2P_DISABLE out of its env unless `nvidia-smi topo -p2p r` says OK."
        yield _finding("p2p-on", "warn", "environment", f"{message}: the boot may hang", fix)


def cpu_pool(ctx: Context) -> Iterator[Finding]:
    """The CPU build reads the size of its pool with ``int`` (vllm/envs.py): 0.5 ends it after half a minute."""
    given = ctx.slug.env.get(_CPU_POOL)
    if ctx.slug.platform != "cpu" or given is None:
        return
    try:
        too_small = int(given) < 1
    except ValueError:
        too_small = True
    if too_small:
        yield Finding(
            rule="cpu-pool-size",
            severity="block",
            subject="environment",
            message=f"{_CPU_POOL}={given[:40]} is no whole number of GiB above 0, and vLLM ends over it",
            fix=f'Write {_CPU_POOL}: "1" or more in the slug\'s env.',
            level="usage",
        )


def caches(ctx: Context) -> Iterator[Finding]:
    """Compiled kernels and graphs are kept on disk."""
    rooms = {} if ctx.host is None or ctx.rig.described else ctx.host.cache_rooms
    full = {place: free for place, free in rooms.items() if free < _CACHE_BYTES}
    if full:
        places = ", ".join(f"{place} ({gib(free)} GiB free)" for place, free in full.items())
        yield _finding(
            "cache-room",
            "warn",
            "host",
            f"compiled kernels may not fit in {places}",
            "Free some room on those disks.",
        )


def memory(ctx: Context) -> Iterator[Finding]:
    """Host RAM: all of the model on the CPU build; on WSL the weights pass through it, and too little kills CUDA."""
    sizes = None if ctx.checkpoint is None else ctx.checkpoint.sizes
    total, free = ctx.rig.memory_total_bytes, ctx.rig.memory_available_bytes
    weights = ctx.slug.weights.size_bytes if sizes is None else sizes.total
    if weights is None or not total or ctx.slug.flags.get("load-format") == "dummy":
        return
    size = f"the weights have {gib(weights)} GiB"
    if ctx.slug.platform == "cpu" and weights > free:
        severity = "block" if weights > total else "warn"
        message = f"{size}, and {gib(free)} of the host's {gib(total)} GiB of memory are free"
        yield _finding("host-memory", severity, "host", message, "Use a smaller model, or end other programs.")
    elif ctx.slug.platform == "cuda" and ctx.rig.wsl and weights > total:
        message = (
            f"{size} and WSL {gib(total)} GiB of memory: loading them can end in a CUDA out of memory that is none"
        )
        fix = "Set memory above the checkpoint's size in .wslconfig, then `wsl --shutdown`."
        yield _finding("host-memory", "warn", "host", message, fix)


RULES = (gpu_generation, cuda_mismatch, bfloat16, toolkit, peer_to_peer, cpu_pool, caches, memory)
"""In the order in which their findings are shown."""
