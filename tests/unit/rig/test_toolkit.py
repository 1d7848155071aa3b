"""The CUDA toolkit and the folders of compiled kernels."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cockpit.rig.toolkit import cuda_toolkit, kernel_caches, scratch_folder


def toolkit(folder: Path, version: str | None = None) -> Path:
    (folder / "bin").mkdir(parents=True)
    nvcc = folder / "bin" / "nvcc"
    nvcc.write_text("#!/bin/sh\nexit 1\n")
    nvcc.chmod(0o755)
    if version is not None:
        (folder / "version.json").write_text(version)
    return folder


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"cuda": {"name": "CUDA SDK", "version": "12.4.1"}}', (12, 4)),
        ('{"cuda_nvcc": {"name": "nvcc", "version": "13.0.88"}, "cuda": {"version": "12.9.0"}}', (13, 0)),
        ("{", None),
        ('{"cuda": {"version": "none"}}', None),
    ],
)
def test_a_named_toolkit_counts_and_says_its_version(
    tmp_path: Path, text: str, expected: tuple[int, int] | None
) -> None:
    folder = toolkit(tmp_path / "home", text)
    assert cuda_toolkit({"CUDA_HOME": str(folder), "PATH": ""}) == expected


def test_without_its_file_the_folders_name_counts(tmp_path: Path) -> None:
    folder = toolkit(tmp_path / "cuda-12.8")
    (tmp_path / "cuda").symlink_to(folder)
    assert cuda_toolkit({"CUDA_HOME": str(tmp_path / "cuda")}) == (12, 8)


def test_nvcc_in_the_path_is_found_and_a_folder_without_it_is_none(tmp_path: Path) -> None:
    folder = toolkit(tmp_path / "cuda-12.6", '{"cuda": {"version": "12.6.2"}}')
    assert cuda_toolkit({"PATH": str(folder / "bin")}) == (12, 6)
    assert cuda_toolkit({"CUDA_HOME": str(tmp_path / "no"), "PATH": str(folder / "bin")}) is None


def test_caches_follow_their_variables(tmp_path: Path) -> None:
    plain = kernel_caches({"HOME": "/home/u"})
    assert [str(place) for place in plain] == ["/home/u/.cache/vllm", "/home/u/.triton", "/tmp"]
    moved = {"HOME": "/h", "VLLM_CACHE_ROOT": "/v", "TRITON_CACHE_DIR": "/t", "XDG_CACHE_HOME": "/c"}
    places = kernel_caches({**moved, "TMPDIR": str(tmp_path)})
    assert [str(place) for place in places] == ["/v", "/t", str(tmp_path)]


def test_temporary_files_go_where_python_puts_them(tmp_path: Path) -> None:
    gone, here = str(tmp_path / "gone"), str(tmp_path)
    for environ in ({"TMPDIR": gone}, {"TMPDIR": gone, "TEMP": here}, {"TMPDIR": here}, {"TMP": here}, {}):
        told = subprocess.run(
            [sys.executable, "-c", "import tempfile; print(tempfile.gettempdir())"],
            env=environ,
            capture_output=True,
            text=True,
            check=True,
        )
        assert str(scratch_folder(environ)) == told.stdout.strip()
