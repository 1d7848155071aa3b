"""For programs that need all of NVIDIA's binding: it stays, and the simulated GPUs answer in the driver's place."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pynvml


def _simulated() -> ModuleType:
    """The module of the folder beside this one, which bears the binding's own name."""
    spec = spec_from_file_location("simulated", Path(__file__).parent.parent / "simulated_nvml" / "pynvml.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _not_supported(*_: object, **__: object) -> Any:
    raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)


_answers = _simulated()._ANSWERS
for _name in dir(pynvml):
    if _name.startswith(("nvmlDevice", "nvmlSystem", "nvmlUnit", "nvmlEvent", "nvmlGpu", "nvmlVgpu")):
        setattr(pynvml, _name, _answers.get(_name, _not_supported))
for _name in ("nvmlInit", "nvmlInitWithFlags", "nvmlShutdown"):
    setattr(pynvml, _name, lambda *_: None)
pynvml.nvmlSystemGetCudaDriverVersion = _answers["nvmlSystemGetCudaDriverVersion_v2"]
