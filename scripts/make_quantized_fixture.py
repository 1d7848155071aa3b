"""Quantize small random models with the real tools, and keep what their files say: headers, configs, figures.

    python scripts/make_quantized_fixture.py

Needs torch, transformers, auto-round and compressed-tensors, which the program itself does not; run it in an
environment of its own. For each model it writes tests/fixtures/checkpoints/real-NAME/ with config.json, headers.json
(the safetensors header of each file as text, and the file's size), expected.json and a README.md with the same
figures: widths and bytes computed here from the models and the tensors, not by the code under test.
"""

from __future__ import annotations

import json
import struct
import tempfile
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from auto_round import AutoRound
from compressed_tensors.compressors import ModelCompressor
from compressed_tensors.quantization import QuantizationConfig, apply_quantization_config
from compressed_tensors.quantization.utils import calculate_qparams
from safetensors import safe_open
from tokenizers import Tokenizer, models
from transformers import (
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)

FIXTURES = Path(__file__).resolve().parent.parent / "tests" / "fixtures" / "checkpoints"
GROUP = 128
TOOLS = ("torch", "transformers", "auto-round", "compressed-tensors")
WIDTHS = (4, 5, 6, 8)
"""Those made here; 7 bits would fill as many words as 8."""
SHAPE = {
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 512,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
}


def dense() -> Any:
    """A dense Qwen3 of three layers."""
    config = Qwen3Config(**SHAPE)
    config.architectures = ["Qwen3ForCausalLM"]
    return Qwen3ForCausalLM(config).to(torch.bfloat16)


def sparse() -> Any:
    """A Qwen3 mixture of four experts."""
    config = Qwen3MoeConfig(**SHAPE, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=128)
    config.architectures = ["Qwen3MoeForCausalLM"]
    return Qwen3MoeForCausalLM(config).to(torch.bfloat16)


def auto_round(model: Any, out: Path, layers: dict[str, Any]) -> Path:
    """Round to nearest at four bits, with exceptions for ``layers``; returns the folder that was written."""
    words = {f"t{index}": index for index in range(SHAPE["vocab_size"])}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel(words, unk_token="t0")))
    rounding = AutoRound(
        model, tokenizer, bits=4, group_size=GROUP, sym=True, iters=0, disable_opt_rtn=True, layer_config=layers
    )
    rounding.quantize_and_save(str(out), format="auto_round")
    return next(out.rglob("config.json")).parent


def scheme(bits: int, symmetric: bool = True) -> dict[str, Any]:
    """A compressed-tensors weight scheme."""
    return {"num_bits": bits, "type": "int", "symmetric": symmetric, "strategy": "group", "group_size": GROUP}


def compressed(model: Any, out: Path) -> Path:
    """Five groups: four widths, one of them with zero points under a plain name, and the embeddings."""
    groups = {
        "group_0": {"targets": ["re:.*self_attn\\.(q|k|v|o)_proj$"], "weights": scheme(6)},
        "group_1": {"targets": ["re:.*mlp\\.(gate|up)_proj$"], "weights": scheme(5)},
        "group_2": {"targets": ["re:.*mlp\\.down_proj$"], "weights": scheme(8)},
        "group_3": {"targets": ["model.layers.2.mlp.down_proj"], "weights": scheme(4, symmetric=False)},
        "group_4": {"targets": ["re:.*embed_tokens$"], "weights": scheme(8)},
    }
    config = QuantizationConfig(
        config_groups=groups, ignore=["lm_head"], format="pack-quantized", quantization_status="initialized"
    )
    apply_quantization_config(model, config)
    for module in model.modules():
        applied = getattr(module, "quantization_scheme", None)
        if applied is not None:
            grouped = module.weight.data.view(module.weight.shape[0], -1, GROUP)
            scales, zeros = calculate_qparams(grouped.amin(-1), grouped.amax(-1), applied.weights)
            module.weight_scale.data.copy_(scales)
            if hasattr(module, "weight_zero_point"):
                module.weight_zero_point.data.copy_(zeros)
    packer = ModelCompressor.from_pretrained_model(model, quantization_format="pack-quantized")
    packer.compress_model(model)
    model.save_pretrained(out, max_shard_size="600KB")
    packer.update_config(out)
    return out


def headers(folder: Path) -> dict[str, Any]:
    """File → its header as text and its size."""
    result = {}
    for file in sorted(folder.glob("*.safetensors")):
        with file.open("rb") as handle:
            (length,) = struct.unpack("<Q", handle.read(8))
            result[file.name] = {"size": file.stat().st_size, "header": handle.read(length).decode()}
    return result


def part(name: str) -> str:
    """The part of the model that a tensor of these models belongs to."""
    return next((word for word in ("embed_tokens", "lm_head") if word in name.split(".")), "body")


def measured(folder: Path, shapes: dict[str, tuple[int, int]]) -> dict[str, Any]:
    """Widths and bytes of the written files, by reading the tensors; ``shapes`` are those of the linear layers."""
    sizes: Counter[str] = Counter()
    words: dict[str, int] = {}
    plain: set[str] = set()
    asymmetric = []
    for file in folder.glob("*.safetensors"):
        with safe_open(file, "pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118
                tensor = tensors.get_tensor(name)
                sizes[part(name)] += tensor.nbytes
                module, _, stored = name.rpartition(".")
                if stored in ("qweight", "weight_packed"):
                    # Rows of whole words: a word holds as many whole values as fit when they do not fill it.
                    words[module] = tensor.numel()
                elif stored == "weight" and module in shapes:
                    plain.add(module)
                elif stored == "weight_zero_point":
                    asymmetric.append(module)
    widths: Counter[int] = Counter()
    for module, count in words.items():
        if part(module) == "body":
            rows, columns = shapes[module]
            widths[next(b for b in WIDTHS if -(-columns // (32 // b)) * rows == count)] += 1
    return {
        "sizes": {**dict.fromkeys(("body", "embed_tokens", "lm_head"), 0), **sizes},
        "widths": {str(bits): number for bits, number in sorted(widths.items())},
        "unquantized": len([module for module in plain if part(module) == "body"]),
        "asymmetric": sorted(asymmetric),
    }


def keep(name: str, folder: Path, shapes: dict[str, tuple[int, int]]) -> None:
    """Write the fixture ``real-name``."""
    out = FIXTURES / f"real-{name}"
    out.mkdir(parents=True, exist_ok=True)
    for file in ("config.json", "model.safetensors.index.json"):
        if (folder / file).exists():
            text = json.dumps(json.loads((folder / file).read_text()), indent=1)
            (out / file).write_text(text + "\n")
    figures = measured(folder, shapes)
    for file, content in (("headers.json", headers(folder)), ("expected.json", figures)):
        (out / file).write_text(json.dumps(content, indent=1) + "\n")
    tools = ", ".join(f"{tool} {version(tool)}" for tool in TOOLS)
    (out / "README.md").write_text(
        f"# {out.name}\n\nA small random model, quantized and read back by scripts/make_quantized_fixture.py with\n"
        f"{tools}.\nThe weights are left out; headers.json has each file's header and size.\n\n"
        + "".join(f"- {key}: {value}\n" for key, value in figures.items())
    )


def linear_shapes(model: Any) -> dict[str, tuple[int, int]]:
    """Name → rows and columns of every linear layer; fused experts as the layers that quantizers split them into."""
    shapes = {n: tuple(m.weight.shape) for n, m in model.named_modules() if isinstance(m, torch.nn.Linear)}
    config = model.config
    for name, module in model.named_modules():
        if name.endswith(".mlp.gate") and hasattr(module, "weight"):
            shapes[name] = tuple(module.weight.shape)
        if name.endswith(".mlp.experts"):
            width, hidden = config.moe_intermediate_size, config.hidden_size
            for index in range(config.num_experts):
                for projection in ("gate_proj", "up_proj"):
                    shapes[f"{name}.{index}.{projection}"] = (width, hidden)
                shapes[f"{name}.{index}.down_proj"] = (hidden, width)
    return shapes


def main() -> None:
    """Make all fixtures."""
    torch.manual_seed(0)
    exceptions = {"model.layers.1.mlp.down_proj": {"bits": 8}, "model.layers.2.self_attn.v_proj": {"bits": 16}}
    with tempfile.TemporaryDirectory() as scratch:
        for name, model, layers in (("auto-round", dense(), exceptions), ("auto-round-moe", sparse(), {})):
            shapes = linear_shapes(model)
            keep(name, auto_round(model, Path(scratch) / name, layers), shapes)
        model = dense()
        shapes = linear_shapes(model)
        keep("compressed-tensors", compressed(model, Path(scratch) / "ct"), shapes)


if __name__ == "__main__":
    main()
