"""Engines made of a real virtual environment and a vllm package that must never be imported."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

WNA16 = "model_executor/layers/quantization/compressed_tensors/schemes/compressed_tensors_wNa16.py"
MAPS = """
from vllm.scalar_type import scalar_types
WNA16_SUPPORTED_TYPES_MAP = {4: scalar_types.uint4b8, 8: scalar_types.uint8b128, 6: scalar_types.uint6b32}
WNA16_ZP_SUPPORTED_TYPES_MAP: dict = {4: scalar_types.uint4, 8: scalar_types.uint8}
"""

MakeEngine = Callable[..., Path]


def add_distribution(site: Path, name: str, version: str) -> None:
    """Put a distribution's metadata into ``site``."""
    folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def site_of(root: Path) -> Path:
    """The site-packages folder of the environment at ``root``."""
    return root / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"


def write_script(path: Path, text: str) -> Path:
    """An executable file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def put_in_path(monkeypatch: pytest.MonkeyPatch, *folders: Path) -> None:
    """Put ``folders`` before the rest of PATH."""
    monkeypatch.setenv("PATH", os.pathsep.join([*(str(folder) for folder in folders), os.environ["PATH"]]))
