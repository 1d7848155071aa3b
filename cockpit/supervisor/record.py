"""The instance record: what makes a server findable after its cockpit is gone."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

FORMAT_VERSION = 1

Pid = Annotated[int, Meta(gt=1)]
"""A pid that may be signalled: 0, -1 and other negative ones address whole groups, 1 is init."""


class ProcessIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """A process that a recycled pid cannot be mistaken for."""

    pid: Pid
    start_time: float
    """Unix time of the process start, as psutil gives it; it moves when the clock is set."""
    birth: str = ""
    """Boot id of the kernel and start in clock ticks since boot: exact and free of the clock; empty is unknown."""


class Segment(msgspec.Struct, frozen=True):
    """One segment of shared memory, by file and inode: a later one of the same name is another."""

    path: str
    inode: int


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server was started; empty is unknown."""

    hostname: str
    boot_id: str
    """Of the kernel: another after each start of the host."""
    pid_namespace: str
    """In which its pids count: a container has its own."""


class InstanceRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One server that a cockpit started: written before anything can go wrong, replaced atomically."""

    format_version: int = FORMAT_VERSION
    name: str
    slug: str
    model: str
    served_model_name: str
    process: ProcessIdentity | None = None
    """The ``vllm serve`` process, leader of its own session; None between record and spawn."""
    descendants: tuple[ProcessIdentity, ...] = ()
    """EngineCore and workers, as last seen."""
    segments: tuple[Segment, ...] = ()
    """Shared memory that they had mapped then: nothing else tells whose it is once they are gone."""
    argv: tuple[str, ...]
    env: dict[str, str | None]
    """What differed from the caller's environment; secrets are replaced by ``<redacted>``."""
    cwd: str
    host: str
    port: Annotated[int, Meta(ge=1, le=65535)]
    url: str
    gpus: tuple[int, ...] = ()
    platform: str = "cuda"
    engine: str = ""
    engine_version: str = ""
    extra_env: dict[str, str | None] = {}
    """Variables that fixes of earlier deaths have set; a new start keeps them."""
    gpu_model: str = ""
    """As the plan names it; earlier boots on the same count for the next one's expected time."""
    values: dict[str, Any] = {}
    """Toggle values of the plan."""
    log: str
    """Path of the log file."""
    origin: Origin | None = None
    """None in records of older cockpits."""
    created_at: float
    ready_at: float | None = None
    boot_seconds: float | None = None
    """From the spawn to the first answer, by a clock that nobody sets; None where it was not measured."""
    slept_before: float | None = None
    """Seconds that the host had been suspended by the spawn, since its own start; None where nobody noted it."""
    boot_slept: float | None = None
    """How many of `boot_seconds` the host was suspended, at most; None where that is not known."""
    stop_requested_at: float | None = None
    ended_at: float | None = None
    exit_code: int | None = None
    """Of the server process; None while it runs, or when no cockpit was there to see it end."""
    forecast: dict[str, Any] | None = None
