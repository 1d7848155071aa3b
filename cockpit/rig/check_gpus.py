"""Checks of the doctor: driver, GPUs, what dead servers left on them, and the vLLMs that would use them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cockpit.rig.check_types import Check, Examined
from cockpit.rig.types import Engine, Gpu, Rig
from cockpit.units import gib

_BUSY_FRACTION = 0.1
"""Of a GPU's memory; a desktop and its browser stay below it."""
_NVIDIA_VENDOR = "0x10de"


def driver(examined: Examined) -> Iterator[Check]:
    """Whether NVIDIA's driver works; without any GPU of theirs that is no failure."""
    rig = examined.rig
    if rig.gpus:
        cuda = "" if rig.driver_cuda is None else f", CUDA up to {_version(rig.driver_cuda)}"
        yield Check(check="driver", status="ok", message=f"NVIDIA driver {rig.driver or 'of unknown version'}{cuda}")
        return
    problem = (rig.gpu_problem or "no NVIDIA GPU").rstrip(".")
    if has_nvidia_device():
        yield Check(
            check="driver",
            status="fail",
            message=f"there is an NVIDIA GPU, but {problem}",
            fix="Install or load NVIDIA's driver until `nvidia-smi` lists the GPU, or pass it into the container.",
        )
    else:
        yield Check(
            check="driver",
            status="warn",
            message=problem,
            fix="Without a GPU only slugs for the CPU can be served: `cockpit demo` shows one.",
        )


def has_nvidia_device(devices: Path = Path("/sys/bus/pci/devices")) -> bool:
    """Whether the PCI bus has a display or 3D controller of NVIDIA's."""
    for vendor in devices.glob("*/vendor"):
        try:
            ours = vendor.read_text().strip() == _NVIDIA_VENDOR
            if ours and vendor.with_name("class").read_text().strip().startswith("0x03"):
                return True
        except (OSError, UnicodeDecodeError):
            continue
    return False


def gpus(examined: Examined) -> Iterator[Check]:
    """Each GPU and what is in use of it."""
    for gpu in examined.rig.gpus:
        yield _gpu(gpu, examined)


def _gpu(gpu: Gpu, examined: Examined) -> Check:
    """One GPU and what is in use of it."""
    name = f"gpu-{gpu.index}"
    if gpu.total_bytes is None or gpu.used_bytes is None:
        fix = "If `nvidia-smi` shows an error for it, reset it or reboot."
        return Check(check=name, status="warn", message=f"{gpu.name} does not say how much memory it has", fix=fix)
    capability = "" if gpu.capability is None else f", compute capability {_version(gpu.capability)}"
    used = f"{gib(gpu.used_bytes)} of {gib(gpu.total_bytes)} GiB in use"
    message = f"{gpu.name}{capability}, {used}"
    if gpu.used_bytes <= gpu.total_bytes * _BUSY_FRACTION or examined.instances:
        return Check(check=name, status="ok", message=message)
    return Check(
        check=name,
        status="warn",
        message=f"{message}, and by no instance of the cockpit",
        fix="`nvidia-smi` names the programs that hold it; end those that are not needed.",
    )


def engines(examined: Examined) -> Iterator[Check]:
    """Each vLLM, and places where one was expected."""
    for problem in examined.engine_problems:
        yield Check(check="engines", status="warn", message=problem.title, fix=problem.fix)
    if not examined.engines:
        yield Check(
            check="engines",
            status="warn",
            message="no vLLM was found",
            fix="Run `cockpit engines install VERSION`, or `cockpit engines install cpu` for one without a GPU.",
        )
    for engine in examined.engines:
        yield _engine(engine, examined.rig)


def _engine(engine: Engine, rig: Rig) -> Check:
    """One vLLM, and whether the driver runs its CUDA."""
    message = f"{engine.id}: vLLM {engine.version} for {engine.platform}"
    if engine.platform != "cuda" or not rig.gpus:
        return Check(check="engines", status="ok", message=message)
    if driver_is_too_old(engine, rig):
        assert engine.cuda is not None and rig.driver_cuda is not None
        return Check(
            check="engines",
            status="fail",
            message=f"{message} needs CUDA {engine.cuda[0]}, the driver runs CUDA up to {_version(rig.driver_cuda)}",
            fix="Update NVIDIA's driver, or install an older vLLM with `cockpit engines install VERSION`.",
        )
    if engine.python_headers is False:
        return Check(
            check="engines",
            status="warn",
            message=f"{message}: its Python has no Python.h, which Triton compiles against",
            fix="Install the headers of that Python, e.g. python3-dev.",
        )
    return Check(check="engines", status="ok", message=message)


def driver_is_too_old(engine: Engine, rig: Rig) -> bool:
    """Whether the engine's CUDA is a newer major version than the driver runs; minor versions are compatible.

    Source: NVIDIA's CUDA compatibility guide.
    """
    return engine.cuda is not None and rig.driver_cuda is not None and engine.cuda[0] > rig.driver_cuda[0]


def leftovers(examined: Examined) -> Iterator[Check]:
    """Engines and workers whose server is gone."""
    if not examined.leftovers:
        yield Check(check="leftovers", status="ok", message="no process of a dead vLLM server")
    for left in examined.leftovers:
        known = [size for size in left.gpu_bytes.values() if size is not None]
        on = f" with {gib(sum(known))} GiB" if known else ""
        gpus = f" on GPU {', '.join(map(str, sorted(left.gpu_bytes)))}{on}" if left.gpu_bytes else ""
        instance = examined.instances.get(left.pid)
        yield Check(
            check="leftovers",
            status="fail" if left.gpu_bytes else "warn",
            message=f"{left.title} (pid {left.pid}){gpus} has lost its server",
            fix=f"Run `cockpit stop {instance}`."
            if instance
            else f"Run `cockpit stop orphans-{left.group}`, or end it by hand: kill {left.pid}.",
        )


def _version(pair: tuple[int, int]) -> str:
    return f"{pair[0]}.{pair[1]}"
