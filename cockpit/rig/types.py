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
    """As NVML counts; `usable_bytes` is less."""
    usable_bytes: int | None = None
    """What CUDA, and with it vLLM, sees of it: less by what the driver reserves; None where nobody says so."""
    used_bytes: int | None = None
    capability: tuple[int, int] | None = None


class Rig(msgspec.Struct, frozen=True, kw_only=True):
    """The GPUs and the memory of this machine, or of one that a file describes."""

    gpus: tuple[Gpu, ...] = ()
    gpu_problem: str | None = None
    """Why no GPU can be read, as one sentence; None when NVML works."""
    driver: str | None = None
    driver_cuda: tuple[int, int] | None = None
    """The newest CUDA that the driver runs, e.g. (13, 0)."""
    memory_total_bytes: int = 0
    memory_available_bytes: int = 0
    cpu_count: int = 1
    wsl: bool = False
    described: str | None = None
    """Name of the file that describes it; None for the machine that this runs on."""


class HostFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What else of this host decides whether a server boots; sizes in bytes, None is unknown."""

    shared_memory_total_bytes: int | None = None
    """Of /dev/shm."""
    shared_memory_free_bytes: int | None = None
    compiler: str | None = None
    """The C compiler that Triton would take; None when there is none."""
    inherited: tuple[str, ...] = ()
    """VLLM_* variables of the caller that a server would inherit, without harmless ones; names only."""
    expandable_segments: bool = False
    """Whether the caller's environment asks PyTorch for expandable segments."""
    token: str | None = None
    """Where a Hugging Face token was found (a variable or a file), never the token."""
    offline: bool = False
    """Whether HF_HUB_OFFLINE is set."""
    model_cache: str | None = None
    """Folder of the Hugging Face cache, there or not."""
    model_cache_free_bytes: int | None = None
    cuda_toolkit: tuple[int, int] | None = None
    """The toolkit whose nvcc would compile kernels; None when there is none, or it does not say."""
    cache_rooms: dict[str, int] = {}
    """Free bytes for each folder that compiled kernels are kept in."""
    unwritable: tuple[str, ...] = ()
    """Folders among those caches, and the Hugging Face cache, that a server could not write to."""
    socket_folder: str | None = None
    """Where vLLM's processes put the sockets that they meet at."""
    amx: bool = False
    """Whether the processor has AMX tiles, whose use Linux gives a process only when it asks."""
    cached_repos: frozenset[str] = frozenset()
    """Repositories with at least one snapshot in the cache, as ``owner/name``."""


class OverlayState(msgspec.Struct, frozen=True, kw_only=True):
    """Whether an overlay of the cockpit may patch one vLLM."""

    state: Literal["available", "needless", "unsupported"]
    reason: str
    """A clause: why not, or the version that it fits."""


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
    transformers: str | None = None
    cuda: tuple[int, int] | None = None
    """The CUDA that its torch was built with."""
    kernels_cuda: int | None = None
    """Major version of the CUDA that vLLM's own kernels were built for; None where it cannot be read."""
    wna16_bits: tuple[int, ...] | None = None
    """Widths of WNA16_SUPPORTED_TYPES_MAP; None where it cannot be read."""
    wna16_zero_point_bits: tuple[int, ...] | None = None
    humming: str | None = None
    """Version of humming-kernels."""
    moe_packed_widths: tuple[int, ...] | None = None
    """Widths that the experts of a compressed-tensors WNA16 checkpoint may have."""
    quantized_embedding: bool | None = None
    """Whether Qwen3.5-like models and their MTP drafts read a quantized embed_tokens."""
    autoround_int8: bool | None = None
    """Whether the switch for int8 activations reaches AutoRound's linear layers."""
    overlays: dict[str, OverlayState] = {}
    """By overlay id; empty where the sources were not looked at."""
    models: tuple[str, ...] | None = None
    """Architectures of its registry; others may still run through its Transformers backend."""
    quantization_methods: tuple[str, ...] | None = None
    """What --quantization takes."""
    kv_cache_dtypes: tuple[str, ...] | None = None
    """What --kv-cache-dtype takes."""
    tool_parsers: tuple[str, ...] | None = None
    reasoning_parsers: tuple[str, ...] | None = None
    config_types: tuple[str, ...] | None = None
    """Model types whose config class it or its transformers brings; None where that cannot be read."""
    tokenizers: tuple[str, ...] | None = None
    """Model types for which it or its transformers has a tokenizer, and classes of those."""
    processors: tuple[str, ...] | None = None
    """The same of processors of images, sound and video."""
    min_capabilities: dict[str, int] | None = None
    """Least compute capability (75 is 7.5) by quantization method (``compressed-tensors``), and by class name for
    the WNA16 linear kernels (``MarlinLinearKernel``)."""
    python_headers: bool | None = None
    """Whether its Python has Python.h, which Triton compiles against."""
    source: Literal["managed", "config", "path"] = "path"


class EngineProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A place where an engine was expected and none can be used."""

    path: str
    title: str
    fix: str
