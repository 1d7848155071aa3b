"""The inline PTX of the int8 overlay's kernel on a processor: 32 lanes a warp as arrays, for Triton's interpreter.

Knows the few instructions that cockpit_int8_kernel writes, by the PTX ISA's tables for m16n8k16.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import torch

Lanes = Any
"""An array of 32-bit values, one a thread: lane 4·r + c of each warp."""


def floats(word: Lanes, bf16: bool) -> tuple[Any, Any]:
    """The two 16-bit floats in every int32, low one first."""
    pair = torch.from_numpy(word.astype(np.uint32).view(np.int32).copy())
    kind = torch.bfloat16 if bf16 else torch.float16
    return tuple((pair >> shift).to(torch.int16).view(kind).float().numpy() for shift in (0, 16))


def words(low: Any, high: Any, bf16: bool) -> Lanes:
    """Two floats as 16-bit ones in one int32; they must be exact."""
    kind = torch.bfloat16 if bf16 else torch.float16
    halves = []
    for value in (low, high):
        exact = torch.from_numpy(np.ascontiguousarray(value, np.float32))
        assert torch.equal(exact.to(kind).float(), exact)
        halves.append(exact.to(kind).view(torch.int16).numpy().astype(np.uint16).astype(np.uint32))
    return halves[0] | halves[1] << 16


def prmt(a: Lanes, b: Lanes, selector: int) -> Lanes:
    """Four of the eight bytes of a (0 to 3) and b (4 to 7)."""
    source = [a >> (8 * i) & 255 for i in range(4)] + [b >> (8 * i) & 255 for i in range(4)]
    return sum(source[selector >> (4 * i) & 15] << (8 * i) for i in range(4))


def by_row(lanes: Any) -> Any:
    """[threads] → [warp, r, c]."""
    return lanes.reshape(-1, 8, 4)


def mma(a: list[Lanes], b: list[Lanes], c: list[Any], bf16: bool) -> list[Any]:
    """m16n8k16: rows r and r + 8 of a, columns 2c, 2c + 1, 2c + 8 and 2c + 9; b the same with columns r."""
    warps = a[0].size // 32
    left, right = np.zeros((warps, 16, 16), np.float32), np.zeros((warps, 16, 8), np.float32)
    for at, word in enumerate(a):
        for odd, value in enumerate(floats(word, bf16)):
            left[:, 8 * (at % 2) : 8 * (at % 2) + 8, 8 * (at // 2) + odd : 8 * (at // 2) + 8 : 2] = by_row(value)
    for at, word in enumerate(b):
        for odd, value in enumerate(floats(word, bf16)):
            right[:, 8 * at + odd : 8 * at + 8 : 2] = by_row(value).transpose(0, 2, 1)
    product = left @ right
    return [c[at] + product[:, 8 * (at // 2) : 8 * (at // 2) + 8, at % 2 :: 2].reshape(-1) for at in range(4)]


def run(text: str, given: list[Any], outputs: int, pack: int) -> tuple[Any, ...]:
    """The outputs of the assembly, [threads, pack] each, for inputs of that shape."""
    threads = given[0].shape[:1]
    regs: dict[str, Any] = {}
    for at, values in enumerate(given):
        for i in range(pack):
            lane = np.ascontiguousarray(values[..., i])
            regs[f"${pack * (outputs + at) + i}"] = lane if lane.dtype == np.float32 else lane.view(np.uint32)
    bf16 = "bf16" in text

    def value(name: str) -> Any:
        return regs[name] if name in regs else np.broadcast_to(np.uint32(int(name, 0)), threads)

    for line in text.strip("{} \n").splitlines():
        name, _, rest = line.strip().rstrip(";").partition(" ")
        target, *inputs = re.findall(r"[$\w]+", rest)
        if name == ".reg":
            continue
        if name.startswith("mma"):
            named = [target, *inputs]
            a, b, c = ([regs[n] for n in named[first:last]] for first, last in ((4, 8), (8, 10), (10, 14)))
            regs.update(zip(named[:4], mma(a, b, c, bf16), strict=True))
        elif name == "prmt.b32":
            regs[target] = prmt(value(inputs[0]), value(inputs[1]), int(inputs[2], 0))
        elif name == "shr.u32":
            regs[target] = value(inputs[0]) >> np.uint32(int(inputs[1], 0))
        elif name == "and.b32":
            regs[target] = value(inputs[0]) & value(inputs[1])
        elif name == "or.b32":
            regs[target] = value(inputs[0]) | value(inputs[1])
        elif name.startswith("fma"):
            pairs = [floats(value(n), bf16) for n in inputs]
            regs[target] = words(*(pairs[0][i] * pairs[1][i] + pairs[2][i] for i in range(2)), bf16)
        elif name.startswith("mov"):
            regs[target] = value(inputs[0])
        else:
            raise AssertionError(name)
    return tuple(np.stack([regs[f"${pack * at + i}"] for i in range(pack)], -1) for at in range(outputs))


def teach(interpreter: Any, language: Any) -> None:
    """Have Triton's interpreter run the assembly here."""

    class Results:
        def __init__(self, arrays: tuple[Any, ...]) -> None:
            self._arrays = arrays

        def get_result(self, at: int) -> Any:
            array = self._arrays[at]
            if array.dtype == np.float32:
                return interpreter.TensorHandle(array, language.float32)
            return interpreter.TensorHandle(array.view(np.int32), language.int32)

    def inline(self: Any, text: str, operands: str, values: Any, types: Any, pure: bool, pack: int) -> Results:
        return Results(run(text, [value.data for value in values], operands.count("=") // pack, pack))

    interpreter.InterpreterBuilder.create_inline_asm = inline
