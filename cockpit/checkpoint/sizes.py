"""Bytes of a checkpoint that is not there, from its config: parameters × what each format stores for them.

Against what vLLM reports to have loaded: Qwen3-8B within 1 %, Qwen3.8-27B (with its MTP head) within 2.5 %; the rest
is not weights but tables of the rotary embedding and buffers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from cockpit.checkpoint.layers import FULL, LINEAR, SLIDING
from cockpit.checkpoint.modules import Module
from cockpit.checkpoint.shape import Shape
from cockpit.checkpoint.types import Load, Method, Part, Sizes, WeightScheme

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


def _integer_pieces(module: Module, scheme: WeightScheme, method: Method) -> tuple[int, ...]:
    inputs, outputs = module.inputs, module.outputs
    groups = _groups(inputs, scheme)
    scales = groups * outputs * _SCALE
    zeros = groups * _words(outputs, scheme.bits)
    if method in ("auto-round", "gptq", "awq"):
        order = inputs * _WORD if method == "gptq" else 0
        # Zero points are written even where they are all the same.
        return _words(inputs, scheme.bits) * outputs, scales, zeros, order
    if method == "compressed-tensors":
        shape = 16
        return outputs * _words(inputs, scheme.bits), scales, shape, 0 if scheme.symmetric else zeros
    return outputs * inputs * scheme.bits // 8, scales


def _float_pieces(module: Module, scheme: WeightScheme, method: Method) -> tuple[int, ...]:
    inputs, outputs = module.inputs, module.outputs
    packed = inputs * outputs * scheme.bits // 8
    groups = _groups(inputs, scheme)
    if scheme.bits < 8 or method == "mxfp4":
        # One byte for each group's scale, and one scale or two over all.
        return packed, groups * outputs, 2 * _WORD
    if method == "fp8" and scheme.group_size:
        return packed, groups * math.ceil(outputs / scheme.group_size) * _WORD
    return packed, outputs * _SCALE


def module_pieces(module: Module, scheme: WeightScheme | None, method: Method, element: int) -> tuple[int, ...]:
    """Bytes of each tensor of all that ``module`` stands for, its bias last; ``element``: of one in 16 bits."""
    bias = module.outputs * element if module.bias else 0
    if scheme is None:
        pieces: tuple[int, ...] = (module.inputs * module.outputs * element,)
    elif scheme.kind == "int":
        pieces = _integer_pieces(module, scheme, method)
    else:
        pieces = _float_pieces(module, scheme, method)
    return tuple(piece * module.matrices * module.count for piece in (*pieces, bias))


def _small_elements(shape: Shape, kind: str) -> tuple[int, int]:
    """Norms of one decoder layer, and its convolution and the vectors of its heads."""
    norms = (4 if shape.model_type.startswith("gemma") else 2) * shape.hidden
    linear = shape.linear_attention
    if kind == LINEAR and linear is not None:
        keys, values = linear.key_heads * linear.key_head_dim, linear.value_heads * linear.value_head_dim
        return norms + linear.value_head_dim, (2 * keys + values) * linear.conv_kernel + 2 * linear.value_heads
    if shape.latent:
        return norms + (shape.latent.q_rank or 0) + shape.latent.kv_rank, 0
    return norms + (2 * shape.head_dim if shape.model_type.startswith(("qwen3", "gemma3")) else 0), 0


def small_loads(shape: Shape, element: int) -> Iterator[Load]:
    """What is never quantized and is no matrix, in numbers of ``element`` bytes."""
    layers = [_small_elements(shape, kind) for kind in shape.kinds]
    yield Load(part="body", split="copied", bytes=(sum(norms for norms, _ in layers) + shape.hidden) * element)
    yield Load(part="body", split="ranks", bytes=sum(others for _, others in layers) * element)
    if shape.mtp_layers:
        norms = shape.mtp_layers * _small_elements(shape, FULL)[0] + 3 * shape.hidden
        yield Load(part="mtp", split="copied", bytes=norms * element)
    if shape.vision:
        tower = shape.vision
        size = (tower.patch + 1 + tower.positions + 4 * tower.layers + 2) * tower.hidden
        if not tower.fused:
            size += tower.hidden * (shape.hidden + 1)
        yield Load(part="vision", split="copied", bytes=size * element)


def estimated_sizes(
    shape: Shape, modules: Iterable[tuple[Module, WeightScheme | None]], method: Method
) -> Sizes | None:
    """Bytes by part as the config implies them; None when it does not: layers or a tower of an unknown
    kind, or inputs to each layer.

    ``modules`` are those of the shape, each with its scheme.
    """
    experts = shape.experts
    if shape.per_layer_inputs:
        return None
    unknown_experts = shape.moe and not (experts and experts.count and experts.intermediate)
    if not set(shape.kinds) <= _KNOWN or method == "other" or unknown_experts:
        return None
    if (LINEAR in shape.kinds and shape.linear_attention is None) or (shape.has_vision and shape.vision is None):
        return None
    if shape.intermediate is None and not shape.moe:
        return None
    parts: dict[Part, int] = dict.fromkeys(("body", "embed_tokens", "lm_head", "mtp", "vision"), 0)
    for small in small_loads(shape, shape.bytes_per_element):
        parts[small.part] += small.bytes
    for module, scheme in modules:
        parts[module.part] += sum(module_pieces(module, scheme, method, shape.bytes_per_element))
    return Sizes(total=sum(parts.values()), estimated=True, **parts)
