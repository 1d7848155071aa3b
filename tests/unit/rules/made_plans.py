"""A plan that nothing stands against, and what is said of it with changes."""

from __future__ import annotations

from typing import Any

import msgspec
from made_checkpoints import checkpoint, quantized, scheme

from cockpit.catalog.slug import Slug, Weights
from cockpit.checkpoint.types import Beside, Checkpoint, LinearAttention, OwnCode, Sizes
from cockpit.rig.types import Engine, Gpu, HostFacts, Rig
from cockpit.rules.context import Context
from cockpit.rules.finding import Finding
from cockpit.rules.plan_rules import plan_findings
from cockpit.units import GIB

W4 = Weights(format="auto-round", repo="o/n", bits=4, symmetric=True, group_size=128)
ENGINE = Engine(
    id="e",
    path="/e/vllm",
    python="/e/python",
    package="/e",
    version="0.33.0",
    platform="cuda",
    cuda=(13, 0),
    python_headers=True,
    models=("Qwen3ForCausalLM",),
    tool_parsers=("hermes", "qwen3_coder"),
    reasoning_parsers=("qwen3", "glm45"),
)
HOST = HostFacts(
    shared_memory_total_bytes=16 * GIB,
    shared_memory_free_bytes=16 * GIB,
    compiler="/usr/bin/gcc",
    token="HF_TOKEN",
    model_cache="/cache",
    model_cache_free_bytes=500 * GIB,
    cuda_toolkit=(13, 0),
    cache_rooms={"/home/u/.cache/vllm": 90 * GIB},
    cached_repos=frozenset({"o/n"}),
)
WHOLE = Beside(tokenizer=True, chat_template=True, gguf=False)
GOOD = checkpoint(beside=WHOLE)
NEEDS_CODE = checkpoint(beside=msgspec.structs.replace(WHOLE, config_code=("odd_vl", "configuration_odd.OddConfig")))
TYPES = ("llama", "qwen3")
OWN_TOKENIZER = checkpoint(
    model_type="odd", beside=msgspec.structs.replace(WHOLE, tokenizer_code=OwnCode("t.OddTokenizer", "OddTokenizer"))
)
OWN_PROCESSOR = checkpoint(
    model_type="odd",
    vision=True,
    beside=msgspec.structs.replace(WHOLE, processor_code=OwnCode("p.OddProcessor", "OddProcessor")),
)
KNOWN = {"tokenizers": ("llama", "LlamaTokenizer"), "processors": ("llava", "LlavaProcessor")}
HEADLESS = checkpoint(quantized(scheme(), lm_head=scheme()), beside=WHOLE, vision=True)
GDN = LinearAttention(key_heads=16, value_heads=32, key_head_dim=128, value_head_dim=128, conv_kernel=4)


def sizes(gib: float, estimated: bool = False) -> Sizes:
    total = int(gib * GIB)
    return Sizes(total=total, body=total, embed_tokens=0, lm_head=0, mtp=0, vision=0, estimated=estimated)


def gpus(name: str = "NVIDIA GeForce RTX 3090", capability: tuple[int, int] = (8, 6), used: float = 0.3) -> Rig:
    cards = tuple(
        Gpu(
            index=index,
            uuid=f"GPU-{index}",
            name=name,
            total_bytes=24 * GIB,
            used_bytes=int(used * GIB),
            capability=capability,
        )
        for index in (0, 1)
    )
    return Rig(gpus=cards, driver_cuda=(13, 0), memory_total_bytes=64 * GIB, memory_available_bytes=50 * GIB)


def findings(
    *,
    of: Checkpoint | None = GOOD,
    rig: Rig | None = None,
    engine: Engine | None = ENGINE,
    host: HostFacts = HOST,
    slug: dict[str, Any] | None = None,
    values: dict[str, Any] | None = None,
    **facts: Any,
) -> list[Finding]:
    """What is said of a plan that nothing stands against, with changes."""
    said = {"name": "vllm/a", "model": "A", "weights": W4, "max_model_len": 4096, **(slug or {})}
    plain = {"gpus": (0, 1), "tensor_parallel": 2, "max_model_len": 4096, "kv_cache_dtype": "auto", "port": 8000}
    ctx = Context(
        slug=Slug(**said),
        checkpoint=of,
        rig=rig or gpus(),
        engine=engine,
        host=host,
        values={**plain, "host": "127.0.0.1", **(values or {})},
        **facts,
    )
    return list(plan_findings(ctx))


def changed(base: Any, **fields: Any) -> Any:
    return msgspec.structs.replace(base, **fields)
