"""The whole machine in one value."""

from __future__ import annotations

from cockpit.rig.gpus import read_gpus
from cockpit.rig.host import read_host
from cockpit.rig.types import Rig


def read_rig() -> Rig:
    """Read GPUs and host as they are now. Never raises for want of a GPU: ``gpu_problem`` says why."""
    survey = read_gpus()
    host = read_host()
    return Rig(
        gpus=survey.gpus,
        gpu_problem=survey.problem,
        driver=survey.driver,
        driver_cuda=survey.driver_cuda,
        memory_total_bytes=host.memory_total_bytes,
        memory_available_bytes=host.memory_available_bytes,
        cpu_count=host.cpu_count,
        wsl=host.wsl,
    )
