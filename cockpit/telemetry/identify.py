"""What serves at an address that gives no vLLM figures: told by its families, its model list or its pages."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

_FAMILIES = {
    "sglang:": "SGLang",
    "sglang_": "SGLang",
    "llamacpp:": "llama.cpp",
    "tgi_": "text-generation-inference",
    "te_": "text-embeddings-inference",
    "lmdeploy:": "LMDeploy",
    "trtllm_": "TensorRT-LLM",
    "nv_inference_": "Triton",
    "ray_vllm": "Ray Serve",
    "litellm_": "LiteLLM",
    "ollama_": "Ollama",
    "aphrodite:": "Aphrodite",
}
"""Beginning of the names of figures → what publishes them."""
_OWNERS = {
    "vllm": "vLLM",
    "sglang": "SGLang",
    "llamacpp": "llama.cpp",
    "lmdeploy": "LMDeploy",
    "tensorrt_llm": "TensorRT-LLM",
    "library": "Ollama",
    "koboldcpp": "KoboldCpp",
    "tabbyapi": "TabbyAPI",
}
"""``owned_by`` of /v1/models → what serves."""
_MAX_BYTES = 1 << 18

Get = Callable[[str], bytes | None]
"""Body of a path below the base URL; None when there is none."""


def server_of(text: str) -> str | None:
    """The server whose families stand in the text of /metrics; None for one that is not known."""
    for line in text.split("\n"):
        found = next((name for start, name in _FAMILIES.items() if line.startswith(start)), None)
        if found is not None:
            return found
    return None


def identify(get: Get) -> str | None:
    """The server that answers at an address, by what each says of itself there; None for one that is not known."""
    listed = _json(get("/v1/models"))
    if isinstance(listed, dict) and isinstance(listed.get("data"), list):
        for one in listed["data"][:1]:
            owner = one.get("owned_by") if isinstance(one, dict) else None
            if isinstance(owner, str) and owner.lower() in _OWNERS:
                return _OWNERS[owner.lower()]
    if (get("/") or b"").startswith(b"Ollama is running"):
        return "Ollama"
    about = _json(get("/info"))
    if isinstance(about, dict) and "model_id" in about:
        kinds = {"max_total_tokens": "text-generation-inference", "model_type": "text-embeddings-inference"}
        return next((name for key, name in kinds.items() if key in about), None)
    return None


def _json(body: bytes | None) -> Any:
    """What the body holds; None when that is no JSON, or too much of it."""
    try:
        return None if body is None or len(body) > _MAX_BYTES else json.loads(body)
    except (ValueError, RecursionError):
        return None
