"""The managed CPU engine, as `cockpit engines install cpu` leaves it in the user's own data home."""

from __future__ import annotations

import os
import subprocess

import pytest

from cockpit.rig.engines import choose_engine, find_engines, probe_engine
from cockpit.rig.managed import CPU_VERSION, home_of
from cockpit.supervisor.install import install

pytestmark = pytest.mark.live


def work_seconds() -> float:
    """Processor time of this process and of children that ended: whatever else the machine does."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def test_the_cpu_engine_is_installed_and_a_second_install_does_nothing() -> None:
    install("cpu")  # makes it on a machine that has none yet
    steps: list[str] = []
    before = work_seconds()
    engine = install("cpu", lambda title, detail: steps.append(title))
    assert work_seconds() - before < 0.5
    assert steps == []
    assert (engine.version, engine.platform, engine.source) == (CPU_VERSION, "cpu", "managed")
    assert engine.torch is not None and engine.torch.endswith("+cpu")
    assert engine.wna16_bits == (2, 3, 4, 5, 6, 7, 8)
    assert engine.humming is None


def test_the_cpu_engine_is_found_and_chosen_for_a_cpu_slug() -> None:
    engine = install("cpu")
    engines, _ = find_engines()
    assert choose_engine(engines, "cpu", wanted=engine.id) == engine


def test_the_real_vllm_is_described_without_importing_it(
    tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An import of vLLM takes about ten seconds and one of torch more than one: a fresh look takes neither."""
    command = home_of(install("cpu").id) / "bin" / "vllm"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    before = work_seconds()
    probe_engine(command, "fresh")
    assert work_seconds() - before < 2.0


def test_the_shim_makes_vllm_state_the_cpu_build_and_torchvision_is_gone() -> None:
    engine = install("cpu")
    code = (
        "from importlib import metadata, util; print(metadata.version('vllm'), "
        "[name for name in ('torchvision', 'torchaudio', 'torchcodec') if util.find_spec(name)])"
    )
    said = subprocess.check_output([engine.python, "-I", "-c", code], text=True)
    assert said == f"{CPU_VERSION}+cpu []\n"
