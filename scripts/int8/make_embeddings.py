"""Make two small Qwen3.5 checkpoints with the same weights, for the embedding overlay. Runs under vLLM's Python.

``emb-plain`` has its embedding in bfloat16, ``emb-packed`` as 8-bit compressed-tensors: the plain one is what the
packed one stands for, so that their logits must be equal.

PYTHON scripts/int8/make_embeddings.py FOLDER [--text-only]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
import transformers
from make_models import GROUP, save

LAYERS, HIDDEN, VOCABULARY = 4, 256, 512
TEXT: dict[str, Any] = {
    "model_type": "qwen3_5_text",
    "hidden_size": HIDDEN,
    "intermediate_size": 512,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": VOCABULARY,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "full_attention_interval": 4,
    "layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"],
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-6,
    "attention_bias": False,
    "hidden_act": "silu",
    "attn_output_gate": True,
    "mamba_ssm_dtype": "float32",
    "tie_word_embeddings": False,
    "mtp_num_hidden_layers": 0,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10000000,
        "partial_rotary_factor": 0.25,
        "mrope_interleaved": True,
        "mrope_section": [3, 3, 2],
    },
    "dtype": "bfloat16",
    "eos_token_id": 2,
    "bos_token_id": None,
}
VISION: dict[str, Any] = {
    "model_type": "qwen3_5",
    "depth": 1,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_heads": 2,
    "out_hidden_size": HIDDEN,
    "patch_size": 16,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "num_position_embeddings": 64,
    "in_channels": 3,
    "hidden_act": "gelu_pytorch_tanh",
    "deepstack_visual_indexes": [],
}
PACKING: dict[str, Any] = {
    "quant_method": "compressed-tensors",
    "format": "pack-quantized",
    "quantization_status": "compressed",
    "kv_cache_scheme": None,
    "config_groups": {
        "group_0": {
            "targets": ["re:.*embed_tokens$"],
            "weights": {
                "num_bits": 8,
                "type": "int",
                "symmetric": True,
                "strategy": "group",
                "group_size": GROUP,
                "dynamic": False,
                "observer": "minmax",
            },
            "input_activations": None,
            "output_activations": None,
            "format": "pack-quantized",
        }
    },
    "ignore": ["lm_head", "re:.*layers.*", "re:.*visual.*"],
}


def config(text_only: bool) -> dict[str, Any]:
    """config.json of the text class, or of the one with vision."""
    if text_only:
        return {**TEXT, "architectures": ["Qwen3_5ForCausalLM"]}
    return {
        "architectures": ["Qwen3_5ForConditionalGeneration"],
        "model_type": "qwen3_5",
        "text_config": TEXT,
        "vision_config": VISION,
        "image_token_id": 500,
        "video_token_id": 501,
        "vision_start_token_id": 502,
        "vision_end_token_id": 503,
        "tie_word_embeddings": False,
        "dtype": "bfloat16",
    }


def weights(folder: Path, architecture: str) -> dict[str, torch.Tensor]:
    """Random tensors under the names that Transformers gives them, of the size that keeps activations near one."""
    configuration = transformers.AutoConfig.from_pretrained(folder)
    torch.manual_seed(11)
    model = getattr(transformers, architecture)(configuration).to(torch.bfloat16)
    tensors = {}
    for name, tensor in model.state_dict().items():
        if tensor.is_floating_point() and tensor.dim() == 2:
            tensors[name] = (torch.randn(tensor.shape) / tensor.shape[-1] ** 0.5).to(tensor.dtype)
        else:
            tensors[name] = tensor.clone().contiguous()
    return tensors


def embedding() -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """An embedding [VOCABULARY, HIDDEN] in bfloat16, and the packed tensors that stand for exactly that."""
    grouped = torch.randn(VOCABULARY, HIDDEN // GROUP, GROUP)
    scales = (grouped.abs().amax(-1) / 127).bfloat16()
    codes = torch.clamp(torch.round(grouped / scales.float()[..., None]), -127, 127).to(torch.int64)
    plain = (codes.float() * scales.float()[..., None]).view(VOCABULARY, HIDDEN).bfloat16()
    four = (codes + 128).view(VOCABULARY, -1, 4)
    words = four[..., 0] | four[..., 1] << 8 | four[..., 2] << 16 | four[..., 3] << 24
    packed = torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)
    shape = torch.tensor([VOCABULARY, HIDDEN])
    return plain, {"weight_packed": packed.contiguous(), "weight_scale": scales, "weight_shape": shape}


def main() -> None:
    """Write both checkpoints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--text-only", action="store_true", help="the class without vision")
    words = parser.parse_args()
    configuration = config(words.text_only)
    plain = words.folder / "emb-plain"
    save(plain, configuration, {})  # Transformers reads the config from a folder
    tensors = weights(plain, configuration["architectures"][0])
    name = next(name for name in tensors if name.endswith("embed_tokens.weight"))
    tensors[name], packed = embedding()
    save(plain, configuration, tensors)
    del tensors[name]
    stem = name.removesuffix(".weight")
    tensors |= {f"{stem}.{part}": tensor for part, tensor in packed.items()}
    save(words.folder / "emb-packed", {**configuration, "quantization_config": PACKING}, tensors)
    print(f"{configuration['architectures'][0]}: {name}, {VOCABULARY} x {HIDDEN}, 8-bit groups of {GROUP}")


if __name__ == "__main__":
    main()
