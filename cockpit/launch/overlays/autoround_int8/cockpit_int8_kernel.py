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

So every array here has a line for each thread of a program, 32 a warp, which leaves no compiler a choice of lanes.

Four bits at the lower end of a 16-bit float are a subnormal number, in proportion to them: a code that is masked is
an operand. Its exponent is made up for with the activations and at the end, zero points by the sum of the inputs.
"""

from __future__ import annotations

import functools

import triton
import triton.language as tl

BF16_UNIT, F16_UNIT = 2.0**-43, 2.0**-24
"""What a code of 1 times an activation of 1 comes to: the least subnormals, bfloat16's times 2**90."""


def fragment(bf16: bool, half: int) -> str:
    """PTX: two times two activations of one token, $2 and $3, in the order of mma's operand: $0 and $1.

    ``half`` is which 16 of a tile's 32 inputs. In bfloat16 they are multiplied by 2**90, and by 2**86 for the codes
    that are masked four bits higher: exact up to 2**38.
    """
    lines = [
        ".reg .b32 even, odd, power, nil;",
        "prmt.b32 even, $2, $3, 0x5410;",
        "prmt.b32 odd, $2, $3, 0x7632;",
    ]
    if bf16:
        lines += [
            f"mov.b32 power, {('0x6c806c80', '0x6a806a80')[half]};",
            "mov.b32 nil, 0x80008000;",
            "fma.rn.bf16x2 $0, even, power, nil;",
            "fma.rn.bf16x2 $1, odd, power, nil;",
        ]
    else:
        lines += ["mov.b32 $0, even;", "mov.b32 $1, odd;"]
    return _block(lines)


def sums(bf16: bool) -> str:
    """PTX: the sums of an even and an odd token's inputs, $6 and $7, with the 32 of $2 to $5 added: $0 and $1."""
    second = "0x00100010" if bf16 else "0x00010001"
    return _block(
        [
            ".reg .b32 one, two;",
            ".reg .f32 p, q, r, s, t, u;",
            "mov.b32 one, 0x00010001;",
            f"mov.b32 two, {second};",
            _mma(bf16, "p, q, r, s", "one, one, one, one", "$2, $3", "$6, $7, $6, $7"),
            _mma(bf16, "$0, $1, t, u", "two, two, two, two", "$4, $5", "p, q, r, s"),
        ]
    )


def products(bf16: bool) -> str:
    """PTX of one lane: a tile's 32 inputs times eight tokens, added to the sums.

    Operands, four of each, one an output: $0 and $4 new sums of an even and an odd token, $8 words, $12 and $16 the
    activations of one half, $20 and $24 of the other, $28 and $32 the sums before.
    """
    lines = [
        ".reg .b32 t, " + ", ".join(f"a{half}{w}{k}" for half in range(2) for w in range(4) for k in range(2)) + ";",
        ".reg .f32 d<8>, e<8>;",
    ]
    for w in range(4):
        word = f"${8 + w}"
        if bf16:
            lines += [f"shr.u32 t, {word}, 8;"]
            for half, mask in enumerate(("0x000f000f", "0x00f000f0")):
                lines += [f"and.b32 a{half}{w}0, {word}, {mask};", f"and.b32 a{half}{w}1, t, {mask};"]
        else:
            for half, k in ((0, 0), (0, 1), (1, 0), (1, 1)):
                lines += [f"shr.u32 t, {word}, {4 * half + 8 * k};", f"and.b32 a{half}{w}{k}, t, 0x000f000f;"]
    for low in (0, 2):
        high = low + 1
        before = f"${28 + low}, ${32 + low}, ${28 + high}, ${32 + high}"
        for half, into in enumerate("de"):
            weights = f"a{half}{low}0, a{half}{high}0, a{half}{low}1, a{half}{high}1"
            after = ", ".join(f"{into}{2 * low + i}" for i in range(4))
            lines.append(_mma(bf16, after, weights, f"${12 + 8 * half}, ${16 + 8 * half}", before))
            before = after
        lines += [f"mov.f32 ${target}, e{2 * low + i};" for i, target in enumerate((low, 4 + low, high, 4 + high))]
    return _block(lines)


def together(words: int, inputs: int) -> str:
    """PTX: the first four words again, $0 to $3, once every word and input was loaded.

    Left to itself, the compiler moves loads down to where each is used, and a warp waits for memory again and again.
    The words are ORed with the AND of all others and of the last operand, which is 0, and no compiler can know.
    """
    others = [f"${4 * (2 + at)}" for at in range(words - 1 + inputs + 1)]
    lines = [".reg .b32 t;", f"mov.b32 t, {others[0]};"]
    lines += [f"and.b32 t, t, {other};" for other in others[1:]]
    lines += [f"or.b32 ${w}, ${4 + w}, t;" for w in range(4)]
    return _block(lines)


def _block(lines: list[str]) -> str:
    return "{ " + "\n".join(lines) + " }"


def _mma(bf16: bool, d: str, a: str, b: str, c: str) -> str:
    kind = "bf16" if bf16 else "f16"
    return f"mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32 {{{d}}}, {{{a}}}, {{{b}}}, {{{c}}};"


def _operands(results: str, count: int, given: list[tuple[str, int]]) -> str:
    """Constraints: ``count`` results, then so many of each kind."""
    return ",".join([f"={results}"] * count + [kind for kind, times in given for _ in range(times)])


FRAGMENT = tl.constexpr(_operands("r", 2, [("r", 2)]))
SUMS = tl.constexpr(_operands("f", 2, [("r", 4), ("f", 2)]))
PRODUCTS = tl.constexpr(_operands("f", 8, [("r", 20), ("f", 8)]))


@triton.jit
def _low(four):
    return four.to(tl.int32)


@triton.jit
def _tile(  # noqa: PLR0913, PLR0917 - as Triton takes it
    even,
    odd,
    sum_even,
    sum_odd,
    words,
    first,
    second,
    order0: tl.constexpr,
    order1: tl.constexpr,
    sum_up: tl.constexpr,
    multiply: tl.constexpr,
):
    """What 32 inputs add: to the products of an even and an odd token, and to their sums."""
    a, b = tl.inline_asm_elementwise(
        order0, FRAGMENT, [_low(first), _low(first >> 32)], dtype=(tl.int32, tl.int32), is_pure=True, pack=1
    )
    c, d = tl.inline_asm_elementwise(
        order1, FRAGMENT, [_low(second), _low(second >> 32)], dtype=(tl.int32, tl.int32), is_pure=True, pack=1
    )
    sum_even, sum_odd = tl.inline_asm_elementwise(
        sum_up, SUMS, [a, b, c, d, sum_even, sum_odd], dtype=(tl.float32, tl.float32), is_pure=True, pack=1
    )
    even, odd = tl.inline_asm_elementwise(
        multiply, PRODUCTS, [words, a, b, c, d, even, odd], dtype=(tl.float32, tl.float32), is_pure=True, pack=4
    )
    return even, odd, sum_even, sum_odd


@triton.jit(do_not_specialize=["rows", "groups", "nothing"])
def few_tokens(  # noqa: PLR0913, PLR0915, PLR0917 - as Triton takes it
    x,
    weight,
    scale,
    zero,
    factor,
    bias,
    partial,
    arrived,
    out,
    rows,
    size_k,
    size_n,
    groups,
    nothing,
    order0: tl.constexpr,
    order1: tl.constexpr,
    sum_up: tl.constexpr,
    multiply: tl.constexpr,
    wait: tl.constexpr,
    wait_operands: tl.constexpr,
    unit: tl.constexpr,
    tiles: tl.constexpr,
    step: tl.constexpr,
    split: tl.constexpr,
    has_bias: tl.constexpr,
):
    """``out[rows, size_n]`` = x · weights for 1 to 8 ``rows``; split programs of step warps a tile of 32 outputs.

    ``x`` is [rows, size_k] seen as int64, ``scale`` [groups, size_n] seen as int32, ``factor`` the float32 that all
    scales share, ``nothing`` 0. tiles (1, 2 or 4) of 32 inputs make a group of scales; each warp reads one group at
    once. Rows past the last repeat it, and are not stored.

    Programs that share a tile's inputs leave their sums in ``partial`` [split, 8 · size_n] and count themselves in
    ``arrived`` [size_n / 32], which is 0 before and after; the last one adds up, always in the same order.
    """
    column = tl.program_id(0)
    columns = size_n // 32
    thread = tl.arange(0, 32 * step)[:, None]
    warp, lane = thread // 32, thread % 32
    r, c = lane // 4, lane % 4
    w = tl.arange(0, 4)[None, :]
    x += tl.minimum(r, rows - 1) * (size_k // 4) + c
    weight += column * 128 + lane * 4 + w
    scale += column * 16 + (r // 2) * 4 + w
    zero += (column // 2) * 8 + r
    total_even = tl.zeros((32 * step, 4), tl.float32)
    total_odd = total_even
    share = tl.cdiv(groups, split)
    end = tl.minimum((tl.program_id(1) + 1) * share, groups)
    for first in tl.range(tl.program_id(1) * share, end, step, num_stages=1):
        group = tl.minimum(first + warp, end - 1)
        pair = tl.load(scale + group * (size_n // 2), mask=first + warp < end, other=0)
        codes = tl.load(zero + group * (size_n // 8))
        tile = weight + group * (tiles * 128 * columns)
        words0 = tl.load(tile)
        four = x + group * (tiles * 8)
        x0 = tl.load(four)
        x1 = tl.load(four + 4)
        if tiles == 1:
            loaded = [words0, _low(x0), _low(x1), nothing]
        if tiles > 1:
            words1 = tl.load(tile + 128 * columns)
            x2 = tl.load(four + 8)
            x3 = tl.load(four + 12)
        if tiles == 2:
            loaded = [words0, words1, _low(x0), _low(x1), _low(x2), _low(x3), nothing]
        if tiles > 2:
            words2 = tl.load(tile + 256 * columns)
            words3 = tl.load(tile + 384 * columns)
            x4 = tl.load(four + 16)
            x5 = tl.load(four + 20)
            x6 = tl.load(four + 24)
            x7 = tl.load(four + 28)
            # fmt: off
            loaded = [words0, words1, words2, words3,
                      _low(x0), _low(x1), _low(x2), _low(x3), _low(x4), _low(x5), _low(x6), _low(x7), nothing]
            # fmt: on
        words0 = tl.inline_asm_elementwise(wait, wait_operands, loaded, dtype=tl.int32, is_pure=True, pack=4)
        even = tl.zeros((32 * step, 4), tl.float32)
        odd = even
        each = tl.zeros((32 * step, 1), tl.float32)
        other = each
        even, odd, each, other = _tile(even, odd, each, other, words0, x0, x1, order0, order1, sum_up, multiply)
        if tiles > 1:
            even, odd, each, other = _tile(even, odd, each, other, words1, x2, x3, order0, order1, sum_up, multiply)
        if tiles > 2:
            even, odd, each, other = _tile(even, odd, each, other, words2, x4, x5, order0, order1, sum_up, multiply)
            even, odd, each, other = _tile(even, odd, each, other, words3, x6, x7, order0, order1, sum_up, multiply)
        # An integer in a float's mantissa: 2**23 + 2**15 + scale, 128 + zero point.
        s = (((pair >> (16 * (r % 2))) & 0xFFFF) ^ 0x4B008000).to(tl.float32, bitcast=True) - 8421376.0
        z = ((((codes >> (16 * (column % 2) + 4 * w)) & 15) << 16) | 0x43000000).to(tl.float32, bitcast=True) - 128.0
        total_even += (even - z * each) * s
        total_odd += (odd - z * other) * s
    even = tl.sum(tl.reshape(total_even, (step, 32, 4)), 0)
    odd = tl.sum(tl.reshape(total_odd, (step, 32, 4)), 0)
    lane = tl.arange(0, 32)[:, None]
    r, c = lane // 4, lane % 4
    w = tl.arange(0, 4)[None, :]
    last = True
    if split > 1:
        part = columns * 256
        partial += column * 256 + lane * 8 + w
        tl.store(partial + tl.program_id(1) * part, even, mask=2 * c < rows)
        tl.store(partial + tl.program_id(1) * part + 4, odd, mask=2 * c < rows)
        tl.debug_barrier()  # every lane has stored before one of them counts
        last = tl.atomic_add(arrived + column, 1, sem="acq_rel") == split - 1
    if last:
        if split > 1:
            even = tl.zeros((32, 4), tl.float32)
            odd = even
            for at in tl.static_range(split):
                even += tl.load(partial + at * part, mask=2 * c < rows, other=0, cache_modifier=".cg")
                odd += tl.load(partial + at * part + 4, mask=2 * c < rows, other=0, cache_modifier=".cg")
            tl.store(arrived + column, 0)
        unscaled = tl.load(factor) / unit
        even *= unscaled
        odd *= unscaled
        if has_bias:
            added = tl.load(bias + column * 32 + 8 * (r // 2) + 2 * w + r % 2).to(tl.float32)
            even += added
            odd += added
        place = out + 2 * c * size_n + column * 32 + 8 * w + r
        tl.store(place, even.to(out.dtype.element_ty), mask=2 * c < rows)
        tl.store(place + size_n, odd.to(out.dtype.element_ty), mask=2 * c + 1 < rows)


def launch(x, packed, size_k, size_n, groups, step, split):
    """Activations [rows, size_k], contiguous, in bfloat16 or float16 → [rows, size_n].

    ``packed`` has ``weight``, ``scale``, ``zero``, ``factor`` and ``bias`` (or None), tensors as Marlin keeps them,
    and ``arrived``, int32 zeros, one for 32 outputs. ``split`` programs of ``step`` warps share the inputs of a tile.
    """
    import torch

    out = torch.empty((x.shape[0], size_n), dtype=x.dtype, device=x.device)
    few_tokens[(size_n // 32, split)](
        x.view(torch.int64),
        packed.weight,
        packed.scale.view(torch.int32),
        packed.zero,
        packed.factor,
        out if packed.bias is None else packed.bias,
        torch.empty((split, 8 * size_n) if split > 1 else 1, dtype=torch.float32, device=x.device),
        packed.arrived,
        out,
        x.shape[0],
        size_k,
        size_n,
        groups,
        0,
        **constants(x.dtype == torch.bfloat16, size_k // groups // 32),
        step=step,
        split=split,
        has_bias=packed.bias is not None,
        num_warps=step,
    )
    return out


@functools.cache
def constants(bf16: bool, tiles: int) -> dict[str, object]:
    """What the kernel is compiled for, beside the way to run it."""
    return {
        "order0": fragment(bf16, 0),
        "order1": fragment(bf16, 1),
        "sum_up": sums(bf16),
        "multiply": products(bf16),
        "wait": together(tiles, 2 * tiles),
        "wait_operands": _operands("r", 4, [("r", 4 * (3 * tiles + 1))]),
        "unit": BF16_UNIT if bf16 else F16_UNIT,
        "tiles": tiles,
    }
