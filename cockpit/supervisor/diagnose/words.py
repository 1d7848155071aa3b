"""Sentences and fixes that several symptoms share."""

from __future__ import annotations

from cockpit.supervisor.diagnose.types import Evidence, Fix
from cockpit.units import UNKNOWN


def count(value: float | None) -> str:
    """A number of tokens or requests with thousands separators."""
    return UNKNOWN if value is None else f"{value:,.0f}"


def gib(value: float | None) -> str:
    """GiB with the unit."""
    return UNKNOWN if value is None else f"{value:.1f} GiB"


def budget(seen: Evidence) -> str:
    """What takes the memory, as far as the log tells: ``weights 18.2 + …``; empty when it does not."""
    weights = seen.boot.facts.weights_gib
    return "" if weights is None else f"The weights take {gib(weights)} a GPU."


def more_room(seen: Evidence) -> list[Fix]:
    """What gives the KV pool more room, best first; never what is so already."""
    fixes = []
    if not str(seen.arguments.get("kv_cache_dtype") or "auto").startswith(("fp8", "nvfp4", "int8")):
        fixes.append(Fix(text="Store the KV cache in 8 bits.", set={"kv_cache_dtype": "fp8_e4m3"}))
    return fixes
