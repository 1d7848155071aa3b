"""NVIDIA's binding of NVML, loaded only where there is a driver for it to talk to."""

from __future__ import annotations

import sys
from typing import Any

LIBRARY = "libnvidia-ml.so.1"
"""The name by which pynvml looks for it too."""


class NoDriverError(Exception):
    """No driver has brought its library to this machine, or to this container."""


def load_nvml() -> Any:
    """The pynvml module. Raises NoDriverError: the module is 2 MB which could only say the same."""
    if "pynvml" not in sys.modules and not _has_library():
        raise NoDriverError("NVML Shared Library Not Found")
    import pynvml

    return pynvml


def _has_library() -> bool:
    import ctypes

    try:
        ctypes.CDLL(LIBRARY)
    except OSError:
        return False
    return True
