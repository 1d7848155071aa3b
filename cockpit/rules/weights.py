"""May these weights be served by this vLLM on these GPUs? Widths, kernels, embeddings, experts, architecture."""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.checkpoint.types import WeightScheme
from cockpit.rig.types import Engine
from cockpit.rig.version import version_numbers
from cockpit.rules.context import Context
from cockpit.rules.declared import bits_text, disagreement
from cockpit.rules.finding import Finding, Level
from cockpit.rules.overlays import (
    QUANTIZED_EMBEDDING,
    embedding_packing,
    needs_embedding_overlay,
    overlay_finding,
    overlay_state,
)

_HUMMING_BITS = (2, 3, 5, 6, 7)
"""Widths that no other WNA16 kernel takes."""
_HUMMING_CAPABILITY = (7, 5)
_EMBEDDING_BITS = (2, 4, 8)
"""Widths that divide 32: vLLM's embedding kernel lets no value straddle two words."""
_EMBEDDING_FAULT = "stock vLLM builds the embedding of Qwen3.5-class models without its quantization (vllm#54304)"
_MTP_COPIES = ("lm_head", "embed_tokens")
_EXPERTS_SINCE = (0, 33)
"""First vLLM whose compressed-tensors experts take widths other than 4 and 8."""


def _block(rule: str, message: str, fix: str, on_rig: bool = False) -> Finding:
    level: Level = "rig" if on_rig else "checkpoint"
    return Finding(rule=rule, severity="block", subject="weights", message=message, fix=fix, level=level)


def _warn(rule: str, message: str, fix: str) -> Finding:
    return Finding(rule=rule, severity="warn", subject="weights", message=message, fix=fix)


def integer_schemes(ctx: Context) -> list[WeightScheme]:
    """The packed integer formats of the linear layers (WNA16), from the files or else from the slug."""
    if ctx.checkpoint is not None:
        if ctx.checkpoint.quantization.method not in ("auto-round", "compressed-tensors", "gptq", "awq"):
            return []
        return [
            scheme
            for scheme, _ in ctx.checkpoint.quantization.schemes
            if scheme.kind == "int" and scheme.activation_bits is None
        ]
    weights = ctx.slug.weights
    if weights.format not in ("auto-round", "compressed-tensors", "gptq", "awq"):
        return []
    widths = sorted(set(weights.widths) | ({weights.bits} if weights.bits else set()))
    return [WeightScheme(bits=bits, kind="int", symmetric=weights.symmetric) for bits in widths]


def widths(ctx: Context) -> Iterator[Finding]:
    """Every packed width must be in the engine's own map, and most need the Humming kernel."""
    engine = ctx.engine
    used = sorted({scheme.bits for scheme in integer_schemes(ctx)})
    if not used or engine is None or engine.platform == "cpu":
        return
    if engine.wna16_bits is not None and (missing := [bits for bits in used if bits not in engine.wna16_bits]):
        yield _block(
            "wna16-widths",
            f"vLLM {engine.version} takes no {bits_text(missing)} packed weights",
            "Use vLLM 0.26 or newer.",
            on_rig=True,
        )
    humming = [bits for bits in used if bits in _HUMMING_BITS]
    if humming and engine.humming is None:
        yield _block(
            "humming-missing",
            f"{bits_text(humming)} weights need the Humming kernel, and {engine.id} has no humming-kernels",
            f"Install humming-kernels beside that vLLM: `{engine.python} -m pip install humming-kernels`.",
            on_rig=True,
        )


def humming_capability(ctx: Context) -> Iterator[Finding]:
    """Humming needs compute capability 7.5."""
    humming = sorted({scheme.bits for scheme in integer_schemes(ctx)} & set(_HUMMING_BITS))
    old = sorted(capability for capability in ctx.capabilities if capability < _HUMMING_CAPABILITY)
    if humming and old:
        yield _block(
            "humming-capability",
            f"{bits_text(humming)} weights need a GPU of compute capability 7.5, one of the chosen has "
            f"{old[0][0]}.{old[0][1]}",
            "Choose newer GPUs, or a 4-bit or 8-bit checkpoint.",
            on_rig=True,
        )


def zero_points(ctx: Context) -> Iterator[Finding]:
    """Asymmetric widths must be in the engine's map of widths with zero points."""
    engine = ctx.engine
    asymmetric = sorted({scheme.bits for scheme in integer_schemes(ctx) if scheme.symmetric is False})
    if engine is None or engine.platform == "cpu" or engine.wna16_zero_point_bits is None or not asymmetric:
        return
    missing = [bits for bits in asymmetric if bits not in engine.wna16_zero_point_bits]
    if missing:
        yield _block(
            "wna16-zero-points",
            f"vLLM {engine.version} takes no asymmetric {bits_text(missing)} weights",
            "Use vLLM 0.33 or newer, or a symmetric checkpoint.",
            on_rig=True,
        )


def embeddings(ctx: Context) -> Iterator[Finding]:
    """A quantized embed_tokens: its width, and whether the model's code reads one."""
    checkpoint = ctx.checkpoint
    bits = ctx.slug.weights.embedding_bits if checkpoint is None else checkpoint.quantization.embed_tokens_bits
    if bits is None or bits >= 16:
        return
    if bits not in _EMBEDDING_BITS:
        yield _block(
            "embedding-width",
            f"embed_tokens has {bits}-bit weights: vLLM's embedding kernel takes widths that divide 32 (2, 4, 8) "
            "only, and the loader would die with a shape mismatch",
            "Use a checkpoint whose embeddings are 8-bit or not quantized.",
        )
        return
    packing = embedding_packing(ctx)
    if needs_embedding_overlay(ctx):
        yield _embedding_overlay(ctx)
    elif packing is not None:
        yield _unread_embedding(ctx, bits, packing)


def _is_stock(ctx: Context) -> bool:
    engine = ctx.engine
    return engine is not None and engine.quantized_embedding is False and engine.platform == "cuda"


def _unread_embedding(ctx: Context, bits: int, packing: str) -> Finding:
    message = (
        f"embed_tokens has {bits}-bit weights of {packing}: {_EMBEDDING_FAULT}, and the overlay "
        f"{QUANTIZED_EMBEDDING} cures that for compressed-tensors only"
    )
    fix = "Use a checkpoint whose embeddings are not quantized, or a compressed-tensors one."
    if _is_stock(ctx):
        return _block("embedding-packing", message, fix, on_rig=True)
    return _warn("embedding-packing", message, fix)


def _embedding_overlay(ctx: Context) -> Finding:
    engine, fault = ctx.engine, _EMBEDDING_FAULT
    known = _is_stock(ctx)
    if engine is not None and known and overlay_state(ctx, QUANTIZED_EMBEDDING) is None:
        return _block(
            "embedding-overlay",
            f"{fault}, and {engine.id} is stock there: the boot would die on embed_tokens.weight_packed",
            "Use a vLLM that carries the fix.",
            on_rig=True,
        )
    return overlay_finding(ctx, QUANTIZED_EMBEDDING, "weights", "embedding-overlay", fault)


def plain_targets(ctx: Context) -> Iterator[Finding]:
    """Targets that name one module miss its copy in the MTP draft."""
    checkpoint = ctx.checkpoint
    if checkpoint is None or not checkpoint.mtp_layers:
        return
    plain = [name for name in checkpoint.quantization.plain_targets if name.endswith(_MTP_COPIES)]
    if plain:
        yield _warn(
            "plain-targets",
            f"the quantization targets {', '.join(plain)} by plain name: the copy in the MTP draft is not matched",
            "A regular-expression target (`re:.*lm_head$`) matches every copy; without it leave the draft off.",
        )


def packed_experts(ctx: Context) -> Iterator[Finding]:
    """5- to 7-bit experts through compressed-tensors: refused before 0.33, not tried since."""
    checkpoint, engine = ctx.checkpoint, ctx.engine
    if checkpoint is None or not checkpoint.moe or checkpoint.quantization.method != "compressed-tensors":
        return
    odd = sorted({scheme.bits for scheme in integer_schemes(ctx)} - {4, 8})
    if not odd:
        return
    if engine is not None and _refuses_experts(engine, odd):
        yield _block(
            "packed-experts",
            f"vLLM {engine.version} refuses {bits_text(odd)} experts",
            "Use vLLM 0.33 or newer, or a checkpoint whose experts are 4-bit or 8-bit.",
            on_rig=True,
        )
    else:
        yield _warn(
            "packed-experts",
            f"nobody has reported {bits_text(odd)} experts to work end to end in vLLM",
            "Compare its first answers with those of another checkpoint.",
        )


def _refuses_experts(engine: Engine, widths: list[int]) -> bool:
    """By its own code, else by its version; one whose version says nothing is given the doubt."""
    if engine.moe_packed_widths is not None and not set(widths) <= set(engine.moe_packed_widths):
        return True
    version = version_numbers(engine.version)
    return bool(version) and version < _EXPERTS_SINCE


def architecture(ctx: Context) -> Iterator[Finding]:
    """The installed vLLM should know the architecture."""
    checkpoint, engine = ctx.checkpoint, ctx.engine
    if checkpoint is None or engine is None or not engine.models or checkpoint.architecture in engine.models:
        return
    # No block: what is not in the registry may still run through vLLM's Transformers backend.
    yield _warn(
        "architecture",
        f"vLLM {engine.version} does not list the architecture {checkpoint.architecture}",
        "Use a newer vLLM, or hope for its Transformers backend.",
    )


def method(ctx: Context) -> Iterator[Finding]:
    """A quantization method that this cockpit or the installed vLLM does not know."""
    checkpoint, engine = ctx.checkpoint, ctx.engine
    if checkpoint is None or checkpoint.quantization.method != "other":
        return
    name = checkpoint.quantization.declared_method or "unknown"
    methods = None if engine is None else engine.quantization_methods
    if methods is not None and engine is not None and name not in methods:
        yield _block(
            "quantization-method",
            f"vLLM {engine.version} has no quantization method named {name}",
            "Use a vLLM that has it, or a checkpoint that another method made.",
            on_rig=True,
        )
    else:
        yield _warn(
            "quantization-method", f"the quantization method {name} is not known here", "Its rules are missing."
        )


def unreadable(ctx: Context) -> Iterator[Finding]:
    """Files that are there and cannot be read would kill the boot as well."""
    if ctx.checkpoint_problem is not None:
        yield _block("checkpoint-unreadable", ctx.checkpoint_problem, "Correct the files, or take them again.")


def missing(ctx: Context) -> Iterator[Finding]:
    """A folder with a config and no weights boots only with random ones."""
    checkpoint = ctx.checkpoint
    if checkpoint is None or checkpoint.sizes is None or not checkpoint.sizes.estimated:
        return
    if ctx.slug.weights.path is None or ctx.slug.flags.get("load-format") == "dummy":
        return
    yield _block(
        "weights-missing",
        f"{checkpoint.source} has no safetensors files",
        "Take the whole checkpoint; `load-format: dummy` under flags serves random weights.",
    )


RULES = (
    unreadable,
    missing,
    disagreement,
    architecture,
    method,
    widths,
    humming_capability,
    zero_points,
    embeddings,
    plain_targets,
    packed_experts,
)
"""In the order in which their findings are shown."""
