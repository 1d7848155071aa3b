"""Run under vLLM's Python: the kernel for few tokens, interpreted, on layers packed by vLLM's own functions.

The packing of weights is CUDA code in vLLM; here it is written out from its source.
Prints ``few tokens`` when all agree.
"""

import os
from collections.abc import Callable

os.environ["TRITON_INTERPRET"] = "1"
import cockpit_int8_decode
import cockpit_int8_kernel as kernel
import ptx_lanes
import torch
import triton.language
import triton.runtime.interpreter
from cockpit_int8_decode import WAYS, Weights
from vllm.model_executor.layers.quantization.utils import marlin_utils

ptx_lanes.teach(triton.runtime.interpreter, triton.language)
torch.manual_seed(0)


def packed(codes: torch.Tensor) -> torch.Tensor:
    """Codes [inputs, outputs] as gptq_marlin_repack lays them out for 8-bit activations."""
    tiles = codes.view(codes.shape[0] // 32, 2, 4, 4, codes.shape[1] // 32, 4, 8)  # k: tile, h, c, i; n: tile, w, r
    ordered = tiles.permute(0, 4, 6, 2, 5, 3, 1).reshape(-1, 8)  # words by k tile, n tile, r, c, w; codes by i, h
    words = sum(ordered[:, at].long() << (4 * at) for at in range(8))
    return torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)


def layer_of(
    dtype: torch.dtype, group: int, size_k: int, size_n: int, with_bias: bool
) -> tuple[Weights, Callable[[torch.Tensor], torch.Tensor]]:
    """A layer as vLLM packs it, and what it makes of activations, in double precision."""
    groups = size_k // group
    codes = torch.randint(0, 16, (size_k, size_n))
    zeros = torch.randint(0, 16, (groups, size_n), dtype=torch.int32)
    scales = (torch.rand(groups, size_n) * 0.01 + 0.001).to(dtype)
    bias = torch.randn(size_n).to(dtype) if with_bias else None
    ordered = marlin_utils.marlin_permute_scales(scales, size_k, size_n, group, is_a_8bit=True)
    whole, factor = marlin_utils.marlin_act_int8_process_scales(ordered)
    points = marlin_utils.marlin_zero_points(zeros, groups, size_n, 4, is_a_8bit=True)
    moved = None if bias is None else marlin_utils.marlin_permute_bias(bias)
    arrived = torch.zeros(size_n // 32, dtype=torch.int32)
    wide = (codes - zeros.repeat_interleave(group, 0)).double() * scales.double().repeat_interleave(group, 0)
    added = torch.zeros(size_n).double() if bias is None else bias.double()
    return Weights(
        packed(codes), whole, points, factor, arrived, moved, None, None, None
    ), lambda x: x.double() @ wide + added


def check(
    dtype: torch.dtype, rows: int, group: int, size_k: int, size_n: int, way: tuple[int, int], with_bias: bool
) -> None:
    layer, product = layer_of(dtype, group, size_k, size_n, with_bias)
    x = torch.randn(rows, size_k).to(dtype)
    found, wanted = kernel.launch(x, layer, size_k, size_n, size_k // group, *way).double(), product(x)
    error = ((found - wanted).norm() / wanted.norm()).item()
    assert error < 0.005, (dtype, rows, group, size_k, size_n, way, error)
    assert not layer.arrived.any()


def check_the_comparison() -> None:
    """A bias in another order is seen, which beside a large product it would not be."""
    layer, product = layer_of(torch.bfloat16, 128, 1024, 64, True)
    shape = cockpit_int8_decode.Shape(1024, 64, 8)
    cockpit_int8_decode.marlin = lambda x, packed, shape: product(x)
    assert cockpit_int8_decode.agrees(layer, shape)
    assert not cockpit_int8_decode.agrees(layer._replace(bias=layer.bias.flip(0)), shape)
    assert not cockpit_int8_decode.agrees(layer._replace(zero=layer.zero ^ 1), shape)


for at, way in enumerate(WAYS):
    check(torch.bfloat16, 1 + 2 * at, 128, 896, 64, way, at % 2 == 0)
check(torch.bfloat16, 8, 64, 256, 128, WAYS[3], True)
check(torch.float16, 3, 32, 224, 64, WAYS[1], True)
check(torch.float16, 5, 128, 640, 128, WAYS[2], False)
check(torch.bfloat16, 2, 32, 320, 64, WAYS[0], True)  # the last of sixteen have nothing left
check_the_comparison()
print("few tokens")
