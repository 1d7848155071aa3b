"""The planner against vLLM's own planning functions, on random models of every family that it covers."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from kv_cases import planned

from cockpit import paths
from cockpit.checkpoint.inspect import inspect
from cockpit.planner.families import kv_model
from cockpit.planner.groups import group_size
from cockpit.planner.kv import forecast_kv
from cockpit.planner.types import KvForecast, KvModel, KvSettings
from cockpit.rig.types import Engine

pytestmark = pytest.mark.live
CASES = 600
GIB = 1024**3
QUIET = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
DRIVER = Path(__file__).with_name("vllm_planning.py")
POOLS = Path(__file__).with_name("vllm_pools.py")
CUDA_TYPES = (
    "auto",
    "bfloat16",
    "fp8",
    "fp8_e5m2",
    "int8_per_token_head",
    "fp8_per_token_head",
    "int4_per_token_head",
)


def _attention(pick: random.Random, family: str) -> list[dict[str, Any]]:
    heads, dim = pick.choice((1, 2, 4, 8, 16)), pick.choice((64, 80, 96, 128, 256))
    full = {"layers": pick.randint(1, 40), "heads": heads, "dim": dim, "window": None}
    if family in ("plain", "gated-delta"):
        return [full]
    window = pick.choice((128, 512, 1024, 1023, 4096))
    sliding = {**full, "layers": pick.randint(1, 60), "window": window}
    if family == "windows only":
        return [sliding]
    if family == "heads of two sizes":
        full |= {"heads": pick.choice((1, 2, 4, 8)), "dim": pick.choice((128, 256, 512))}
    kinds = [sliding, full]
    if family == "two windows":
        kinds.append({**sliding, "layers": pick.randint(1, 30), "window": window * 2})
    return pick.sample(kinds, len(kinds))


def _gated_delta(pick: random.Random, platform: str) -> dict[str, int]:
    return {
        "layers": pick.randint(1, 60),
        "nk": pick.choice((8, 16, 32)),
        "nv": pick.choice((16, 32, 48, 64)),
        "dk": pick.choice((64, 128)),
        "dv": pick.choice((64, 128)),
        "k": pick.choice((3, 4)),
        "bytes": 4 if platform == "cpu" else pick.choice((2, 4)),
    }


def _case(pick: random.Random) -> dict[str, Any]:
    family = pick.choice(
        ("plain", "gated-delta", "gated-delta", "windows", "windows only", "two windows", "heads of two sizes")
    )
    platform = pick.choice(("cuda", "cuda", "cpu"))
    return {
        "family": family,
        "attention": _attention(pick, family),
        "gdn": _gated_delta(pick, platform) if family == "gated-delta" else None,
        "ranks": pick.choice((1, 1, 2, 4, 8)),
        "dtype": pick.choice(CUDA_TYPES) if platform == "cuda" else "auto",
        "spec": pick.choice((0, 0, 1, 2, 3, 4)),
        "length": pick.choice((pick.randint(1, 400_000), 2048, 32768, 131072, 262144)),
        "prefix": pick.random() < 0.5,
        "platform": platform,
        "steps": {"cuda": 2, "cpu": 1}[platform],
        "batch": pick.choice((512, 2048, 8192, 5000)),
        "available": pick.choice((pick.randint(1, 2**31), pick.randint(2**30, 2**37))),
    }


def test_random_models_come_out_as_vllm_plans_them(engine: Engine) -> None:
    pick = random.Random(20251129)
    cases = [_case(pick) for _ in range(CASES)]
    done = subprocess.run(
        [engine.python, str(DRIVER)],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
        env={**os.environ, **QUIET},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answers = json.loads(done.stdout.splitlines()[-1])
    wrong = []
    for case, theirs in zip(cases, answers, strict=True):
        block = theirs.pop("block")
        ours = planned(case)
        if ours != theirs:
            wrong.append((case, block, ours, theirs))
    assert not wrong, f"{len(wrong)} of {CASES} differ, the first: {wrong[0]}"
    families = {case["family"] for case in cases}
    print(f"{CASES} random models of {len(families)} kinds, equal in tokens, concurrency, boot check and search")
    assert sum(case["fits"] for case in answers) > CASES // 4, "too few of the cases boot to say much"
    assert group_size([12, 13]) == 13


_SMALL = {
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 512,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-6,
    "dtype": "bfloat16",
}
_GEMMA = {
    **_SMALL,
    "architectures": ["Gemma3ForCausalLM"],
    "model_type": "gemma3_text",
    "num_hidden_layers": 7,
    "sliding_window": 64,
    "layer_types": ["full_attention" if layer in (2, 5) else "sliding_attention" for layer in range(7)],
    "query_pre_attn_scalar": 32,
    "tie_word_embeddings": True,
}
_SHARING = {
    **_SMALL,
    "architectures": ["Gemma4ForCausalLM"],
    "model_type": "gemma4_text",
    "num_hidden_layers": 10,
    "sliding_window": 64,
    "layer_types": ["sliding_attention" if (layer + 1) % 5 else "full_attention" for layer in range(10)],
    "global_head_dim": 64,
    "num_global_key_value_heads": 1,
    "attention_k_eq_v": True,
    "num_kv_shared_layers": 3,
    "hidden_size_per_layer_input": 0,
    "tie_word_embeddings": True,
}
_NANO = {
    **_SMALL,
    "architectures": ["Gemma3nForCausalLM"],
    "model_type": "gemma3n_text",
    "num_hidden_layers": 15,
    "intermediate_size": 256,
    "sliding_window": 64,
    "layer_types": ["sliding_attention" if (layer + 1) % 5 else "full_attention" for layer in range(15)],
    "num_kv_shared_layers": 5,
    "hidden_size_per_layer_input": 16,
    "vocab_size_per_layer_input": 512,
    "laurel_rank": 16,
    "activation_sparsity_pattern": [0.0] * 15,
    "tie_word_embeddings": True,
}
_GATED_DELTA = {
    **_SMALL,
    "architectures": ["Qwen3NextForCausalLM"],
    "model_type": "qwen3_next",
    "num_hidden_layers": 8,
    "full_attention_interval": 4,
    "linear_num_key_heads": 4,
    "linear_num_value_heads": 8,
    "linear_key_head_dim": 64,
    "linear_value_head_dim": 64,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 64,
    "shared_expert_intermediate_size": 64,
    "mlp_only_layers": [],
}


MODELS: dict[str, tuple[dict[str, Any], dict[str, str], int]] = {
    "windows": (_GEMMA, {}, 128),
    "two sizes and sharing": (_SHARING, {}, 128),
    "sharing alone": (_NANO, {}, 128),
    "gated delta": (_GATED_DELTA, {"mamba_ssm_cache_dtype": "float32"}, 640),
}
"""Its config, further settings of the engine, and its tokens a block."""


@pytest.fixture(scope="module")
def folders(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The checkpoint of each model, with the log of an engine that was made of it."""
    folders = {name: tmp_path_factory.mktemp("models") / "model" for name in MODELS}
    for name, folder in folders.items():
        shutil.copytree(paths.shipped("slugs") / "cpu" / "tiny-qwen3", folder)
        (folder / "config.json").write_text(json.dumps(MODELS[name][0]), encoding="utf-8")
    done = subprocess.run(
        [engine.python, str(POOLS)],
        input=json.dumps({str(folders[name]): further for name, (_, further, _) in MODELS.items()}),
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
        env={**os.environ, **QUIET, "VLLM_ENABLE_V1_MULTIPROCESSING": "0"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folders


@pytest.mark.parametrize("name", MODELS)
def test_an_engine_prints_what_was_forecast(engine: Engine, folders: dict[str, Path], name: str) -> None:
    _, _, block = MODELS[name]
    model = kv_model(inspect(str(folders[name])))
    assert isinstance(model, KvModel)
    if model.gated_delta is not None:
        model = msgspec.structs.replace(model, gated_delta=msgspec.structs.replace(model.gated_delta, state_bytes=4))
    settings = KvSettings(max_model_len=4096, platform="cpu", engine_version=engine.version)
    forecast = forecast_kv(model, settings, GIB)
    assert isinstance(forecast, KvForecast)
    log = (folders[name] / "engine.log").read_text(encoding="utf-8", errors="replace")
    printed = re.search(r"KV cache size: ([\d,]+) tokens, .* per request: ([\d.]+)x", log)
    assert printed is not None, log[-2000:]
    assert printed.group(1) == f"{forecast.capacity_tokens:,}"
    assert printed.group(2) == f"{forecast.max_concurrency:.2f}"
    assert forecast.block_size_tokens == block
