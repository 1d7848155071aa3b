# mypy: ignore-errors
"""Up to eight tokens, with their 16-bit activations, times a layer that Marlin packed for int8 ones.

Marlin's own kernel for few tokens takes weights that were packed for 16-bit activations; this one reads the packing
for 8-bit ones, so that no second copy of the weights is needed.

Layout (gptq_marlin_repack.cu with ``is_a_8bit``): tiles of 32 inputs x 32 outputs, those of the same inputs beside
one another; 128 words a tile, word (r·4 + c)·4 + w for output 8w + r. Its code 2i + h is that of input 16h + 4c + i.
Scales are int16 (marlin_act_int8_process_scales), output 8w + r of a tile at 8·(r // 2) + 2w + r % 2, as biases are.
Zero points: word r of 64 outputs has that of output 8j + r as its code j (marlin_zero_points).

So lane 4r + c of a warp that reads a tile in order holds what ``mma.m16n8k16`` wants of a 16 x 16 block of transposed
weights, if inputs 4c, 4c + 2, 4c + 1, 4c + 3 are called 2c, 2c + 1, 2c + 8, 2c + 9. Their sum does not mind.
"""

from __future__ import annotations

import triton
import triton.language as tl


def assembly(bf16: bool, half: int) -> str:
    """PTX of one lane: 16 inputs of a tile times eight tokens, added to the sums.

    Operands, four of each, one an output: $0 and $4 new sums of an even and an odd token, $8 words, $12 and $16 two
    activations each, $20 minus the zero points, $24 and $28 the sums before. ``half`` is which 16 of 32 inputs.

    A code becomes a float by its bits: 128 + code in bfloat16, 1024 + code in float16, less that and the zero point.
    """
    magic, one, pair, kind = (
        ("0x43004300", "0x3f803f80", "bf16x2", "bf16") if bf16 else ("0x64006400", "0x3c003c00", "f16x2", "f16")
    )
    lines = [
        ".reg .b32 even, odd, t, one, " + ", ".join(f"a{w}{k}" for w in range(4) for k in range(2)) + ";",
        ".reg .f32 d<8>;",
        "prmt.b32 even, $12, $16, 0x5410;",
        "prmt.b32 odd, $12, $16, 0x7632;",
        f"mov.b32 one, {one};",
    ]
    for w in range(4):
        for k in range(2):
            lines += [
                f"shr.u32 t, ${8 + w}, {4 * half + 8 * k};",
                f"lop3.b32 t, t, 0x000f000f, {magic}, 0xea;",
                f"fma.rn.{pair} a{w}{k}, t, one, ${20 + w};",
            ]
    for low in (0, 2):
        high = low + 1
        new = ", ".join(f"d{2 * low + i}" for i in range(4))
        weights = f"a{low}0, a{high}0, a{low}1, a{high}1"
        lines.append(
            f"mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32 {{{new}}}, {{{weights}}},"
            f" {{even, odd}}, {{${24 + low}, ${28 + low}, ${24 + high}, ${28 + high}}};"
        )
    for low in (0, 2):
        targets = (low, 4 + low, low + 1, 5 + low)
        lines += [f"mov.f32 ${target}, d{2 * low + i};" for i, target in enumerate(targets)]
    return "{ " + "\n".join(lines) + " }"


OPERANDS = ",".join(["=f"] * 8 + ["r"] * 16 + ["f"] * 8)


@triton.jit
def _words(weight, tile, columns, column, r, c, w):
    """One word a lane and output."""
    return tl.load(weight + (tile * columns + column) * 128 + (r * 4 + c) * 4 + w)


@triton.jit
def _four(x, place):
    """Four neighbouring activations of one token, as two int32."""
    four = tl.load(x + place)
    return four.to(tl.int32), (four >> 32).to(tl.int32)


@triton.jit
def _add(even, odd, words, low, high, less, text: tl.constexpr, operands: tl.constexpr):
    """The sums and what 16 more inputs add to them."""
    return tl.inline_asm_elementwise(
        text, operands, [words, low, high, less, even, odd], dtype=(tl.float32, tl.float32), is_pure=True, pack=4
    )


@triton.jit(do_not_specialize=["rows", "groups"])
def few_tokens(  # noqa: PLR0913, PLR0915, PLR0917 - as Triton takes it
    x,
    weight,
    scale,
    zero,
    factor,
    bias,
    out,
    rows,
    size_k,
    size_n,
    groups,
    assembly0: tl.constexpr,
    assembly1: tl.constexpr,
    operands: tl.constexpr,
    tiles: tl.constexpr,
    step: tl.constexpr,
    bf16: tl.constexpr,
    has_bias: tl.constexpr,
):
    """``out[rows, size_n]`` = x · weights for 1 to 8 ``rows``; one program of step warps a tile of 32 outputs.

    ``x`` is [rows, size_k] seen as int64, ``scale`` [groups, size_n] seen as int32, ``factor`` the float32 that all
    scales share. tiles (1, 2 or 4) of 32 inputs make a group of scales; each warp reads one group at once. Loads come
    first, so that all of them are under way together. Rows past the last repeat it, and are not stored.
    """
    column = tl.program_id(0)
    columns = size_n // 32
    c = tl.arange(0, 4)[:, None, None, None, None]
    r0 = tl.arange(0, 2)[None, :, None, None, None]
    r1 = tl.arange(0, 4)[None, None, :, None, None]
    g = tl.arange(0, step)[None, None, None, :, None]
    w = tl.arange(0, 4)[None, None, None, None, :]
    r = r1 * 2 + r0
    line = tl.minimum(r, rows - 1) * (size_k // 4) + c
    total_even = tl.zeros((4, 2, 4, step, 4), tl.float32)
    total_odd = total_even
    for first in range(0, groups, step):
        group = tl.minimum(first + g, groups - 1)
        pair = tl.load(scale + group * (size_n // 2) + column * 16 + r1 * 4 + w)
        s = tl.where(first + g < groups, (pair << (16 - 16 * r0)) >> 16, 0).to(tl.float32)
        codes = tl.load(zero + group * (size_n // 8) + (column // 2) * 8 + r)
        z = (codes >> (16 * (column % 2) + 4 * w)) & 15
        less = (z * 0x10001) | (-1023360256 if bf16 else -469703680)  # -(128 + z) or -(1024 + z), twice
        tile = group * tiles
        words0 = _words(weight, tile, columns, column, r, c, w)
        low0, high0 = _four(x, line + tile * 8)
        low1, high1 = _four(x, line + tile * 8 + 4)
        if tiles > 1:
            words1 = _words(weight, tile + 1, columns, column, r, c, w)
            low2, high2 = _four(x, line + tile * 8 + 8)
            low3, high3 = _four(x, line + tile * 8 + 12)
        if tiles > 2:
            words2 = _words(weight, tile + 2, columns, column, r, c, w)
            low4, high4 = _four(x, line + tile * 8 + 16)
            low5, high5 = _four(x, line + tile * 8 + 20)
            words3 = _words(weight, tile + 3, columns, column, r, c, w)
            low6, high6 = _four(x, line + tile * 8 + 24)
            low7, high7 = _four(x, line + tile * 8 + 28)
        even = tl.zeros((4, 2, 4, step, 4), tl.float32)
        odd = even
        even, odd = _add(even, odd, words0, low0, high0, less, assembly0, operands)
        even, odd = _add(even, odd, words0, low1, high1, less, assembly1, operands)
        if tiles > 1:
            even, odd = _add(even, odd, words1, low2, high2, less, assembly0, operands)
            even, odd = _add(even, odd, words1, low3, high3, less, assembly1, operands)
        if tiles > 2:
            even, odd = _add(even, odd, words2, low4, high4, less, assembly0, operands)
            even, odd = _add(even, odd, words2, low5, high5, less, assembly1, operands)
            even, odd = _add(even, odd, words3, low6, high6, less, assembly0, operands)
            even, odd = _add(even, odd, words3, low7, high7, less, assembly1, operands)
        total_even += even * s
        total_odd += odd * s
    y = tl.sum(tl.join(total_even, total_odd), 3) * tl.load(factor)  # [c, r0, r1, w, even or odd]
    r0 = tl.arange(0, 2)[None, :, None, None, None]
    r1 = tl.arange(0, 4)[None, None, :, None, None]
    w = tl.arange(0, 4)[None, None, None, :, None]
    if has_bias:
        y += tl.load(bias + column * 32 + 8 * r1 + 2 * w + r0).to(tl.float32)
    row = 2 * tl.arange(0, 4)[:, None, None, None, None] + tl.arange(0, 2)[None, None, None, None, :]
    place = row * size_n + column * 32 + 8 * w + 2 * r1 + r0
    tl.store(out + place, y.to(out.dtype.element_ty), mask=row < rows)


def launch(x, packed, size_k, size_n, groups, step):
    """Activations [rows, size_k], contiguous, in bfloat16 or float16 → [rows, size_n].

    ``packed`` has ``weight``, ``scale``, ``zero``, ``factor`` and ``bias`` (or None), tensors as Marlin keeps them.
    """
    import torch

    bf16 = x.dtype == torch.bfloat16
    out = torch.empty((x.shape[0], size_n), dtype=x.dtype, device=x.device)
    few_tokens[(size_n // 32,)](
        x.view(torch.int64),
        packed.weight,
        packed.scale.view(torch.int32),
        packed.zero,
        packed.factor,
        out if packed.bias is None else packed.bias,
        out,
        x.shape[0],
        size_k,
        size_n,
        groups,
        assembly0=assembly(bf16, 0),
        assembly1=assembly(bf16, 1),
        operands=OPERANDS,
        tiles=size_k // groups // 32,
        step=step,
        bf16=bf16,
        has_bias=packed.bias is not None,
        num_warps=step,
    )
    return out
