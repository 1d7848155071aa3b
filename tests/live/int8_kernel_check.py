"""Run under vLLM's Python: the kernel for few tokens, interpreted, on layers packed by vLLM's own functions.

The packing of weights is CUDA code in vLLM; here it is written out from its source.
Prints ``few tokens`` when all agree.
"""

import os

os.environ["TRITON_INTERPRET"] = "1"
import cockpit_int8_kernel as kernel
import ptx_lanes
import torch
import triton.language
import triton.runtime.interpreter
from cockpit_int8_decode import Weights
from vllm.model_executor.layers.quantization.utils import marlin_utils

ptx_lanes.teach(triton.runtime.interpreter, triton.language)
torch.manual_seed(0)


def packed(codes: torch.Tensor) -> torch.Tensor:
    """Codes [inputs, outputs] as gptq_marlin_repack lays them out for 8-bit activations."""
    tiles = codes.view(codes.shape[0] // 32, 2, 4, 4, codes.shape[1] // 32, 4, 8)  # k: tile, h, c, i; n: tile, w, r
    ordered = tiles.permute(0, 4, 6, 2, 5, 3, 1).reshape(-1, 8)  # words by k tile, n tile, r, c, w; codes by i, h
    words = sum(ordered[:, at].long() << (4 * at) for at in range(8))
    return torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)


def check(
    dtype: torch.dtype, rows: int, group: int, size_k: int, size_n: int, way: tuple[int, int], with_bias: bool
) -> None:
    groups = size_k // group
    codes = torch.randint(0, 16, (size_k, size_n))
    zeros = torch.randint(7, 9, (groups, size_n), dtype=torch.int32)
    scales = (torch.rand(groups, size_n) * 0.01 + 0.001).to(dtype)
    bias = torch.randn(size_n).to(dtype) if with_bias else None
    ordered = marlin_utils.marlin_permute_scales(scales, size_k, size_n, group, is_a_8bit=True)
    whole, factor = marlin_utils.marlin_act_int8_process_scales(ordered)
    points = marlin_utils.marlin_zero_points(zeros, groups, size_n, 4, is_a_8bit=True)
    moved = None if bias is None else marlin_utils.marlin_permute_bias(bias)
    arrived = torch.zeros(size_n // 32, dtype=torch.int32)
    layer = Weights(packed(codes), whole, points, factor, arrived, moved, None, None, None)
    x = torch.randn(rows, size_k).to(dtype)
    found = kernel.launch(x, layer, size_k, size_n, groups, *way).double()
    wide = (codes - zeros.repeat_interleave(group, 0)).double() * scales.double().repeat_interleave(group, 0)
    wanted = x.double() @ wide + (0 if bias is None else bias.double())
    error = ((found - wanted).norm() / wanted.norm()).item()
    assert error < 0.005, (dtype, rows, group, size_k, size_n, way, error)
    assert not arrived.any()


check(torch.bfloat16, 1, 128, 384, 64, (2, 1), False)
check(torch.bfloat16, 8, 64, 256, 128, (4, 1), True)
check(torch.float16, 3, 32, 224, 64, (4, 1), True)
check(torch.float16, 5, 128, 640, 128, (4, 2), False)
check(torch.bfloat16, 4, 128, 896, 64, (1, 4), True)
check(torch.bfloat16, 8, 32, 320, 64, (2, 8), True)  # the last of eight have nothing left
print("few tokens")
