"""`cockpit inspect PATH|REPO`: what a checkpoint is, and what it allows."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from cockpit.cli.options import rig_option, session_of, verb
from cockpit.cli.output import emit, say
from cockpit.units import UNKNOWN, gib, tokens

if TYPE_CHECKING:
    from cockpit.checkpoint.types import Checkpoint, Quantization, Sizes
    from cockpit.session import Inspection


_OF_THE_CHECKPOINT = ("int8", "speculative_tokens", "vision")
"""Toggles that its files decide; the others are the rig's."""


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = verb(verbs, "inspect", "say what a checkpoint is and what it allows", run)
    parser.add_argument("source", metavar="PATH|REPO", help="a folder, a config.json, or a cached owner/name")
    rig_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print it. Exit 2 when it cannot be read; what blocks serving it is told, and is no error here."""
    inspection = session_of(arguments).inspect(arguments.source)
    if arguments.json:
        emit(inspection_json(inspection))
        return 0
    _print(inspection)
    return 0


def checkpoint_json(checkpoint: Checkpoint) -> dict[str, Any]:
    """The checkpoint's own facts."""
    return {
        "source": checkpoint.source,
        "architecture": checkpoint.architecture,
        "model_type": checkpoint.model_type,
        "moe": checkpoint.moe,
        "experts": checkpoint.experts,
        "layers": checkpoint.layers,
        "mtp_layers": checkpoint.mtp_layers,
        "vision": checkpoint.vision,
        "hidden_size": checkpoint.hidden_size,
        "attention_heads": checkpoint.attention_heads,
        "kv_heads": checkpoint.kv_heads,
        "head_dim": checkpoint.head_dim,
        "vocab_size": checkpoint.vocab_size,
        "max_model_len": checkpoint.max_model_len,
        "dtype": checkpoint.dtype,
        "quantization": _quantization_json(checkpoint.quantization),
        "size_bytes": None if checkpoint.sizes is None else _sizes_json(checkpoint.sizes),
    }


def _quantization_json(quantization: Quantization) -> dict[str, Any]:
    symmetric = {scheme.symmetric for scheme, _ in quantization.schemes}
    groups = {scheme.group_size for scheme, _ in quantization.schemes}
    return {
        "method": quantization.declared_method if quantization.method == "other" else quantization.method,
        "symmetric": False if False in symmetric else (True if symmetric == {True} else None),
        "group_size": groups.pop() if len(groups) == 1 else None,
        "widths": {str(bits): count for bits, count in sorted(quantization.widths.items())},
        "unquantized_modules": quantization.unquantized_modules,
        "embed_tokens_bits": quantization.embed_tokens_bits,
        "lm_head_bits": quantization.lm_head_bits,
    }


def _sizes_json(sizes: Sizes) -> dict[str, Any]:
    return {
        "total": sizes.total,
        "body": sizes.body,
        "embed_tokens": sizes.embed_tokens,
        "lm_head": sizes.lm_head,
        "mtp": sizes.mtp,
        "vision": sizes.vision,
        "estimated": sizes.estimated,
    }


def inspection_json(inspection: Inspection) -> dict[str, Any]:
    """`cockpit inspect --json`."""
    from cockpit.cli.shapes import finding_json, toggles_json

    return {
        **checkpoint_json(inspection.checkpoint),
        "toggles": toggles_json(inspection.toggles, inspection.values),
        "findings": [finding_json(finding) for finding in inspection.findings],
    }


def _print(inspection: Inspection) -> None:
    from cockpit.launch.toggles import BY_ID
    from cockpit.session import describe

    checkpoint = inspection.checkpoint
    quantization, sizes = checkpoint.quantization, checkpoint.sizes
    kind = f"{checkpoint.experts or 'some'} experts" if checkpoint.moe else "dense"
    layers = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in checkpoint.layers.items())
    widths = ", ".join(f"{count} of {bits} bits" for bits, count in sorted(quantization.widths.items())) or "none"
    say(
        f"{checkpoint.architecture}, {kind}: {layers}"
        + (f", {checkpoint.mtp_layers} MTP" if checkpoint.mtp_layers else "")
    )
    method = quantization.declared_method or quantization.method
    say(f"quantization  {method}; modules by width: {widths}; not quantized: {quantization.unquantized_modules}")
    say(f"embeddings    {quantization.embed_tokens_bits or 16} bits, lm_head {quantization.lm_head_bits or 16} bits")
    say(f"context       {tokens(checkpoint.max_model_len)} tokens")
    if sizes is not None:
        parts = [("body", sizes.body), ("embed_tokens", sizes.embed_tokens), ("lm_head", sizes.lm_head)]
        parts += [("mtp", sizes.mtp), ("vision", sizes.vision)]
        shown = " · ".join(f"{name} {gib(size, 2)}" for name, size in parts if size)
        how = "estimated from config.json" if sizes.estimated else "from the safetensors headers"
        say(f"size          {gib(sizes.total, 2)} GiB {how}: {shown}")
    else:
        say(f"size          {UNKNOWN}")
    for name, state in inspection.toggles.items():
        if name in _OF_THE_CHECKPOINT and state.state == "blocked":
            say(f"{BY_ID[name].label:<14}blocked: {state.reason}")
    if inspection.toggles["int8"].state == "offered":
        say("int8 acts     offered")
    for finding in inspection.findings:
        say(describe(finding))
