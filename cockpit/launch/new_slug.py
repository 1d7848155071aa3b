"""A slug for a checkpoint: sensible values, each with where it comes from. The user edits it from there."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import msgspec

from cockpit.catalog.slug import Slug, SlugName
from cockpit.checkpoint.types import Checkpoint, Quantization
from cockpit.errors import CockpitError
from cockpit.launch.fit import (
    DRAFT_TOKENS,
    HYBRID_SEQUENCES,
    UTILIZATION,
    context_of,
    fit_to,
    kv_bytes_per_token,
    within,
)
from cockpit.planner.families import kv_model
from cockpit.planner.types import KvUnknown
from cockpit.rig.types import Rig
from cockpit.rules.declared import formats_of, group_size, symmetry
from cockpit.rules.parallel import keeps_state
from cockpit.strict_yaml import decode
from cockpit.units import GIB

_CPU_CONTEXT = 4096
_MAX_SIZE_GIB = 100_000
_DECLARABLE = ("auto-round", "compressed-tensors", "gptq", "awq", "fp8", "nvfp4", "mxfp4", "bf16", "fp16")
_CONFIG = "config.json"


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the file and its comment."""

    text: str
    why: str = ""


def slug_name(checkpoint: Checkpoint) -> str:
    """``local/`` and the last part of where it lies, in the letters that a slug's name may have."""
    clean = re.sub(r"[^a-z0-9._-]+", "-", _last_part(checkpoint).lower()).strip("-._")
    return f"local/{clean[:60] or 'model'}"


def propose(checkpoint: Checkpoint, rig: Rig, name: str | None = None) -> tuple[Slug, str]:
    """A slug for the checkpoint on this rig, and its file's text with a comment behind every chosen value.

    Raises CockpitError when the checkpoint's format or folder cannot be declared in a slug, or ``name`` is not one.
    """
    declared = formats_of(checkpoint)[0]
    if declared not in _DECLARABLE:
        method = checkpoint.quantization.declared_method or "an unknown method"
        raise CockpitError(
            f"{checkpoint.source} is quantized with {method}, which a slug cannot declare",
            fix=f"A slug takes {', '.join(_DECLARABLE)}.",
        )
    lines = [
        Line(text=f"name: {slug_name(checkpoint) if name is None else _valid(name)}"),
        Line(text=f"model: {_quoted(_model_name(checkpoint))}"),
        *_weights(checkpoint, declared),
        *_serving(checkpoint, rig),
    ]
    text = _text(lines)
    slug, _ = decode(text, Slug, f"the slug for {checkpoint.source}")
    return slug, text


def _valid(name: str) -> str:
    try:
        return msgspec.convert(name, SlugName)
    except msgspec.ValidationError as error:
        raise CockpitError(
            f"{name[:80]!r} cannot be the name of a slug",
            fix="Give engine/name in small letters, figures, dots and dashes, such as local/my-model.",
        ) from error


def _from_repo(checkpoint: Checkpoint) -> bool:
    """Whether it was asked for as ``owner/name``: then its files lie elsewhere than its name says."""
    return checkpoint.folder is not None and Path(checkpoint.folder) != Path(checkpoint.source).expanduser()


def _folder(checkpoint: Checkpoint) -> Path:
    """Its folder. Raises CockpitError for a lone config.json, and for a name that no slug file can hold."""
    if checkpoint.folder is None:
        raise CockpitError(
            f"{checkpoint.source} is a lone file, and a slug needs a checkpoint", fix="Name the checkpoint's folder."
        )
    folder = Path(checkpoint.folder).resolve()
    if any(unicodedata.category(letter) in ("Cc", "Cs") and letter not in "\n\t" for letter in str(folder)):
        raise CockpitError(
            f"{str(folder)!a}: a slug cannot hold a path with control characters or without UTF-8",
            fix="Rename the folder.",
        )
    return folder


def _last_part(checkpoint: Checkpoint) -> str:
    return checkpoint.source.rsplit("/", 1)[1] if _from_repo(checkpoint) else _folder(checkpoint).name


def _model_name(checkpoint: Checkpoint) -> str:
    text = "".join(letter if letter.isprintable() else " " for letter in _last_part(checkpoint))
    return text.strip() or "model"


def _quoted(text: str) -> str:
    """A YAML double-quoted word: what cannot be seen is escaped, as YAML would fold some of it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'


def _weights(checkpoint: Checkpoint, declared: str) -> list[Line]:
    if _from_repo(checkpoint):
        source = f"repo: {_quoted(checkpoint.source)}"
    else:
        source = f"path: {_quoted(str(_folder(checkpoint)))}"
    embedding = checkpoint.quantization.embed_tokens_bits
    lines = [
        Line(text="weights:"),
        Line(text=f"  {source}"),
        Line(text=f"  format: {declared}", why=_CONFIG),
        *_widths(checkpoint.quantization),
    ]
    lines.extend(
        Line(text=f"  {key}: true", why=why)
        for key, why, holds in (
            ("moe", f"{checkpoint.experts or 'it has'} experts", checkpoint.moe),
            ("vision", "it has a vision tower", checkpoint.vision),
            ("mtp", f"{checkpoint.mtp_layers} layer(s) of multi-token prediction", checkpoint.mtp_layers > 0),
        )
        if holds
    )
    if embedding is not None and embedding < 16:
        lines.append(Line(text=f"  embedding_bits: {embedding}", why=_CONFIG))
    sizes = checkpoint.sizes
    if sizes is not None and sizes.total <= _MAX_SIZE_GIB * GIB:
        how = "estimated from config.json" if sizes.estimated else "the safetensors headers"
        lines.append(Line(text=f"  size_gib: {max(0.01, sizes.total / GIB):.2f}", why=how))
    if checkpoint.max_model_len is not None:
        lines.append(Line(text=f"  native_max_model_len: {checkpoint.max_model_len}", why="max_position_embeddings"))
    return lines


def _widths(quantization: Quantization) -> Iterator[Line]:
    """Bits, symmetry and group size, as far as they are the same everywhere."""
    widths = sorted(quantization.widths)
    if len(widths) == 1:
        yield Line(text=f"  bits: {widths[0]}", why=_CONFIG)
    elif widths:
        counts = ", ".join(f"{count} of {bits}-bit" for bits, count in sorted(quantization.widths.items()))
        yield Line(text=f"  widths: [{', '.join(map(str, widths))}]", why=f"{_CONFIG}: {counts}")
    symmetric = symmetry(quantization)
    if symmetric is not None:
        yield Line(text=f"  symmetric: {str(symmetric).lower()}", why=_CONFIG)
    group = group_size(quantization)
    if group is not None:
        yield Line(text=f"  group_size: {group}", why=_CONFIG)


def _serving(checkpoint: Checkpoint, rig: Rig) -> list[Line]:
    if not rig.gpus and checkpoint.quantization.method == "none":
        return _on_cpu(checkpoint)
    fit = fit_to(checkpoint, rig)
    drafts = checkpoint.mtp_layers > 0
    length, dtype, why = context_of(checkpoint, fit)
    lines = [
        Line(text=f"tensor_parallel: {fit.tensor_parallel}", why=fit.parallel_why),
        Line(text=f"max_model_len: {length}", why=why),
        Line(text=f"kv_cache_dtype: {dtype}", why="the model's own type" if dtype == "auto" else "half the bytes"),
        Line(text=f"gpu_memory_utilization: {UTILIZATION}", why="vLLM's default"),
    ]
    lines.extend(_sequences(checkpoint))
    if drafts:
        text = f"speculative: {{method: mtp, tokens: {DRAFT_TOKENS}}}"
        lines.append(Line(text=text, why="the checkpoint has kept its MTP head"))
    return lines


def _sequences(checkpoint: Checkpoint) -> Iterator[Line]:
    if keeps_state(checkpoint):
        yield Line(text=f"max_num_seqs: {HYBRID_SEQUENCES}", why="a hybrid model keeps one state block a sequence")


def _on_cpu(checkpoint: Checkpoint) -> list[Line]:
    length = within(_CPU_CONTEXT, checkpoint)
    space = max(1, math.ceil(2 * length * kv_bytes_per_token(checkpoint, 1) / GIB))
    layout = kv_model(checkpoint)
    rough = f", a rough figure: {layout.reason}" if isinstance(layout, KvUnknown) else ""
    return [
        Line(text="platform: cpu", why="this machine has no GPU"),
        Line(text=f"max_model_len: {length}", why="short, for a CPU"),
        *_sequences(checkpoint),
        Line(text="enforce_eager: on", why="boots much faster"),
        Line(text="env:"),
        Line(text=f'  VLLM_CPU_KVCACHE_SPACE: "{space}"', why=f"GiB of the KV pool{rough}"),
    ]


def _comment(text: str) -> str:
    """One that stays a comment, whatever the checkpoint says of itself."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _text(lines: list[Line]) -> str:
    width = max((len(line.text) for line in lines if line.why), default=0)
    width = min(width, 60)
    return "".join(
        f"{line.text:<{width}}  # {_comment(line.why)}\n" if line.why else f"{line.text}\n" for line in lines
    )


def save(text: str, name: str, folder: Path) -> Path:
    """Write a new slug file under ``folder``. Never overwrites: raises CockpitError when the file is there."""
    target = folder / f"{name}.yaml"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("x", encoding="utf-8") as handle:
            handle.write(text)
    except OSError as error:
        if isinstance(error, FileExistsError) and target.parent.is_dir():
            raise CockpitError(f"{target} is there already", fix="Give another --name, or edit that file.") from error
        raise CockpitError(
            f"cannot write {target}", error.strerror or str(error), "Make the folder writable."
        ) from error
    return target
