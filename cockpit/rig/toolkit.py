"""The CUDA toolkit of this host, and the folders that compiled kernels are kept in."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import msgspec

from cockpit import paths

_USUAL = Path("/usr/local/cuda")
_NUMBER = re.compile(r"(\d{1,3})\.(\d{1,3})")
_MAX_BYTES = 1 << 20


class _Part(msgspec.Struct, frozen=True):
    version: str


class _Versions(msgspec.Struct, frozen=True):
    """``version.json`` of a toolkit."""

    cuda: _Part | None = None
    cuda_nvcc: _Part | None = None


def cuda_toolkit(environ: Mapping[str, str]) -> tuple[int, int] | None:
    """Version of the toolkit whose nvcc PyTorch's extension builder and FlashInfer take; None when there is none.

    They look at CUDA_HOME, then CUDA_PATH, then nvcc in PATH, then /usr/local/cuda. Nothing is run.
    """
    for folder in _folders(environ):
        if (folder / "bin" / "nvcc").exists():
            return _version_of(folder)
    return None


def _folders(environ: Mapping[str, str]) -> list[Path]:
    named = environ.get("CUDA_HOME") or environ.get("CUDA_PATH")
    if named:
        return [Path(named)]
    found = shutil.which("nvcc", path=environ.get("PATH"))
    return [_USUAL] if found is None else [Path(found).resolve().parents[1]]


def _version_of(folder: Path) -> tuple[int, int] | None:
    try:
        with (folder / "version.json").open("rb") as handle:
            found = msgspec.json.decode(paths.read_up_to(handle, _MAX_BYTES), type=_Versions)
    except (OSError, msgspec.MsgspecError):
        # A toolkit of a distribution has no such file, and its folder may bear the number.
        return _pair(folder.resolve().name)
    part = found.cuda_nvcc or found.cuda
    return None if part is None else _pair(part.version)


def _pair(text: str) -> tuple[int, int] | None:
    match = _NUMBER.search(text)
    return None if match is None else (int(match[1]), int(match[2]))


def kernel_caches(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Folders that vLLM, Triton and FlashInfer keep compiled things in, there or not."""
    home = Path(environ.get("HOME") or "~").expanduser()
    cache = Path(environ.get("XDG_CACHE_HOME") or home / ".cache")
    vllm = environ.get("VLLM_CACHE_ROOT")
    triton = environ.get("TRITON_CACHE_DIR")
    return (
        Path(vllm).expanduser() if vllm else cache / "vllm",
        Path(triton).expanduser() if triton else home / ".triton",
        scratch_folder(environ),
    )


def scratch_folder(environ: Mapping[str, str]) -> Path:
    """Where Python makes temporary files: the first folder that it can write to, whatever TMPDIR says.

    Mirrors _candidate_tempdir_list of tempfile; the first that is named where it can write to none.
    """
    named = [environ[name] for name in ("TMPDIR", "TEMP", "TMP") if environ.get(name)]
    places = [Path(name) for name in (*named, "/tmp", "/var/tmp", "/usr/tmp")]
    return next((place for place in places if place.is_dir() and os.access(place, os.W_OK | os.X_OK)), places[0])
