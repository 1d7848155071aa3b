"""Make two small dense Qwen3 checkpoints, AutoRound W4, for the numerics of docs/int8.md. Runs under vLLM's Python.

``neg`` has AutoRound's own full-range signed scales: about half are negative, and the largest weight of a group lies
in code 0. ``pos`` has the same codes with every scale positive: it needs no fold, and is the control.

PYTHON scripts/int8/make_models.py FOLDER [--layers 7 --hidden 1024 …]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import save_file

GROUP = 128


class Size(NamedTuple):
    """Dimensions of the model, under the names of config.json."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head: int
    vocabulary: int


FULL = Size(layers=7, hidden=1024, intermediate=2816, heads=8, kv_heads=4, head=128, vocabulary=2048)
TINY = Size(layers=2, hidden=256, intermediate=512, heads=4, kv_heads=2, head=64, vocabulary=512)


class Counts:
    """Of all layers: groups, those with a negative scale, codes, and those that have no mirror image."""

    groups = negative = codes = lowest = 0


def quantize(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Weight [out, in] as codes 0 … 15 [out, in] and signed scales [out, in / GROUP].

    AutoRound's symmetric full range: the weight of the largest magnitude is -8 times the scale, whatever its sign.
    """
    grouped = weight.view(weight.shape[0], -1, GROUP)
    high, low = grouped.amax(-1), -grouped.amin(-1)
    scales = (torch.where(high < low, low, -high) / 8).to(torch.float16).float()
    codes = torch.clamp(torch.round(grouped / scales[..., None]) + 8, 0, 15).to(torch.int64)
    return codes.view_as(weight), scales


def packed(codes: torch.Tensor, scales: torch.Tensor) -> dict[str, torch.Tensor]:
    """The tensors of one layer in GPTQ's layout: qweight [in / 8, out], scales [in / GROUP, out], zeros all 7."""
    columns = codes.t().contiguous().view(-1, 8, codes.shape[0])
    words = sum(columns[:, at] << (4 * at) for at in range(8))
    assert isinstance(words, torch.Tensor)
    return {
        "qweight": torch.where(words >= 2**31, words - 2**32, words).to(torch.int32).contiguous(),
        "scales": scales.t().contiguous().to(torch.float16),
        "qzeros": torch.full((scales.shape[1], scales.shape[0] // 8), 0x77777777, dtype=torch.int32),
    }


def linears(size: Size) -> dict[str, tuple[int, int]]:
    """Name → [out, in] of the quantized layers of a block."""
    query, keys = size.heads * size.head, size.kv_heads * size.head
    return {
        "self_attn.q_proj": (query, size.hidden),
        "self_attn.k_proj": (keys, size.hidden),
        "self_attn.v_proj": (keys, size.hidden),
        "self_attn.o_proj": (size.hidden, query),
        "mlp.gate_proj": (size.intermediate, size.hidden),
        "mlp.up_proj": (size.intermediate, size.hidden),
        "mlp.down_proj": (size.hidden, size.intermediate),
    }


def unquantized(size: Size) -> dict[str, torch.Tensor]:
    """Embedding, head and norms, in bfloat16."""
    hidden, head = torch.ones(size.hidden).bfloat16(), torch.ones(size.head).bfloat16()
    made = {
        "model.embed_tokens.weight": torch.randn(size.vocabulary, size.hidden).bfloat16(),
        "lm_head.weight": (torch.randn(size.vocabulary, size.hidden) * 2.5 / size.hidden**0.5).bfloat16(),
        "model.norm.weight": hidden.clone(),
    }
    for layer in range(size.layers):
        block = f"model.layers.{layer}"
        for norm in ("input_layernorm", "post_attention_layernorm"):
            made[f"{block}.{norm}.weight"] = hidden.clone()
        for norm in ("q_norm", "k_norm"):
            made[f"{block}.self_attn.{norm}.weight"] = head.clone()
    return made


def quantized(size: Size, counts: Counts) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """The layers with signed scales, and the same with positive ones."""
    signed, positive = {}, {}
    for layer in range(size.layers):
        for name, (outputs, inputs) in linears(size).items():
            codes, scales = quantize(torch.randn(outputs, inputs) / inputs**0.5)
            negative = scales < 0
            counts.groups += scales.numel()
            counts.negative += int(negative.sum())
            counts.codes += codes.numel()
            counts.lowest += int(((codes.view(outputs, -1, GROUP) == 0) & negative[..., None]).sum())
            for files, kept in ((signed, scales), (positive, scales.abs())):
                for part, tensor in packed(codes, kept).items():
                    files[f"model.layers.{layer}.{name}.{part}"] = tensor
    return signed, positive


def config(size: Size) -> dict[str, Any]:
    """config.json as AutoRound writes it."""
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "hidden_size": size.hidden,
        "intermediate_size": size.intermediate,
        "num_hidden_layers": size.layers,
        "num_attention_heads": size.heads,
        "num_key_value_heads": size.kv_heads,
        "head_dim": size.head,
        "vocab_size": size.vocabulary,
        "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1000000.0,
        "tie_word_embeddings": False,
        "hidden_act": "silu",
        "attention_bias": False,
        "dtype": "bfloat16",
        "eos_token_id": 2,
        "bos_token_id": None,
        "quantization_config": {
            "quant_method": "auto-round",
            "bits": 4,
            "group_size": GROUP,
            "sym": True,
            "data_type": "int",
            "packing_format": "auto_round:auto_gptq",
            "iters": 200,
            "autoround_version": "0.12.3",
        },
    }


def save(folder: Path, configuration: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    """Write config.json and one safetensors file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(configuration, indent=1) + "\n", encoding="utf-8")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def main() -> None:
    """Write both checkpoints and say how many groups are negative."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tiny", action="store_true", help="a size for a rehearsal on the CPU")
    for name, default in FULL._asdict().items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, help=f"instead of {default}")
    words = parser.parse_args()
    own = {name: getattr(words, name) for name in Size._fields if getattr(words, name) is not None}
    size = (TINY if words.tiny else FULL)._replace(**own)
    torch.manual_seed(7)
    counts, base = Counts(), unquantized(size)
    signed, positive = quantized(size, counts)
    save(words.folder / "neg", config(size), base | signed)
    save(words.folder / "pos", config(size), base | positive)
    print(
        f"{size.layers} layers, {counts.groups:,} groups, {counts.negative:,} negative "
        f"({counts.negative / counts.groups:.1%}), {counts.lowest:,} codes without a mirror image "
        f"({counts.lowest / counts.codes:.3%})"
    )


if __name__ == "__main__":
    main()
