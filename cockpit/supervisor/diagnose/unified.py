"""Memory that CPU and GPU share: GB10, Jetson, Strix Halo."""

from __future__ import annotations

from cockpit.supervisor.diagnose.types import Evidence, Fix, Symptom
from cockpit.supervisor.diagnose.words import fewer_sequences, joined, less_utilization

_DROP_CACHES = Fix(
    text="Give back what the page cache holds: `sync; echo 3 | sudo tee /proc/sys/vm/drop_caches`, then start again."
)
_AT_START = r":(?:init_device|mem_get_info|measure|set_device|_lazy_init|request_memory)$"


def _others(_: Evidence) -> list[Fix]:
    return [Fix(text="End other programs: they take from the same memory.")]


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        id="unified-memory",
        patterns=(r"NV_ERR_NO_MEMORY",),
        versions="any",
        explain=lambda _: (
            "The NVIDIA driver found no memory. Where CPU and GPU share it (GB10) weights, KV pool, page cache and "
            "all other programs come out of one pool, and the share that vLLM fills is not held back from them."
        ),
        fixes=joined(lambda seen: less_utilization(seen, by=0.1), lambda _: [_DROP_CACHES], fewer_sequences),
    ),
    Symptom(
        id="unified-memory",
        patterns=(r"CUDA error: out of memory", r"OutOfMemoryError"),
        frames=_AT_START,
        when=lambda seen: "unified" in seen.figures and not seen.incident.after_ready,
        versions="any",
        explain=lambda _: (
            "CPU and GPU share the memory here, and the driver counts what the page cache holds as taken: nothing "
            "was free for the GPU before the server asked for any. A lower utilization does not help."
        ),
        fixes=joined(lambda _: [_DROP_CACHES], _others),
    ),
)
