"""How good a quantization is, by what its slug says: for people, and for sorting."""

from __future__ import annotations

from cockpit.catalog.slug import Quality, Slug, Weights
from cockpit.units import percent


def quality_bits(weights: Weights) -> float:
    """Bits a weight, as well as the slug says; 0 is unknown."""
    if weights.format in ("bf16", "fp16"):
        return 16.0
    mean = sum(weights.widths) / len(weights.widths) if weights.widths else 0.0
    usual = {"fp8": 8.0, "nvfp4": 4.5, "mxfp4": 4.25}.get(weights.format, 0.0)
    return weights.bits_per_weight or weights.bits or mean or usual


def quality_key(slug: Slug) -> tuple[float, float, float, float, str]:
    """Sorts better quality first: the class of the format, KLD, Top-1, bits a weight, name."""
    bits = quality_bits(slug.weights)
    kind = 0 if bits >= 16 else 1 if bits >= 8 else 2
    quality = slug.quality or Quality()
    kld = float("inf") if quality.kld is None else quality.kld
    return kind, kld, -(quality.top1_fraction or 0.0), -bits, slug.name


def quality_text(slug: Slug) -> str:
    """``KLD 0.00099 · Top-1 98.94 %``; empty where nothing is published."""
    quality = slug.quality or Quality()
    parts = [] if quality.kld is None else [f"KLD {quality.kld:.5f}"]
    if quality.top1_fraction is not None:
        parts.append(f"Top-1 {percent(quality.top1_fraction, 2)}")
    return " · ".join(parts)
