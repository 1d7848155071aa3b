"""What compiled files need, read from the files themselves."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.rig.elf import cuda_of_kernels, needed_libraries

MADE = ("libc.so.6", "libcudart.so.13", "libtorch_cuda.so")


def elf(*libraries: str) -> bytes:
    """A file with one segment at address 0x1000 that holds the strings and the dynamic section."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name in libraries)
    offsets = [names.index(name.encode()) for name in libraries]
    start, address = 64 + 2 * 56, 0x1000
    entries = [(1, offset) for offset in offsets] + [(5, address), (0, 0)]
    dynamic = b"".join(struct.pack("<qQ", tag, value) for tag, value in entries)
    size = len(names) + len(dynamic)
    head = (
        b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0)
    )
    load = struct.pack("<IIQQQQQQ", 1, 5, start, address, address, size, size, 0x1000)
    at = len(names)
    table = struct.pack("<IIQQQQQQ", 2, 4, start + at, address + at, address + at, len(dynamic), len(dynamic), 8)
    return head + load + table + names + dynamic


def test_the_needed_libraries_of_a_made_file(tmp_path: Path) -> None:
    (tmp_path / "_C.abi3.so").write_bytes(elf(*MADE))
    assert needed_libraries(tmp_path / "_C.abi3.so") == MADE
    (tmp_path / "_A.abi3.so").write_bytes(elf("libc.so.6"))
    assert cuda_of_kernels(tmp_path) == 13


def test_the_libraries_of_this_python_are_among_those_it_has_loaded() -> None:
    program = Path(sys.executable).resolve()
    needed = needed_libraries(program)
    assert needed is not None and any(name.startswith("libc.so") for name in needed)
    loaded = {Path(region.path).name for region in psutil.Process().memory_maps()}
    assert {name for name in needed if name.startswith(("libc.so", "libm.so"))} <= loaded


@pytest.mark.parametrize("data", [b"", b"#!/bin/sh\n", b"\x7fELF\x01\x01", elf(*MADE)[:200]])
def test_other_files_need_nothing(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "x.so"
    file.write_bytes(data)
    assert not needed_libraries(file)
    assert cuda_of_kernels(tmp_path) is None
    assert needed_libraries(tmp_path / "no.so") is None


@given(st.binary(max_size=60), st.integers(0, 300))
def test_any_damage_is_survived(tmp_path_factory: pytest.TempPathFactory, damage: bytes, at: int) -> None:
    file = tmp_path_factory.getbasetemp() / "damaged.so"
    whole = bytearray(elf(*MADE))
    whole[at : at + len(damage)] = damage
    file.write_bytes(bytes(whole))
    found = needed_libraries(file)
    assert found is None or all(isinstance(name, str) for name in found)
