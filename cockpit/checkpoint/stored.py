"""Tensors → modules: which modules the files hold, how each is stored, and the bytes of each part.

The files decide. A tensor name is a module's name and what is stored of it: ``weight`` alone is not quantized,
``qweight`` (GPTQ, AWQ), ``weight_packed`` (compressed-tensors) and ``weight`` with a scale are.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping

from cockpit.checkpoint.declared import Resolver
from cockpit.checkpoint.modules import Kind, Module, Place
from cockpit.checkpoint.safetensors import Tensor
from cockpit.checkpoint.types import Part, Sizes, WeightScheme

_SUFFIXES = re.compile(
    r"\.(weight_packed|weight_scale(?:_inv|_2)?|weight_shape|weight_zero_point|weight_g_idx|weight_global_scale"
    r"|input_scale|input_global_scale|qweight|qzeros|scales|g_idx|weight|bias|weight\.[A-Za-z0-9_.]+|SCB)$"
)
_FUSED = re.compile(r"(\.experts\.(?:gate_up_proj|down_proj))(?:_(blocks|scales|bias))?$")
_LAYER = re.compile(r"\.layers\.(\d{1,6})\.")
_EXPERT = re.compile(r"\.experts\.\d+\.")
_VISION = frozenset(
    {"visual", "vision", "vit", "vision_tower", "vision_model", "vision_encoder", "vision_embed_tokens"}
    | {"multi_modal_projector", "mm_projector", "embed_vision", "vision_adapter", "patch_merger"}
)
_EMBEDDINGS = ("embed_tokens", "wte", "word_embeddings", "tok_embeddings")
_ROUTERS = ("gate", "router", "shared_expert_gate")
_FLOATS = ("F16", "BF16", "F32", "F64")
_PACKED = 32
"""Bits of the words that integers are packed into."""


def part_of(name: str, layers: int) -> Part:
    """The part that a tensor belongs to, ``layers`` being the number of decoder layers."""
    pieces = name.split(".")
    if not _VISION.isdisjoint(pieces):
        return "vision"
    if "mtp" in pieces:
        return "mtp"
    layer = _LAYER.search(name)
    if layer and int(layer.group(1)) >= layers:
        return "mtp"
    if any(word in pieces for word in _EMBEDDINGS):
        return "embed_tokens"
    return "lm_head" if "lm_head" in pieces else "body"


def module_of(name: str) -> tuple[str, str]:
    """The module that a tensor belongs to, and what it is of it; a tensor of its own is its own module."""
    found = _SUFFIXES.search(name) or _FUSED.search(name)
    if found is None:
        return name, ""
    fused = found.re is _FUSED
    return (name[: found.end(1)], found.group(2) or "weight") if fused else (name[: found.start()], found.group(1))


def _kind(name: str) -> Kind | None:
    last = name.rpartition(".")[2]
    if last in _EMBEDDINGS:
        return "embedding"
    if "embed" in last:
        return None
    if last in ("lm_head", "head", "output"):
        return "lm_head"
    return "router" if last in _ROUTERS else "linear"


def _grouped(tensors: Mapping[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """Module → what is stored of it → tensor."""
    modules: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        found = _SUFFIXES.search(name)
        fused = _FUSED.search(name)
        if found:
            modules.setdefault(name[: found.start()], {})[found.group(1)] = tensor
        elif fused:
            modules.setdefault(name[: fused.end(1)], {})[fused.group(2) or "weight"] = tensor
    return modules


def _whole(numerator: int, denominator: int) -> int | None:
    if denominator and numerator % denominator == 0 and 1 <= numerator // denominator <= 16:
        return numerator // denominator
    return None


def _packed_bits(words: int, inputs: int | None, declared: int | None) -> int | None:
    """Bits of values that are packed along the inputs, without gaps or so many whole ones a word."""
    if inputs is None:
        return declared
    widths = range(2, 9)
    fitting = [bits for bits in widths if words == math.ceil(inputs * bits / _PACKED)]
    fitting += [bits for bits in widths if words == math.ceil(inputs / (_PACKED // bits))]
    return declared if declared in fitting or not fitting else fitting[0]


def _gptq_bits(stored: Mapping[str, Tensor], declared: WeightScheme | None) -> int | None:
    """Bits of GPTQ's and AWQ's layouts: from the zero points, which hold one value for each scale."""
    weight, scales = stored["qweight"].shape, stored.get("scales")
    fallback = declared.bits if declared else None
    if scales is None or len(scales.shape) != 2 or len(weight) != 2:
        return fallback
    groups, outputs = scales.shape
    if weight[1] != outputs:
        return _whole(_PACKED * weight[1], outputs) or fallback
    zeros = stored.get("qzeros")
    if zeros is not None and len(zeros.shape) == 2:
        return _whole(_PACKED * zeros.shape[1], outputs) or fallback
    size = declared.group_size if declared else None
    return (_whole(_PACKED * weight[0], groups * size) if size and size > 0 else None) or fallback


def _inputs(stored: Mapping[str, Tensor], declared: WeightScheme | None, expected: Module | None) -> int | None:
    scale = stored.get("weight_scale")
    size = declared.group_size if declared else None
    if scale is not None and len(scale.shape) == 2 and size and size > 0:
        return scale.shape[1] * size
    return expected.inputs if expected else None


def _integer(bits: int | None, stored: Mapping[str, Tensor], declared: WeightScheme | None) -> WeightScheme:
    """``declared`` with what the files know better: the width, and zero points that lie beside the weights."""
    symmetric = declared.symmetric if declared else None
    if "weight_zero_point" in stored:
        symmetric = False
    return WeightScheme(
        bits=bits or (declared.bits if declared else 8),
        kind=declared.kind if declared else "int",
        symmetric=symmetric,
        group_size=declared.group_size if declared else None,
        activation_bits=declared.activation_bits if declared else None,
    )


def _float(bits: int, declared: WeightScheme | None) -> WeightScheme:
    if declared is not None and declared.bits == bits and declared.kind == "float":
        return declared
    return WeightScheme(bits=bits, kind="float", symmetric=True)


def stored_scheme(
    stored: Mapping[str, Tensor], declared: WeightScheme | None, expected: Module | None
) -> WeightScheme | None:
    """How the tensors of one module store it; None when it is not quantized.

    ``declared`` is the config's word for it and ``expected`` the module that the config implies, if there is one.
    """
    if "qweight" in stored:
        return _integer(_gptq_bits(stored, declared), stored, declared)
    packed = stored.get("weight_packed")
    if packed is not None:
        if packed.dtype == "U8":
            return _float(4, declared)
        words = packed.shape[-1] if packed.shape else 0
        bits = _packed_bits(words, _inputs(stored, declared, expected), declared.bits if declared else None)
        return _integer(bits, stored, declared)
    return _float(4, declared) if "blocks" in stored else _plain_scheme(stored, declared)


def _plain_scheme(stored: Mapping[str, Tensor], declared: WeightScheme | None) -> WeightScheme | None:
    """The scheme of a module whose values lie in ``weight``: the type tells, and the scale beside it."""
    weight = stored.get("weight")
    if weight is None or weight.dtype in _FLOATS:
        return None
    if weight.dtype.startswith("F"):
        return _float(4 if weight.dtype == "F4" else 8, declared)
    if any(suffix.startswith("weight.") for suffix in stored):
        return _float(4, declared)
    scale = stored.get("weight_scale")
    if weight.dtype == "U8" and scale is not None and scale.dtype.startswith("F8"):
        return _float(4, declared)
    return _integer(8, stored, declared)


def _is_matrix(stored: Mapping[str, Tensor], fused: bool) -> bool:
    """Whether a module is a weight matrix at all: norms have one dimension and convolutions three."""
    weight = stored.get("weight")
    if weight is None:
        return bool({"qweight", "weight_packed", "blocks"} & stored.keys())
    quantized = any(suffix.startswith("weight.") for suffix in stored)
    return quantized or len(weight.shape) == (3 if fused else 2)


def stored_modules(
    tensors: Mapping[str, Tensor], resolve: Resolver, expected: Mapping[str, Module], layers: int
) -> Iterator[tuple[Place, WeightScheme | None, bool]]:
    """Every module in the files, its scheme, and whether the config says otherwise.

    ``expected`` are the modules that the config implies, by name, experts under the name of expert 0.
    """
    for name, stored in _grouped(tensors).items():
        fused = _FUSED.search(name) is not None
        kind: Kind | None = "experts" if fused else _kind(name)
        if kind is None or not _is_matrix(stored, fused):
            continue
        place = Place(name=name, kind=kind, part=part_of(name + ".", layers))
        declared = resolve(place)
        scheme = stored_scheme(stored, declared, expected.get(_EXPERT.sub(".experts.0.", name)))
        bits = declared.bits if declared else None
        yield place, scheme, bits != (scheme.bits if scheme else None)


def stored_sizes(tensors: Mapping[str, Tensor], layers: int) -> Sizes:
    """Bytes of the tensors by part, as they lie in the files; ``layers`` tells an MTP head from the decoder."""
    parts: dict[Part, int] = dict.fromkeys(("body", "embed_tokens", "lm_head", "mtp", "vision"), 0)
    for name, tensor in tensors.items():
        parts[part_of(name, layers)] += tensor.size
    return Sizes(total=sum(parts.values()), estimated=False, **parts)
