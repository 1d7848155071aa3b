"""What a slug declares about its weights, held against the checkpoint's own files."""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.catalog.slug import Weights
from cockpit.checkpoint.types import Checkpoint, Quantization
from cockpit.rules.context import Context
from cockpit.rules.finding import Finding

_FULL_BITS = 16


def formats_of(checkpoint: Checkpoint) -> tuple[str, ...]:
    """The words that a slug may use for the checkpoint's format, the most telling one first.

    Floats that AutoRound or compressed-tensors have packed go by their own name.
    """
    quantization = checkpoint.quantization
    if quantization.method == "none":
        return ("fp16", "bf16") if checkpoint.dtype == "float16" else ("bf16", "fp16")
    schemes = {(scheme.kind, scheme.bits) for scheme, _ in quantization.schemes}
    floats = schemes in ({("float", 8)}, {("float", 4)})
    if not floats or quantization.method not in ("auto-round", "compressed-tensors"):
        return (quantization.method,)
    groups = {scheme.group_size for scheme, _ in quantization.schemes}
    own = "fp8" if schemes == {("float", 8)} else "nvfp4" if groups == {16} else "mxfp4"
    # A slug's `auto-round` means integers.
    return (own,) if quantization.method == "auto-round" else (own, quantization.method)


def symmetry(quantization: Quantization) -> bool | None:
    """Whether all packed integers are symmetric; None when there are none, or one does not say."""
    said = {scheme.symmetric for scheme, _ in quantization.schemes if scheme.kind == "int"}
    return None if not said or None in said else said == {True}


def group_size(quantization: Quantization) -> int | None:
    """The one group size of the packed integers; None when there are several or none."""
    sizes = {scheme.group_size for scheme, _ in quantization.schemes if scheme.kind == "int"}
    return sizes.pop() if len(sizes) == 1 else None


def _differences(weights: Weights, checkpoint: Checkpoint) -> Iterator[str]:
    quantization = checkpoint.quantization
    formats = formats_of(checkpoint)
    if weights.format not in formats:
        # The method's own word where a slug cannot declare it, and where the words alone would not differ.
        found = formats[0] if formats[0] != "other" else quantization.declared_method or "an unknown method"
        yield f"format {weights.format}, found {found}"
    yield from _numbers(weights, quantization)
    if weights.moe != checkpoint.moe:
        yield f"{'mixture of experts' if weights.moe else 'dense'}, found the opposite"
    if weights.vision != checkpoint.vision:
        yield f"{'vision' if weights.vision else 'no vision'}, found the opposite"
    if weights.mtp and not checkpoint.mtp_layers:
        yield "an MTP head, found none"
    stated, native = weights.native_max_model_len, checkpoint.max_model_len
    if stated is not None and native is not None and stated != native:
        yield f"a context of {stated:,}, found {native:,}"


def _numbers(weights: Weights, quantization: Quantization) -> Iterator[str]:
    """Widths, symmetry, groups and embeddings, where the slug states them and the files tell."""
    found = sorted(quantization.widths)
    stated = sorted(set(weights.widths) | ({weights.bits} if weights.bits else set()))
    if stated and found and stated != found:
        yield f"{bits_text(stated)}, found {bits_text(found)}"
    symmetric = symmetry(quantization)
    if None not in (weights.symmetric, symmetric) and weights.symmetric != symmetric:
        yield f"{'symmetric' if weights.symmetric else 'asymmetric'}, found the opposite"
    size = group_size(quantization)
    if None not in (weights.group_size, size) and weights.group_size != size:
        yield f"group size {weights.group_size}, found {size}"
    bits = quantization.embed_tokens_bits or _FULL_BITS
    if weights.embedding_bits is not None and weights.embedding_bits != bits:
        yield f"embeddings of {weights.embedding_bits} bits, found {bits}"


def disagreement(ctx: Context) -> Iterator[Finding]:
    """The slug says one thing and the files another: the files count."""
    said = [] if ctx.checkpoint is None else list(_differences(ctx.slug.weights, ctx.checkpoint))
    if said:
        yield Finding(
            rule="slug-disagrees",
            severity="warn",
            subject="weights",
            message=f"the slug declares {'; '.join(said)}",
            fix="The files count here; correct the slug.",
        )


def bits_text(widths: list[int]) -> str:
    """``[5, 6]`` → ``5, 6-bit``."""
    return f"{', '.join(map(str, widths))}-bit"
