"""The command line in this process, on homes of its own, without any vLLM unless a test makes one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_done import Cockpit, Done

from cockpit import paths
from cockpit.cli.main import main


@pytest.fixture(autouse=True)
def homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for kind in ("CONFIG", "DATA", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / "xdg" / kind.lower()))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    for variable in ("VLLM_API_KEY", "VLLM_MARLIN_INPUT_DTYPE", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(variable, raising=False)
    # What else serves on this host and what its processor has are none of these tests' business.
    monkeypatch.setattr("cockpit.rig.facts.has_amx", lambda: False)
    monkeypatch.setattr("cockpit.supervisor.others.find_foreign", lambda _: ())
    monkeypatch.setattr("cockpit.supervisor.others.find_settled_leftovers", tuple)
    return tmp_path / "xdg"


@pytest.fixture
def cockpit(capsys: pytest.CaptureFixture[str]) -> Cockpit:
    def run(*words: str) -> Done:
        capsys.readouterr()
        try:
            code = main(list(words))
        except SystemExit as end:  # --help and --version
            code = end.code if isinstance(end.code, int) else 1
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        assert "bug in cockpit" not in err, err
        return Done(code, out, err)

    return run


@pytest.fixture
def refused(cockpit: Cockpit) -> Callable[..., str]:
    """Run a command that must end as one sentence on stderr, with exit code 2, and nothing on stdout."""

    def run(*words: str) -> str:
        done = cockpit(*words)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("cockpit: ")
        assert done.err.count("\n") == 1
        assert done.err.endswith((".\n", "?\n"))
        return done.err.removeprefix("cockpit: ").rstrip()

    return run


@pytest.fixture
def write_slug() -> Callable[[str, str], Path]:
    """Put a file into the user's slug folder."""

    def write(name: str, text: str) -> Path:
        paths.user_slugs().mkdir(parents=True, exist_ok=True)
        file = paths.user_slugs() / name
        file.write_text(text, encoding="utf-8")
        return file

    return write


@pytest.fixture
def cpu_engine(tmp_path: Path) -> Path:
    """A virtual environment whose vllm says that it is a CPU build; its package cannot be imported."""
    root = tmp_path / "engine"
    site = root / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    for name in ("vllm", "torch"):
        (site / name).mkdir(parents=True)
        (site / name / "__init__.py").write_text("raise SystemExit('it was imported')\n")
    for name, version in {"vllm": "0.32.0+cpu", "torch": "2.14.0+cpu"}.items():
        (site / f"{name}-{version}.dist-info").mkdir()
        (site / f"{name}-{version}.dist-info" / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
    base = Path(sys._base_executable).resolve()  # type: ignore[attr-defined]
    (root / "pyvenv.cfg").write_text(f"home = {base.parent}\n")
    (root / "bin").mkdir()
    (root / "bin" / "python").symlink_to(base)
    command = root / "bin" / "vllm"
    command.write_text(f"#!{root}/bin/python\n")
    command.chmod(0o755)
    return command
