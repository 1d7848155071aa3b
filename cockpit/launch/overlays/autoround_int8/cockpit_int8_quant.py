"""int8 activations without a kernel of their own: torch.compile fuses these operations into the norm before them.

vLLM's Triton kernel and the product of its scales are two launches a layer, which cost a single stream of an 8B model
an eighth of its speed even in CUDA graphs.
"""

from __future__ import annotations

from typing import Any

import torch
from vllm.model_executor.layers.quantization.utils.marlin_utils import marlin_quant_input

_LARGEST = 127
_TINY = 1e-10
"""Stands for the largest value of a row of zeros, as in vLLM's kernel."""


def quantize(x: Any, quant_dtype: Any) -> tuple[Any, Any]:
    """int8 codes [tokens, width] and float32 scales [tokens, 1], as ``per_token_quant_int8`` but for ties."""
    if quant_dtype is not torch.int8 or not torch.compiler.is_compiling():
        codes, scales = marlin_quant_input(x, quant_dtype)
        return codes, scales
    rows = x.reshape(-1, x.shape[-1]).float()
    largest = rows.abs().amax(dim=-1, keepdim=True).clamp(min=_TINY)
    return (rows * (_LARGEST / largest)).round().to(torch.int8), largest / _LARGEST
