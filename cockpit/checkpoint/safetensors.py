"""Headers of safetensors files: names, types and shapes of all tensors, never a weight.

Format: 8 bytes with the length of the header (little endian), the header as JSON, then the tensors without gaps.
"""

from __future__ import annotations

import json
import math
import stat
import struct
from pathlib import Path
from typing import Any

from cockpit.checkpoint.keys import fail_reading, read_json, shown
from cockpit.checkpoint.types import Frozen
from cockpit.errors import CockpitError

MAX_HEADER_BYTES = 64 * 1024**2
MAX_INDEX_BYTES = 128 * 1024**2
MAX_SHARDS = 2048
MAX_DIMENSIONS = 8
INDEX = "model.safetensors.index.json"
_FIX = "Download the checkpoint again."
_TYPE_BITS = {
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("I16", "U16", "F16", "BF16"), 16),
    **dict.fromkeys(("I32", "U32", "F32"), 32),
    **dict.fromkeys(("I64", "U64", "F64", "C64"), 64),
}


class Tensor(Frozen, frozen=True, kw_only=True):
    """One tensor as its header describes it."""

    dtype: str
    shape: tuple[int, ...]
    size: int
    """Bytes."""


def _fail(file: Path, problem: str, detail: str = "") -> CockpitError:
    return CockpitError(f"{file}: {problem}", detail, _FIX)


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise KeyError("a key stands twice")
    return result


def _header(file: Path) -> tuple[dict[str, Any], int]:
    """The header's JSON and the number of bytes that follow it."""
    try:
        status = file.stat()
        # Before it is opened: a pipe would keep whoever opens it waiting.
        if not stat.S_ISREG(status.st_mode):
            raise _fail(file, "not a file")
        with file.open("rb") as handle:
            start = handle.read(8)
            if len(start) < 8:
                raise _fail(file, "truncated", f"it has {len(start)} bytes")
            (length,) = struct.unpack("<Q", start)
            if length > MAX_HEADER_BYTES:
                raise _fail(file, "not a safetensors file", f"its header would have {length:,} bytes")
            if length > status.st_size - 8:
                raise _fail(file, "truncated", f"the header has {length:,} bytes, the file {status.st_size:,}")
            data = handle.read(length)
    except OSError as error:
        raise fail_reading(file, error) from error
    if len(data) < length:
        raise _fail(file, "truncated while it was read")
    return _parse(data, file), status.st_size - 8 - length


def _parse(data: bytes, file: Path) -> dict[str, Any]:
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=_no_duplicates)
    except KeyError as error:
        raise _fail(file, "the header names a tensor twice") from error
    except UnicodeDecodeError as error:
        raise _fail(file, "the header is not UTF-8") from error
    except (ValueError, RecursionError) as error:
        raise _fail(file, "the header is not JSON") from error
    if not isinstance(value, dict):
        raise _fail(file, "the header is not a JSON object")
    return value


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62


def _tensor(file: Path, name: str, entry: Any) -> tuple[Tensor, int]:
    """The tensor and the byte at which it begins."""
    named = shown(name)
    if not isinstance(entry, dict):
        raise _fail(file, f"tensor {named} has no description")
    dtype, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in _TYPE_BITS:
        raise _fail(file, f"tensor {named} is of an unknown type", shown(dtype))
    if not isinstance(shape, list) or len(shape) > MAX_DIMENSIONS or not all(map(_is_count, shape)):
        raise _fail(file, f"tensor {named} has no valid shape", shown(shape))
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_count, offsets)):
        raise _fail(file, f"tensor {named} has no valid data_offsets", shown(offsets))
    begin, end = offsets
    bits = math.prod(shape) * _TYPE_BITS[dtype]
    if (end - begin) * 8 != bits:
        raise _fail(
            file,
            f"tensor {named} is not as large as its shape says",
            f"{end - begin:,} bytes for {shown(dtype)} × {shown(math.prod(shape))}",
        )
    return Tensor(dtype=dtype, shape=tuple(shape), size=end - begin), begin


def read_header(file: Path) -> dict[str, Tensor]:
    """Name → tensor of one safetensors file. Symbolic links are followed.

    Raises CockpitError naming the file when it is truncated, too long, not valid, or when the tensors do not fill
    exactly the bytes after the header.
    """
    header, room = _header(file)
    tensors: dict[str, Tensor] = {}
    spans: list[tuple[int, int, str]] = []
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        tensor, begin = _tensor(file, name, entry)
        tensors[name] = tensor
        spans.append((begin, begin + tensor.size, name))
    at = 0
    for begin, end, name in sorted(spans):
        if end > room:
            raise _fail(file, "truncated", f"tensor {shown(name)} ends {end - room:,} bytes beyond the file")
        if begin != at:
            problem = "overlaps another" if begin < at else "leaves a gap before it"
            raise _fail(file, f"tensor {shown(name)} {problem}")
        at = end
    if at != room:
        raise _fail(file, "larger than its header says", f"{room - at:,} bytes more")
    return tensors


def _indexed(index: Path) -> dict[str, str]:
    """Tensor → shard of an index file."""
    weight_map = read_json(index, MAX_INDEX_BYTES).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise _fail(index, "it has no weight_map")
    for shard in weight_map.values():
        if not isinstance(shard, str) or not shard.isprintable() or Path(shard).name != shard or shard in ("", ".."):
            raise _fail(index, "a shard must be a file beside it", shown(shard))
    if len(set(weight_map.values())) > MAX_SHARDS:
        raise _fail(index, f"more than {MAX_SHARDS:,} shards")
    return weight_map


def _exists(file: Path) -> bool:
    return file.exists() or file.is_symlink()


def _loose(folder: Path) -> list[Path]:
    """The weight files of a folder without an index: Mistral's second copy and adapters are left out."""
    try:
        files = sorted(file for file in folder.iterdir() if file.name.endswith(".safetensors"))
    except OSError as error:
        raise fail_reading(folder, error) from error
    weights = [file for file in files if not file.name.startswith(("consolidated", "adapter_"))]
    if len(files) > MAX_SHARDS:
        raise _fail(folder, f"more than {MAX_SHARDS:,} safetensors files")
    return weights or [file for file in files if file.name.startswith("consolidated")]


def _merged(files: list[Path]) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    for file in files:
        header = read_header(file)
        for name in header:
            if name in tensors:
                raise _fail(file, f"tensor {shown(name)} is in another file too")
        tensors.update(header)
    return tensors


def read_folder(folder: Path) -> dict[str, Tensor] | None:
    """Name → tensor of the weights in ``folder``, over all shards; None when it has no safetensors files.

    An index without any of its shards counts as no files: config and index alone are a common partial download.
    Raises CockpitError naming the file that is missing or wrong.
    """
    index = folder / INDEX
    if not _exists(index):
        files = _loose(folder)
        return _merged(files) if files else None
    weight_map = _indexed(index)
    shards = [folder / name for name in sorted(set(weight_map.values()))]
    if not any(_exists(shard) for shard in shards):
        return None
    tensors = _merged(shards)
    for name in weight_map:
        if name not in tensors:
            raise _fail(index, f"tensor {shown(name)} is not in {weight_map[name]}")
    return tensors
