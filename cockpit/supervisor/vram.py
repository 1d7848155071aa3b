"""GPU memory before and after a stop: a server that is gone must have given it back."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from cockpit.rig.gpus import used_gpu_bytes
from cockpit.units import GIB, gib

_SETTLE_SECONDS = 3.0
_POLL_SECONDS = 0.2
_NOTHING_BYTES = 64 << 20
"""Less than a CUDA context: what else moves on a card meanwhile."""


class GpuMemory:
    """What is in use on some GPUs now, to be compared later."""

    def __init__(self, gpus: Collection[int], read: Callable[[Collection[int]], int | None] = used_gpu_bytes) -> None:
        self._gpus = gpus
        self._read = read
        self._before = read(gpus) if gpus else None

    def freed(self, say: Callable[[str], None]) -> int | None:
        """Bytes that are free again, said in a sentence; None where there is no GPU or it does not say.

        The driver may need a moment after the last process; memory that does not fall is said to be held by others.
        """
        if self._before is None:
            return None
        limit = time.monotonic() + _SETTLE_SECONDS
        while True:
            after = self._read(self._gpus)
            if after is None:
                return None
            freed = max(0, self._before - after)
            if freed > _NOTHING_BYTES or self._before <= _NOTHING_BYTES or time.monotonic() >= limit:
                break
            time.sleep(_POLL_SECONDS)
        cards = ", ".join(map(str, sorted(self._gpus)))
        if freed > _NOTHING_BYTES:
            say(f"{gib(freed)} GiB of GPU memory are free again on GPU {cards}")
        elif after > GIB:
            say(f"GPU {cards} still holds {gib(after)} GiB, none of it by this server's processes")
        return freed
