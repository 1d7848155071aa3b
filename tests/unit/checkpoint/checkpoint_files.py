"""Checkpoints for tests: the shipped configs, and safetensors files made of a header and a hole."""

from __future__ import annotations

import copy
import json
import math
import struct
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "checkpoints"
BYTES = {"F16": 2, "BF16": 2, "F32": 4, "I32": 4, "I64": 8, "U8": 1, "I8": 1, "F8_E4M3": 1}


def config(name: str) -> dict[str, Any]:
    """A copy of a shipped config that may be changed."""
    return copy.deepcopy(json.loads((FIXTURES / name / "config.json").read_text()))


def write_config(folder: Path, value: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(value if isinstance(value, str) else json.dumps(value))
    return folder


def write_raw(file: Path, header: bytes, data_size: int, length: int | None = None) -> Path:
    """A safetensors file with that header and ``data_size`` bytes after it, which take no space on disk."""
    with file.open("wb") as handle:
        handle.write(struct.pack("<Q", len(header) if length is None else length) + header)
        handle.truncate(8 + len(header) + data_size)
    return file


def header_of(tensors: dict[str, tuple[str, list[int]]]) -> tuple[dict[str, Any], int]:
    """Header entries of tensors that lie one behind the other, and the bytes that they need."""
    at, entries = 0, {}
    for name, (dtype, shape) in tensors.items():
        size = math.prod(shape) * BYTES[dtype]
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    return entries, at


def write_tensors(file: Path, tensors: dict[str, tuple[str, list[int]]]) -> Path:
    entries, size = header_of(tensors)
    return write_raw(file, json.dumps({"__metadata__": {"format": "pt"}, **entries}).encode(), size)


def rebuild(name: str, folder: Path) -> Path:
    """A shipped real checkpoint with files as large as the true ones, of which the headers are true."""
    folder.mkdir(parents=True, exist_ok=True)
    source = FIXTURES / name
    for file in ("config.json", "model.safetensors.index.json"):
        if (source / file).exists():
            (folder / file).write_bytes((source / file).read_bytes())
    for file, content in json.loads((source / "headers.json").read_text()).items():
        header = content["header"].encode()
        write_raw(folder / file, header, content["size"] - 8 - len(header))
    return folder
