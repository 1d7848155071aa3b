"""Homes of their own for the rig's tests, and engines to find in them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from rig_fakes import MAPS, WNA16, MakeEngine, add_distribution, site_of, write_script


@pytest.fixture(autouse=True)
def homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Data and cache homes of this test alone, and a PATH without any vllm."""
    for name in ("DATA", "CACHE", "CONFIG", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / "xdg" / name.lower()))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return tmp_path / "xdg"


@pytest.fixture
def make_engine() -> MakeEngine:
    """Returns a function (root, distributions, package source files, shebang) -> the vllm command."""

    def make(
        root: Path,
        distributions: dict[str, str] | None = None,
        maps: str | None = MAPS,
        shebang: str | None = None,
        package: bool = True,
    ) -> Path:
        site = site_of(root)
        site.mkdir(parents=True)
        (root / "pyvenv.cfg").write_text(f"home = {Path(sys._base_executable).parent}\n")
        (root / "bin").mkdir()
        (root / "bin" / "python").symlink_to(Path(sys._base_executable).resolve())
        for name in ("vllm", "torch") if package else ():
            (site / name).mkdir()
            (site / name / "__init__.py").write_text("raise SystemExit('it was imported')\n")
        if package and maps is not None:
            source = site / "vllm" / WNA16
            source.parent.mkdir(parents=True)
            source.write_text(maps)
        for name, version in (distributions or {"vllm": "0.33.0", "torch": "2.14.0"}).items():
            add_distribution(site, name, version)
        line = shebang or f"#!{root}/bin/python"
        return write_script(root / "bin" / "vllm", f"{line}\nimport vllm\n")

    return make
