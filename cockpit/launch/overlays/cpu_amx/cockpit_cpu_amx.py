"""Leave to use AMX tiles, which Linux gives a process that asks for it (arch/x86/xstate), as a vLLM plugin.

vLLM's CPU build takes its AMX kernels wherever the processor has tiles. Where nothing else in the process asked
before, the first request ends it with an illegal instruction. Nothing of vLLM is patched, so no version is refused.
"""

from __future__ import annotations

import ctypes
import os

import cockpit_overlay as overlay

ID = "cpu-amx"
SWITCH = "COCKPIT_CPU_AMX"
_ARCH_PRCTL = 158
_GET_PERMISSIONS, _ASK_PERMISSION = 0x1022, 0x1023
_TILE_DATA = 18
"""Number of the state component (XFEATURE_XTILEDATA)."""


def register() -> None:
    """Called by vLLM in every process of its own; does nothing while the switch is not set."""
    if os.environ.get(SWITCH) == "1":
        overlay.say(ID, asked())


def asked() -> str:
    """Ask, and what came of it; the answer holds for this process and its threads, and for what it forks."""
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long
    granted = ctypes.c_uint64()
    before = syscall(_ARCH_PRCTL, _GET_PERMISSIONS, ctypes.byref(granted))
    if before == 0 and granted.value >> _TILE_DATA & 1:
        return "needless: this process may use AMX tiles already"
    if syscall(_ARCH_PRCTL, _ASK_PERMISSION, ctypes.c_ulong(_TILE_DATA)) == 0:
        return "this process may use AMX tiles"
    return f"the kernel refuses AMX tiles: {os.strerror(ctypes.get_errno())}"
