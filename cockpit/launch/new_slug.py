"""A slug for a checkpoint: sensible values, each with where it comes from. The user edits it from there."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from cockpit.catalog.slug import Slug
from cockpit.checkpoint.types import Checkpoint
from cockpit.errors import CockpitError
from cockpit.rig.types import Gpu, Rig
from cockpit.strict_yaml import decode
from cockpit.units import GIB, gib, tokens

_UTILIZATION = 0.92
_RESERVE_BYTES = 2 * GIB
"""Left for activations, CUDA graphs and the runtime itself; the first boot says how much they really take."""
_FALLBACK_CONTEXT = 32768
_STEP_TOKENS = 1024
_DRAFT_TOKENS = 3
_HYBRID_SEQUENCES = 8
_FORMATS = {"none": "bf16"}
_DECLARABLE = ("auto-round", "compressed-tensors", "gptq", "awq", "fp8", "nvfp4", "mxfp4")


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the file and its comment."""

    text: str
    why: str = ""


class _Fit(msgspec.Struct, frozen=True, kw_only=True):
    """How a checkpoint lies on a rig."""

    tensor_parallel: int
    parallel_why: str
    left_bytes: int | None
    """For the KV pool, a GPU; None when there is no GPU to measure against."""


def slug_name(source: str) -> str:
    """``local/`` and the source's last part in the letters that a slug's name may have."""
    last = Path(source).name if "/" not in source or Path(source).exists() else source.rsplit("/", 1)[1]
    if last == "config.json":
        last = Path(source).resolve().parent.name
    clean = re.sub(r"[^a-z0-9._-]+", "-", last.lower()).strip("-._")
    return f"local/{clean[:60] or 'model'}"


def propose(checkpoint: Checkpoint, rig: Rig, name: str | None = None) -> tuple[Slug, str]:
    """A slug for the checkpoint on this rig, and its file's text with a comment behind every chosen value.

    Raises CockpitError when the checkpoint's format cannot be declared in a slug.
    """
    declared = _FORMATS.get(checkpoint.quantization.method, checkpoint.quantization.method)
    if declared == "bf16" and checkpoint.dtype == "float16":
        declared = "fp16"
    if declared not in (*_DECLARABLE, "bf16", "fp16"):
        method = checkpoint.quantization.declared_method or declared
        raise CockpitError(
            f"{checkpoint.source} is quantized with {method}, which a slug cannot declare",
            fix=f"A slug takes {', '.join((*_DECLARABLE, 'bf16', 'fp16'))}.",
        )
    wanted = name or slug_name(checkpoint.source)
    lines = [
        Line(text=f"name: {wanted}"),
        Line(text=f"model: {_quoted(_model_name(checkpoint))}"),
        *_weights(checkpoint, declared),
        *_serving(checkpoint, rig),
    ]
    text = _text(lines)
    slug, _ = decode(text, Slug, f"the slug for {checkpoint.source}")
    return slug, text


def _model_name(checkpoint: Checkpoint) -> str:
    return checkpoint.source.rstrip("/").removesuffix("/config.json").rsplit("/", 1)[-1]


def _quoted(text: str) -> str:
    """A YAML double-quoted word: JSON is a subset of it."""
    return msgspec.json.encode(text).decode()


def _weights(checkpoint: Checkpoint, declared: str) -> list[Line]:
    quantization = checkpoint.quantization
    schemes = [scheme for scheme, _ in quantization.schemes]
    widths = sorted(quantization.widths)
    where = "config.json"
    place = checkpoint.folder
    is_repo = place is None or not Path(checkpoint.source).exists()
    source = (
        f"repo: {_quoted(checkpoint.source)}" if is_repo else f"path: {_quoted(str(Path(place or '.').resolve()))}"
    )
    lines = [Line(text="weights:"), Line(text=f"  {source}"), Line(text=f"  format: {declared}", why=where)]
    if len(widths) == 1:
        lines.append(Line(text=f"  bits: {widths[0]}", why=where))
    elif widths:
        counts = ", ".join(f"{count} of {bits}-bit" for bits, count in sorted(quantization.widths.items()))
        lines.append(Line(text=f"  widths: [{', '.join(map(str, widths))}]", why=f"{where}: {counts}"))
    symmetric = {scheme.symmetric for scheme in schemes if scheme.kind == "int"}
    if symmetric and None not in symmetric:
        lines.append(Line(text=f"  symmetric: {str(symmetric == {True}).lower()}", why=where))
    groups = {scheme.group_size for scheme in schemes if scheme.kind == "int"}
    if len(groups) == 1 and (group := groups.pop()) is not None:
        lines.append(Line(text=f"  group_size: {group}", why=where))
    lines.extend(
        Line(text=f"  {key}: true", why=why)
        for key, why, holds in (
            ("moe", f"{checkpoint.experts} experts", checkpoint.moe),
            ("vision", "it has a vision tower", checkpoint.vision),
            ("mtp", f"{checkpoint.mtp_layers} layer(s) of multi-token prediction", checkpoint.mtp_layers > 0),
        )
        if holds
    )
    embedding = quantization.embed_tokens_bits
    if embedding is not None and embedding < 16:
        lines.append(Line(text=f"  embedding_bits: {embedding}", why=where))
    if checkpoint.sizes is not None:
        how = "estimated from config.json" if checkpoint.sizes.estimated else "the safetensors headers"
        lines.append(Line(text=f"  size_gib: {max(0.01, checkpoint.sizes.total / GIB):.2f}", why=how))
    if checkpoint.max_model_len is not None:
        lines.append(Line(text=f"  native_max_model_len: {checkpoint.max_model_len}", why="max_position_embeddings"))
    return lines


def _serving(checkpoint: Checkpoint, rig: Rig) -> list[Line]:
    if not rig.gpus and checkpoint.quantization.method == "none":
        return _on_cpu(checkpoint)
    fit = _fit(checkpoint, rig)
    drafts = checkpoint.mtp_layers > 0
    length, dtype, why = _context(checkpoint, fit)
    lines = [
        Line(text=f"tensor_parallel: {fit.tensor_parallel}", why=fit.parallel_why),
        Line(text=f"max_model_len: {length}", why=why),
        Line(text=f"kv_cache_dtype: {dtype}", why="the model's own type" if dtype == "auto" else "half the bytes"),
        Line(text=f"gpu_memory_utilization: {_UTILIZATION}", why="vLLM's default"),
    ]
    if checkpoint.linear_attention is not None:
        why = "a hybrid model keeps one state block a sequence"
        lines.append(Line(text=f"max_num_seqs: {_HYBRID_SEQUENCES}", why=why))
    if drafts:
        text = f"speculative: {{method: mtp, tokens: {_DRAFT_TOKENS}}}"
        lines.append(Line(text=text, why="the checkpoint has kept its MTP head"))
    return lines


def _on_cpu(checkpoint: Checkpoint) -> list[Line]:
    length = min(checkpoint.max_model_len or 4096, 4096)
    return [
        Line(text="platform: cpu", why="this machine has no GPU"),
        Line(text=f"max_model_len: {length}", why="short, for a CPU"),
        Line(text="enforce_eager: on", why="boots much faster"),
        Line(text="env:"),
        Line(text='  VLLM_CPU_KVCACHE_SPACE: "1"', why="GiB of the KV pool"),
    ]


def _usable(gpu: Gpu) -> int | None:
    return gpu.usable_bytes or gpu.total_bytes


def _fit(checkpoint: Checkpoint, rig: Rig) -> _Fit:
    """The fewest GPUs, a power of two that divides the heads, on which the weights leave room."""
    sizes = [size for gpu in rig.gpus if (size := _usable(gpu)) is not None]
    weights = None if checkpoint.sizes is None else checkpoint.sizes.total
    if not sizes or weights is None:
        return _Fit(tensor_parallel=1, parallel_why="no GPU and weight sizes to fit them to", left_bytes=None)
    smallest = min(sizes)
    best: _Fit | None = None
    for parallel in (1, 2, 4, 8):
        if parallel > len(sizes) or checkpoint.attention_heads % parallel:
            continue
        left = int(_UTILIZATION * smallest) - weights // parallel - _RESERVE_BYTES
        why = f"{gib(weights / parallel)} GiB of weights a GPU of {gib(smallest)} GiB"
        best = _Fit(tensor_parallel=parallel, parallel_why=why, left_bytes=max(0, left))
        if left > _RESERVE_BYTES // 2:
            return best
    if best is None:
        return _Fit(tensor_parallel=1, parallel_why="the heads divide by nothing else", left_bytes=None)
    return msgspec.structs.replace(best, parallel_why=f"{best.parallel_why}: more than fits this rig well")


def _kv_bytes_per_token(checkpoint: Checkpoint, parallel: int) -> int:
    """Bytes of 16-bit keys and values a token and a GPU: 2 · max(1, KV heads / TP) · head dim · 2 B · layers."""
    caching = checkpoint.n_layers - checkpoint.layers.get("linear_attention", 0) + checkpoint.mtp_layers
    return 2 * max(1, checkpoint.kv_heads // parallel) * checkpoint.head_dim * 2 * caching


def _context(checkpoint: Checkpoint, fit: _Fit) -> tuple[int, str, str]:
    """Context in tokens, KV type, and why: the model's own where it fits, else what does."""
    native = checkpoint.max_model_len
    if fit.left_bytes is None:
        length = min(native or _FALLBACK_CONTEXT, _FALLBACK_CONTEXT)
        return length, "auto", "cautious: there is no GPU here to fit it to"
    per_token = _kv_bytes_per_token(checkpoint, fit.tensor_parallel)
    for dtype, bytes_a_token in (("auto", per_token), ("fp8_e4m3", per_token // 2)):
        fits = int(fit.left_bytes / bytes_a_token * 0.95) // _STEP_TOKENS * _STEP_TOKENS
        if native is not None and fits >= native:
            return native, dtype, "the model's own"
    length = max(_STEP_TOKENS, min(fits, native or fits))
    why = f"about what {gib(fit.left_bytes)} GiB a GPU hold at {tokens(per_token // 2)} bytes a token"
    return length, "fp8_e4m3", why


def _text(lines: list[Line]) -> str:
    width = max((len(line.text) for line in lines if line.why), default=0)
    width = min(width, 60)
    return "".join(f"{line.text:<{width}}  # {line.why}\n" if line.why else f"{line.text}\n" for line in lines)


def save(text: str, name: str, folder: Path) -> Path:
    """Write a new slug file under ``folder``. Never overwrites: raises CockpitError when the file is there."""
    target = folder / f"{name}.yaml"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("x", encoding="utf-8") as handle:
            handle.write(text)
    except FileExistsError as error:
        raise CockpitError(f"{target} is there already", fix="Give another --name, or edit that file.") from error
    except OSError as error:
        raise CockpitError(
            f"cannot write {target}", error.strerror or str(error), "Make the folder writable."
        ) from error
    return target
