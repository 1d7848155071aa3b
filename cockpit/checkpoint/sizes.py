"""Bytes of a checkpoint that is not there, from its config: parameters × what each format stores for them.

Against what vLLM reports to have loaded: Qwen3-8B within 1 %, Qwen3.8-27B (with its MTP head) within 2.5 %; the rest
is not weights but tables of the rotary embedding and buffers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from cockpit.checkpoint.layers import FULL, LINEAR, SLIDING
from cockpit.checkpoint.modules import Module, Part
from cockpit.checkpoint.shape import Shape
from cockpit.checkpoint.types import Method, Sizes, WeightScheme

_KNOWN = {FULL, SLIDING, LINEAR, "chunked_attention"}
_WORD = 4
_SCALE = 2
"""Bytes of a scale in 16 bits."""


def _groups(inputs: int, scheme: WeightScheme) -> int:
    """Scales of one output row."""
    size = scheme.group_size
    return math.ceil(inputs / size) if size and size > 0 else 1


def _words(values: int, bits: int) -> int:
    """Bytes of ``values`` packed into 32-bit words without gaps."""
    return math.ceil(values * bits / 32) * _WORD


def _integer_bytes(module: Module, scheme: WeightScheme, method: Method) -> int:
    inputs, outputs = module.inputs, module.outputs
    groups = _groups(inputs, scheme)
    scales = groups * outputs * _SCALE
    zeros = groups * _words(outputs, scheme.bits)
    if method in ("auto-round", "gptq", "awq"):
        order = inputs * _WORD if method == "gptq" else 0
        # Zero points are written even where they are all the same.
        return _words(inputs, scheme.bits) * outputs + scales + zeros + order
    if method == "compressed-tensors":
        shape = 16
        packed = outputs * _words(inputs, scheme.bits)
        return packed + scales + shape + (0 if scheme.symmetric else zeros)
    return outputs * inputs * scheme.bits // 8 + scales


def _float_bytes(module: Module, scheme: WeightScheme, method: Method) -> int:
    inputs, outputs = module.inputs, module.outputs
    packed = inputs * outputs * scheme.bits // 8
    groups = _groups(inputs, scheme)
    if scheme.bits < 8 or method == "mxfp4":
        # One byte for each group's scale, and one scale or two over all.
        return packed + groups * outputs + 2 * _WORD
    if method == "fp8" and scheme.group_size:
        return packed + groups * math.ceil(outputs / scheme.group_size) * _WORD
    return packed + outputs * _SCALE


def module_bytes(module: Module, scheme: WeightScheme | None, method: Method, element: int) -> int:
    """Bytes of all that ``module`` stands for, ``element`` being those of one unquantized weight."""
    if scheme is None:
        one = module.inputs * module.outputs * element
    elif scheme.kind == "int":
        one = _integer_bytes(module, scheme, method)
    else:
        one = _float_bytes(module, scheme, method)
    return (one + (module.outputs * element if module.bias else 0)) * module.matrices * module.count


def _small_elements(shape: Shape, kind: str) -> int:
    """Norms, convolution and gates of one decoder layer."""
    norms = 4 if shape.model_type.startswith("gemma") else 2
    total = norms * shape.hidden
    linear = shape.linear_attention
    if kind == LINEAR and linear is not None:
        keys, values = linear.key_heads * linear.key_head_dim, linear.value_heads * linear.value_head_dim
        return total + (2 * keys + values) * linear.conv_kernel + 2 * linear.value_heads + linear.value_head_dim
    if shape.latent:
        return total + (shape.latent.q_rank or 0) + shape.latent.kv_rank
    return total + 2 * shape.head_dim if shape.model_type.startswith(("qwen3", "gemma3")) else total


def _small_bytes(shape: Shape) -> dict[Part, int]:
    """Bytes of what is never quantized and is no matrix, by part."""
    body = sum(_small_elements(shape, kind) for kind in shape.kinds) + shape.hidden
    mtp = shape.mtp_layers * _small_elements(shape, FULL) + 3 * shape.hidden if shape.mtp_layers else 0
    vision = 0
    if shape.vision:
        tower = shape.vision
        vision = (tower.patch + 1 + tower.positions + 4 * tower.layers + 2) * tower.hidden
        if not tower.fused:
            vision += tower.hidden * (shape.hidden + 1)
    element = shape.bytes_per_element
    return {"body": body * element, "mtp": mtp * element, "vision": vision * element}


def estimated_sizes(
    shape: Shape, modules: Iterable[tuple[Module, WeightScheme | None]], method: Method
) -> Sizes | None:
    """Bytes by part as the config implies them; None when it does not: layers or a tower of an unknown kind.

    ``modules`` are those of the shape, each with its scheme.
    """
    experts = shape.experts
    unknown_experts = shape.moe and not (experts and experts.count and experts.intermediate)
    if not set(shape.kinds) <= _KNOWN or method == "other" or unknown_experts:
        return None
    if (LINEAR in shape.kinds and shape.linear_attention is None) or (shape.has_vision and shape.vision is None):
        return None
    if shape.intermediate is None and not shape.moe:
        return None
    parts: dict[Part, int] = {"embed_tokens": 0, "lm_head": 0, **_small_bytes(shape)}
    for module, scheme in modules:
        parts[module.part] += module_bytes(module, scheme, method, shape.bytes_per_element)
    return Sizes(total=sum(parts.values()), estimated=True, **parts)
