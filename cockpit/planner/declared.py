"""A checkpoint that is not on this machine, from what its slug declares: dimensions, widths and size on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Required, TypedDict, Unpack

import msgspec

from cockpit.catalog.slug import Format, Weights
from cockpit.checkpoint.declared import Declaration, Resolver
from cockpit.checkpoint.inspect import described
from cockpit.checkpoint.modules import Place
from cockpit.checkpoint.types import Checkpoint, Load, Method, Sizes, WeightScheme
from cockpit.planner.weights import RankWeights, rank_weights

_INTEGERS = frozenset({"auto-round", "compressed-tensors", "gptq", "awq"})
_METHODS: dict[Format, Method] = {
    "auto-round": "auto-round",
    "compressed-tensors": "compressed-tensors",
    "gptq": "gptq",
    "awq": "awq",
    "fp8": "fp8",
    "nvfp4": "nvfp4",
    "mxfp4": "mxfp4",
    "bf16": "none",
    "fp16": "none",
}
_USUAL_BITS: dict[str, int] = {"auto-round": 4, "gptq": 4, "awq": 4, "fp8": 8, "nvfp4": 4, "mxfp4": 4}
_USUAL_GROUP: dict[str, int | None] = {"fp8": 128, "nvfp4": 16, "mxfp4": 32}
_NARROW = ("in_proj_a", "in_proj_b")
"""GDN inputs that every quantizer leaves in 16 bits."""
_SIZE_ERROR_BYTES = 1 << 26
"""Half of the last digit of a size in GiB with one decimal, and what is on disk and is no weight."""
_SHARE_ERROR, _WITHOUT_SIZE_ERROR = 0.02, 0.1
_CONTRADICTION = 0.25
"""From so much of the decoder on, the declared size is not that of the declared widths."""


class Launch(TypedDict, total=False):
    """What of a launch the loaded weights depend on, as `rank_weights` takes it."""

    tensor_parallel: Required[int]
    speculative_tokens: int
    speculative_method: str
    vision: bool
    engine_version: str | None
    expandable_segments: bool


def _scheme(weights: Weights) -> WeightScheme | None:
    """How the decoder's linear layers are stored, mixed widths as one in their middle."""
    if _METHODS[weights.format] == "none":
        return None
    middle = round(sum(weights.widths) / len(weights.widths)) if weights.widths else None
    bits = weights.bits or middle or _USUAL_BITS.get(weights.format)
    if bits is None or bits >= 16:
        return None
    return WeightScheme(
        bits=bits,
        kind="int" if weights.format in _INTEGERS else "float",
        symmetric=weights.symmetric is not False,
        group_size=weights.group_size or _USUAL_GROUP.get(weights.format, 128),
    )


def _resolver(weights: Weights, mtp: bool) -> Resolver:
    scheme = _scheme(weights)
    outer = None
    if weights.embedding_bits is not None and weights.embedding_bits < 16:
        outer = WeightScheme(bits=weights.embedding_bits, kind="int", symmetric=True, group_size=128)

    def resolve(place: Place) -> WeightScheme | None:
        if place.kind in ("embedding", "lm_head"):
            return outer
        quantized = place.part == "body" or (mtp and place.part == "mtp")
        narrow = place.kind == "router" or place.name.endswith(_NARROW)
        return scheme if quantized and not narrow else None

    return resolve


def _assumed(weights: Weights, architecture: Path, mtp: bool) -> Checkpoint:
    """The checkpoint by its widths alone; ``mtp`` is whether its MTP head is quantized as well."""
    declaration = Declaration(
        method=_METHODS[weights.format], declared_method=weights.format, resolve=_resolver(weights, mtp)
    )
    found = described(architecture, declaration, mtp=weights.mtp, vision=weights.vision)
    return msgspec.structs.replace(
        found,
        dtype="float16" if weights.format == "fp16" else found.dtype,
        max_model_len=weights.native_max_model_len or found.max_model_len,
    )


def _variants(weights: Weights, architecture: Path) -> tuple[Checkpoint, ...]:
    plain = _assumed(weights, architecture, mtp=False)
    if not weights.mtp or plain.quantization.method == "none":
        return (plain,)
    return plain, _assumed(weights, architecture, mtp=True)


def _scaled(found: Checkpoint, sizes: Sizes, missing: int) -> Checkpoint:
    """``found`` with so many bytes more in the decoder's shared weights."""
    shared = sum(one.bytes for one in found.loads if one.part == "body" and one.split != "copied")

    def grown(size: int) -> int:
        return size + size * missing // shared

    loads = tuple(
        Load(part=one.part, split=one.split, bytes=grown(one.bytes))
        if one.part == "body" and one.split != "copied"
        else one
        for one in found.loads
    )
    grown_sizes = msgspec.structs.replace(sizes, total=sizes.total + missing, body=sizes.body + missing)
    return msgspec.structs.replace(found, loads=loads, sizes=grown_sizes)


def declared_checkpoint(weights: Weights, architecture: Path | None) -> Checkpoint | None:
    """The checkpoint that a slug declares; None where it names no architecture or one of unknown size, or where the
    declared size cannot be that of the declared widths.

    Whether the MTP head is quantized is taken from the size. Raises CockpitError when the architecture's file is no
    config.json.
    """
    if architecture is None:
        return None
    variants = _variants(weights, architecture)
    sizes = [one.sizes for one in variants if one.sizes is not None]
    if len(sizes) < len(variants):
        return None
    heads = [one.mtp for one in sizes]
    sizes = [msgspec.structs.replace(one, mtp_error_bytes=max(heads) - min(heads)) for one in sizes]
    declared = weights.size_bytes
    if declared is None:
        return msgspec.structs.replace(variants[0], sizes=sizes[0])
    found, its = min(zip(variants, sizes, strict=True), key=lambda pair: abs(pair[1].total - declared))
    missing = declared - its.total
    return _scaled(found, its, missing) if abs(missing) < _CONTRADICTION * its.body else None


def declared_weights(checkpoint: Checkpoint, weights: Weights, **launch: Unpack[Launch]) -> RankWeights | None:
    """`rank_weights` of what `declared_checkpoint` made of ``weights``, with an error that befits a declaration."""
    result = rank_weights(checkpoint, **launch)
    if result is None:
        return None
    ranks = launch["tensor_parallel"]
    error = result.rounding_bytes // 2
    if weights.size_bytes is None:
        error += round(result.bytes * _WITHOUT_SIZE_ERROR)
    else:
        error += _SIZE_ERROR_BYTES // ranks + round(result.bytes * _SHARE_ERROR)
    drafted = launch.get("speculative_tokens", 0) > 0 and launch.get("speculative_method", "mtp") == "mtp"
    if checkpoint.sizes is not None and not drafted:
        error += checkpoint.sizes.mtp_error_bytes // ranks
    return msgspec.structs.replace(result, basis="declared", error_bytes=error)
