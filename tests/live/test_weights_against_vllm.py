"""The weights of one rank against what vLLM's own model classes make room for, family by family, to the byte."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cockpit.checkpoint.inspect import inspect
from cockpit.planner.weights import rank_weights
from cockpit.rig.types import Engine

pytestmark = pytest.mark.live
DRIVER = Path(__file__).with_name("vllm_loading.py")
FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "checkpoints"
QUIET = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
LAYERS = 6
_SMALL_TENSORS = 4096
"""Scales of keys and values and such, which no config tells of, a layer."""
_GEMMA = {
    "hidden_size": 5376,
    "intermediate_size": 21504,
    "num_attention_heads": 32,
    "num_key_value_heads": 16,
    "vocab_size": 262208,
    "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-6,
    "sliding_window": 1024,
    "tie_word_embeddings": True,
}
_MADE: dict[str, dict[str, Any]] = {
    "gemma 3": {
        **_GEMMA,
        "architectures": ["Gemma3ForCausalLM"],
        "model_type": "gemma3_text",
        "head_dim": 128,
        "query_pre_attn_scalar": 168,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0},
    },
    "gemma 4": {
        **_GEMMA,
        "architectures": ["Gemma4ForCausalLM"],
        "model_type": "gemma4_text",
        "head_dim": 256,
        "global_head_dim": 512,
        "num_global_key_value_heads": 4,
        "attention_k_eq_v": True,
        "hidden_size_per_layer_input": 0,
    },
    "yarn": {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_size": 3584,
        "intermediate_size": 18944,
        "num_attention_heads": 28,
        "num_key_value_heads": 4,
        "vocab_size": 151999,
        "max_position_embeddings": 32768,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": False,
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768},
    },
    "fused": {
        "architectures": ["Phi3ForCausalLM"],
        "model_type": "phi3",
        "hidden_size": 3072,
        "intermediate_size": 8192,
        "num_attention_heads": 32,
        "num_key_value_heads": 2,
        "vocab_size": 32064,
        "max_position_embeddings": 4096,
        "original_max_position_embeddings": 4096,
        "rms_norm_eps": 1e-5,
        "pad_token_id": 0,
        "tie_word_embeddings": False,
    },
}
_SHIPPED = ("bf16", "llama", "mixtral", "qwen3-next", "deepseek-v3", "gemma2")


def _folders(home: Path) -> dict[str, Path]:
    configs = {name: json.loads((FIXTURES / name / "config.json").read_text()) for name in _SHIPPED} | _MADE
    folders = {}
    for name, config in configs.items():
        folder = home / name
        folder.mkdir()
        plain = {key: value for key, value in config.items() if key not in ("quantization_config", "layer_types")}
        plain |= {"num_hidden_layers": LAYERS, "dtype": "bfloat16", "num_nextn_predict_layers": 0}
        (folder / "config.json").write_text(json.dumps(plain))
        folders[name] = folder
    return folders


def test_every_family_holds_what_vllm_makes_room_for(engine: Engine, tmp_path: Path) -> None:
    folders = _folders(tmp_path)
    cases = [(name, ranks) for name in folders for ranks in (1, 2, 4)]
    done = subprocess.run(
        [engine.python, str(DRIVER), str(tmp_path / "rendezvous")],
        input=json.dumps([{"folder": str(folders[name]), "ranks": ranks} for name, ranks in cases]),
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
        env={**os.environ, **QUIET},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for (name, ranks), theirs in zip(cases, json.loads(done.stdout.splitlines()[-1]), strict=True):
        ours = rank_weights(inspect(str(folders[name])), tensor_parallel=ranks, engine_version=engine.version)
        assert ours is not None
        held = ours.sharded_bytes + ours.replicated_bytes
        print(f"{name:12} on {ranks}: {held:,} of {theirs['weights']:,} bytes, tables {theirs['tables']:,}")
        assert ours.table_bytes == theirs["tables"], name
        assert 0 <= theirs["weights"] - held <= LAYERS * _SMALL_TENSORS, (name, ranks, held, theirs)
