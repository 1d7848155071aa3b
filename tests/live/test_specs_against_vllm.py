"""What a config.json says of its attention layers against what vLLM's own model class makes of it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cockpit.checkpoint.inspect import inspect
from cockpit.planner.families import kv_model
from cockpit.planner.layout import windows_of
from cockpit.planner.types import KvUnknown
from cockpit.rig.types import Engine

pytestmark = pytest.mark.live
DRIVER = Path(__file__).with_name("vllm_specs.py")
QUIET = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
_SHAPE = {
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_hidden_layers": 12,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "vocab_size": 4096,
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "torch_dtype": "bfloat16",
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
_EXPERTS = {"num_local_experts": 4, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64}
_HALF = {"sliding_window": 4096, "use_sliding_window": True, "max_window_layers": 6}
CONFIGS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gpt-oss by its class": ("GptOssForCausalLM", "gpt_oss", {**_EXPERTS, "head_dim": 64}),
    "mixtral": ("MixtralForCausalLM", "mixtral", {**_EXPERTS, "sliding_window": None}),
    "qwen3 experts": ("Qwen3MoeForCausalLM", "qwen3_moe", {**_EXPERTS, "sliding_window": 4096}),
    "llama without kv heads": ("LlamaForCausalLM", "llama", {"num_key_value_heads": None}),
    "llama without head size": ("LlamaForCausalLM", "llama", {"head_dim": None}),
    "llama with a window": ("LlamaForCausalLM", "llama", {"sliding_window": 4096}),
    "llama with kinds": (
        "LlamaForCausalLM",
        "llama",
        {"layer_types": ["sliding_attention", "full_attention"] * 6, "sliding_window": 1024},
    ),
    "mistral by its class": ("MistralForCausalLM", "mistral", {}),
    "mistral without a window": ("MistralForCausalLM", "mistral", {"sliding_window": None}),
    "qwen2, window not used": ("Qwen2ForCausalLM", "qwen2", {"sliding_window": 4096}),
    "qwen2, window by depth": ("Qwen2ForCausalLM", "qwen2", {**_HALF, "max_window_layers": 12}),
    "qwen2, window everywhere": ("Qwen2ForCausalLM", "qwen2", {**_HALF, "max_window_layers": 0}),
    "qwen2, window in half": ("Qwen2ForCausalLM", "qwen2", _HALF),
    "gemma2": ("Gemma2ForCausalLM", "gemma2", {"head_dim": 256, "hidden_activation": "gelu_pytorch_tanh"}),
    "cohere2": ("Cohere2ForCausalLM", "cohere2", {"head_dim": 64, "layer_norm_eps": 1e-5, "logit_scale": 0.25}),
    "olmo3": ("Olmo3ForCausalLM", "olmo3", {"sliding_window": 512}),
    "phi3": ("Phi3ForCausalLM", "phi3", {"sliding_window": 2047, "original_max_position_embeddings": 32768}),
    "starcoder2": ("Starcoder2ForCausalLM", "starcoder2", {"sliding_window": 4096}),
}


def _ours(folder: Path, version: str) -> dict[str, int] | None:
    model = kv_model(inspect(str(folder)))
    if isinstance(model, KvUnknown):
        return None
    found: dict[str, int] = {}
    for one in windows_of(model, version):
        key = f"{one.kv_heads} {one.head_dim} {one.window}"
        found[key] = found.get(key, 0) + one.layers
    return found


def test_configs_come_out_as_vllms_own_classes(engine: Engine, tmp_path: Path) -> None:
    folders = {}
    for name, (architecture, model_type, changes) in CONFIGS.items():
        folders[name] = tmp_path / name
        folders[name].mkdir()
        told = {**_SHAPE, "architectures": [architecture], "model_type": model_type, **changes}
        (folders[name] / "config.json").write_text(json.dumps(told), encoding="utf-8")
    done = subprocess.run(
        [engine.python, str(DRIVER), str(tmp_path / "rendezvous"), *map(str, folders.values())],
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
        env={**os.environ, **QUIET},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answers = json.loads(done.stdout.splitlines()[-1])
    theirs = {name: answers[str(folder)] for name, folder in folders.items()}
    assert isinstance(theirs.pop("qwen2, window in half"), str), "vLLM refuses it"
    assert _ours(folders.pop("qwen2, window in half"), engine.version) is None
    assert theirs == {name: _ours(folder, engine.version) for name, folder in folders.items()}
