"""What can be said of an exception by the part of the program that raised it, when no row of the table knows it."""

from __future__ import annotations

import re

import msgspec

from cockpit.supervisor.diagnose.areas import AREAS, FEWER_FLAGS
from cockpit.supervisor.diagnose.faults import is_fault
from cockpit.supervisor.diagnose.named import named, once
from cockpit.supervisor.diagnose.refusals import asked
from cockpit.supervisor.diagnose.types import Evidence, Fix, Fixes, Symptom
from cockpit.supervisor.diagnose.words import do, no_graphs

_PASSED_THROUGH = re.compile(
    r"^torch/(?:nn/|_ops|utils/|cuda/|_tensor|_library|storage|functional|autograd)|^vllm/(?:tracing|utils)/"
    r"|^vllm/compilation/\w+\.py:(?:__call__|forward|inner|\w*wrapper)$|^vllm/_custom_ops"
)
"""What is on the way to everything: the frame outside of it says more."""


def _at_capture(seen: Evidence) -> list[Fix]:
    return no_graphs(seen) if seen.incident.stage == "graphs" else []


def area_of(seen: Evidence) -> Symptom | None:
    """The part of the program that raised it: of the innermost frame that tells one; None when none does."""
    frames = [frame for frame in reversed(seen.incident.modules.split("\n")) if frame]
    aside: Symptom | None = None
    for frame in frames:
        found = next((symptom for pattern, symptom in AREAS if pattern.search(frame)), None)
        if found is not None and not _PASSED_THROUGH.search(frame):
            return found
        aside = aside or found
    return aside


def origin_of(seen: Evidence) -> Symptom | None:
    """What its part says of an exception; of a program's own mistake also that it is one."""
    area = area_of(seen)
    if area is None:
        return None
    if not is_fault(seen):
        told: Fixes = do() if area.id == "config-refused" else asked
        return msgspec.structs.replace(area, fixes=once(told, named, _at_capture, area.fixes))
    if area.id in ("checkpoint-mismatch", "compile-failed", "kv-connector-failed", "vllm-fault"):
        return msgspec.structs.replace(area, fixes=once(named, area.fixes))
    return msgspec.structs.replace(area, id="vllm-fault", fixes=once(named, _at_capture, area.fixes, FEWER_FLAGS))


PARTS: tuple[Symptom, ...] = tuple(symptom for _, symptom in AREAS)
"""Every answer of this kind."""
