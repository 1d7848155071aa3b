"""What a silent boot is doing: one table of what may be said, when, and on what evidence. Pure.

A healthy boot of vLLM says nothing for minutes while it compiles or warms up, and a hang says nothing either: only
what the processes do tells them apart. Where that is not known, nothing is said.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from cockpit.supervisor.boot_state import STAGES, BootState, StageId
from cockpit.units import GIB, duration

_WORKING = 0.2
"""Processor cores, or share of a GPU."""
_IDLE_CORES = 0.03
_BUSY_GPU, _IDLE_GPU = 0.9, 0.05
_READING_BYTES = 1e6
_SLOW_DISK_BYTES = 250e6
"""A SATA SSD reads 500 MB/s; below half of that a disk, a network share or a virtual one holds up the boot."""
_PATIENCE = 1.5
"""Times the usual length of a stage, before its silence alarms."""


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What the processes of a boot did in the last seconds; None is unknown."""

    cores: float | None = None
    """Processor cores that they kept busy."""
    read_bytes_per_second: float | None = None
    """From disk; what lies in the page cache is not read again."""
    gpus: tuple[float | None, ...] = ()
    """Utilization of each GPU of the plan, 0 to 1."""
    compilers: tuple[str, ...] = ()
    """Names of compilers among them, such as nvcc."""
    download: str | None = None
    """Name of a file that the Hugging Face library has not finished."""
    download_bytes_per_second: float | None = None
    stopped: bool = False
    """Whether the server process was stopped by a signal."""
    p2p_disabled: bool = False
    """Whether NCCL_P2P_DISABLE=1 is in its environment."""


class Silence(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of a silent boot."""

    id: str
    seconds: float
    """Since the last line."""
    alarm: bool
    """Whether something seems wrong; else the silence is usual."""
    sentence: str
    fix: str = ""
    final: bool = False
    """Whether it is certain that nothing will come of it by itself."""


class _Row(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to say."""

    id: str
    stages: tuple[StageId, ...]
    seconds: float
    """Of silence before it is said."""
    when: Callable[[BootState, Evidence], bool]
    sentence: Callable[[BootState, Evidence], str]
    fix: Callable[[Evidence], str] = lambda _: ""
    alarm: bool = False


def _works(seen: Evidence) -> bool:
    return (seen.cores or 0) >= _WORKING or any((gpu or 0) >= _WORKING for gpu in seen.gpus)


def _rests(seen: Evidence) -> bool:
    """Whether it is known that no core, no disk and no GPU works for the boot."""
    return (
        seen.cores is not None
        and seen.cores < _IDLE_CORES
        and seen.read_bytes_per_second is not None
        and seen.read_bytes_per_second < _READING_BYTES
        and all(gpu is not None and gpu < _IDLE_GPU for gpu in seen.gpus)
    )


def _all_gpus_busy(seen: Evidence) -> bool:
    return len(seen.gpus) > 1 and all(gpu is not None and gpu >= _BUSY_GPU for gpu in seen.gpus)


def _ranks(boot: BootState) -> bool:
    return (boot.facts.world_size or 1) > 1


def _speed(bytes_per_second: float | None) -> str:
    mega = (bytes_per_second or 0) / 1e6
    return f"{mega / 1000:.1f} GB/s" if mega >= 1000 else f"{mega:.0f} MB/s"


def _reads(boot: BootState, seen: Evidence) -> str:
    speed = seen.read_bytes_per_second or 0
    text = f"the weights are read at {_speed(speed)}"
    size = boot.facts.checkpoint_gib
    return text if not size else f"{text}; all {size:.1f} GiB take {duration(size * GIB / speed)} at that"


def _unread(seen: Evidence) -> str:
    return "" if seen.read_bytes_per_second is None else "nothing is read from disk and "


def _downloads(_: BootState, seen: Evidence) -> str:
    return f"{seen.download} is being downloaded at {_speed(seen.download_bytes_per_second)}"


def _cores(seen: Evidence) -> str:
    return f"{seen.cores:.1f} cores work" if (seen.cores or 0) >= _WORKING else "the GPU works"


def _p2p_fix(seen: Evidence) -> str:
    if seen.p2p_disabled:
        return (
            "NCCL_P2P_DISABLE=1 is set already: set NCCL_CUMEM_ENABLE=0 too, and NCCL_DEBUG=INFO to see where it is."
        )
    return "Stop it and start it with NCCL_P2P_DISABLE=1 in the slug's env; NCCL_DEBUG=INFO says where it hangs."


_TABLE: tuple[_Row, ...] = (
    _Row(
        id="stopped",
        stages=STAGES,
        seconds=5,
        when=lambda _, seen: seen.stopped,
        sentence=lambda _, __: "the server process was stopped by a signal and does nothing",
        fix=lambda _: "Send it SIGCONT, or stop the server.",
        alarm=True,
    ),
    _Row(
        id="download",
        stages=STAGES[:4],
        seconds=10,
        when=lambda _, seen: seen.download is not None and (seen.download_bytes_per_second or 0) > 0,
        sentence=_downloads,
    ),
    _Row(
        id="download-stalled",
        stages=STAGES[:4],
        seconds=60,
        when=lambda _, seen: seen.download is not None and seen.download_bytes_per_second == 0,
        sentence=lambda _, seen: f"the download of {seen.download} does not grow",
        fix=lambda _: "Look at the network and at the room on the disk; a new start goes on where it stopped.",
        alarm=True,
    ),
    _Row(
        id="kernels",
        stages=STAGES,
        seconds=10,
        when=lambda _, seen: bool(seen.compilers),
        sentence=lambda _, seen: (
            f"{', '.join(seen.compilers)} compile kernels: silent for minutes at a first boot, "
            "and kept for later ones"
        ),
    ),
    _Row(
        id="nccl-p2p",
        stages=("config",),
        seconds=90,
        when=lambda boot, seen: _ranks(boot) and _all_gpus_busy(seen),
        sentence=lambda _, __: "all GPUs are busy and NCCL does not come up: it looks like a P2P hang",
        fix=_p2p_fix,
        alarm=True,
    ),
    _Row(
        id="ranks-wait",
        stages=("config",),
        seconds=120,
        when=lambda boot, seen: _ranks(boot) and bool(seen.gpus) and all(gpu == 0 for gpu in seen.gpus),
        sentence=lambda _, __: "the ranks do not find each other: no GPU works yet",
        fix=lambda _: (
            "Set VLLM_HOST_IP=127.0.0.1, or NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME to the right network."
        ),
        alarm=True,
    ),
    _Row(
        id="weights-slow",
        stages=("weights",),
        seconds=15,
        when=lambda _, seen: _READING_BYTES <= (seen.read_bytes_per_second or 0) < _SLOW_DISK_BYTES,
        sentence=lambda boot, seen: f"{_reads(boot, seen)}: a slow disk",
        fix=lambda _: (
            "Move them to a faster disk; from a network share --safetensors-load-strategy=prefetch is faster."
        ),
    ),
    _Row(
        id="weights-read",
        stages=("weights",),
        seconds=15,
        when=lambda _, seen: (seen.read_bytes_per_second or 0) >= _SLOW_DISK_BYTES,
        sentence=_reads,
    ),
    _Row(
        id="weights-packed",
        stages=("weights",),
        seconds=20,
        when=lambda _, seen: _works(seen),
        sentence=lambda _, seen: f"{_unread(seen)}{_cores(seen)}: the weights are unpacked and sorted",
    ),
    _Row(
        id="weights-stuck",
        stages=("weights",),
        seconds=60,
        when=lambda _, seen: _rests(seen),
        sentence=lambda _, __: "the weights are not read, and nothing works: the disk or the network share hangs",
        fix=lambda _: "See `dmesg` and whether a file of the checkpoint can be read with `cat`.",
        alarm=True,
    ),
    _Row(
        id="gpus-stuck",
        stages=("compile", "kv_pool", "graphs", "ready"),
        seconds=300,
        when=lambda boot, seen: _ranks(boot) and _all_gpus_busy(seen),
        sentence=lambda _, __: "all GPUs have been busy without a word: the ranks may wait for each other (P2P)",
        fix=_p2p_fix,
        alarm=True,
    ),
    _Row(
        id="compile",
        stages=("compile",),
        seconds=20,
        when=lambda _, seen: _works(seen),
        sentence=lambda _, seen: f"torch.compile is silent for minutes at a first boot; {_cores(seen)}",
    ),
    _Row(
        id="profile",
        stages=("kv_pool",),
        seconds=20,
        when=lambda _, seen: _works(seen),
        sentence=lambda _, seen: f"vLLM tries a full batch to see what memory is left; {_cores(seen)}",
    ),
    _Row(
        id="warm-up",
        stages=("graphs", "ready"),
        seconds=20,
        when=lambda _, seen: _works(seen),
        sentence=lambda _, seen: (
            f"kernels are tuned and warmed up, which may be silent for two minutes; {_cores(seen)}"
        ),
    ),
    _Row(
        id="imports",
        stages=("environment",),
        seconds=15,
        when=lambda _, seen: _works(seen) or (seen.read_bytes_per_second or 0) >= _READING_BYTES,
        sentence=lambda _, __: "Python imports torch and vLLM: up to a minute from a cold or slow disk",
    ),
    _Row(
        id="engine",
        stages=("config",),
        seconds=20,
        when=lambda _, seen: _works(seen),
        sentence=lambda _, seen: f"vLLM inspects the model and starts its engine; {_cores(seen)}",
    ),
    _Row(
        id="nothing",
        stages=STAGES,
        seconds=120,
        when=lambda _, seen: _rests(seen),
        sentence=lambda _, __: "no core, no disk and no GPU works for it",
        fix=lambda _: "It may wait for the network or a lock; the end of its log says for what. Stopping it is safe.",
        alarm=True,
    ),
)


def silence_of(
    boot: BootState, silent_seconds: float, seen: Evidence | None, usual: dict[StageId, float] | None = None
) -> Silence | None:
    """What to say of a boot that has written nothing for so long; None when there is nothing to say.

    ``usual`` are the seconds that its stages took before: what was silent for long and came up is given that time.
    """
    if boot.current is None or seen is None:
        return None
    patience = _PATIENCE * (usual or {}).get(boot.current, 0.0)
    for row in _TABLE:
        least = max(row.seconds, patience) if row.alarm and row.id != "stopped" else row.seconds
        if boot.current in row.stages and silent_seconds >= least and row.when(boot, seen):
            return Silence(
                id=row.id,
                seconds=silent_seconds,
                alarm=row.alarm,
                sentence=row.sentence(boot, seen),
                fix=row.fix(seen),
            )
    return None
