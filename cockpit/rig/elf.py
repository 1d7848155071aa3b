"""Which libraries a compiled file needs: the DT_NEEDED entries of 64-bit little-endian ELF, in a few kilobytes."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import BinaryIO

_RUNTIME = re.compile(r"libcudart\.so\.(\d{1,3})(?:\.\d+)*")
_LOAD, _DYNAMIC = 1, 2
_NEEDED, _STRTAB = 1, 5
_MAX_HEADERS, _MAX_ENTRIES, _MAX_NAME = 64, 4096, 256


def cuda_of_kernels(package: Path) -> int | None:
    """Major version of the CUDA runtime that a package's compiled files need; None where none of them needs one."""
    for file in sorted(package.glob("*.so")):
        for library in needed_libraries(file) or ():
            match = _RUNTIME.fullmatch(library)
            if match is not None:
                return int(match[1])
    return None


def needed_libraries(file: Path) -> tuple[str, ...] | None:
    """Names as the linker wrote them, e.g. ``libcudart.so.13``; None when it is no such file."""
    try:
        with file.open("rb") as handle:
            return _needed(handle)
    except (OSError, ValueError, OverflowError, struct.error):
        return None


def _needed(handle: BinaryIO) -> tuple[str, ...] | None:
    head = handle.read(64)
    if head[:6] != b"\x7fELF\x02\x01":
        return None
    (offset,), (size, count) = struct.unpack_from("<Q", head, 32), struct.unpack_from("<HH", head, 54)
    handle.seek(offset)
    table = handle.read(size * min(count, _MAX_HEADERS))
    # Of each program header: type, offset in the file, address, size in the file.
    headers = [
        (struct.unpack_from("<I", table, at)[0], *struct.unpack_from("<QQ", table, at + 8), at)
        for at in range(0, len(table) - 55, size)
    ]
    dynamic = next((header for header in headers if header[0] == _DYNAMIC), None)
    if dynamic is None:
        return ()
    handle.seek(dynamic[1])
    length = min(struct.unpack_from("<Q", table, dynamic[3] + 32)[0], 16 * _MAX_ENTRIES)
    entries = list(struct.iter_unpack("<qQ", handle.read(length // 16 * 16)))
    address = next((value for tag, value in entries if tag == _STRTAB), None)
    loads = [(start, first) for kind, start, first, _ in headers if kind == _LOAD]
    base = None if address is None else _in_file(address, loads)
    if base is None:
        return ()
    return tuple(_name(handle, base + value) for tag, value in entries if tag == _NEEDED)


def _in_file(address: int, loads: list[tuple[int, int]]) -> int | None:
    """Where an address lies in the file; segments are in order of address."""
    below = [(start, first) for start, first in loads if first <= address]
    return None if not below else below[-1][0] + address - below[-1][1]


def _name(handle: BinaryIO, offset: int) -> str:
    handle.seek(offset)
    return handle.read(_MAX_NAME).split(b"\0", 1)[0].decode("ascii", errors="replace")
