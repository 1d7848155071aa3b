"""The memory of the screen's process, as the C library sees it."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import ctypes, sys, threading
from cockpit.tui.heap import share_one_heap
if sys.argv[1] == "shared":
    share_one_heap()
gate = threading.Barrier(5)
def hold():
    kept = bytearray(100_000)
    gate.wait()
    gate.wait()
threads = [threading.Thread(target=hold) for _ in range(4)]
for one in threads:
    one.start()
gate.wait()
libc = ctypes.CDLL(None)
libc.fdopen.restype = ctypes.c_void_p
out = ctypes.c_void_p(libc.fdopen(1, b"w"))
libc.malloc_info(0, out)
libc.fflush(out)
gate.wait()
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have one heap, or no such setting")
def test_threads_share_one_heap_once_it_is_asked_for() -> None:
    def heaps(how: str) -> int:
        done = subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True)
        return done.stdout.count("<heap nr=")

    assert heaps("as it was") > 1
    assert heaps("shared") == 1
