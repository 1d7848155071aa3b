"""Quantized embed_tokens on Qwen3.5-class models and their MTP drafts (vllm#54304), as a vLLM plugin.

Stock vLLM builds that embedding without its quantization and its name, so that packed weights find no parameter. This
hands both on while the model is built. An embedding that its checkpoint does not quantize is built as before.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

import cockpit_overlay as overlay

ID = "quantized-embedding"
SWITCH = "COCKPIT_QUANTIZED_EMBEDDING"
HERE = Path(__file__).parent
_MODELS = "vllm.model_executor.models"


def register() -> None:
    """Called by vLLM in every process of its own; does nothing while the switch is not set."""
    if os.environ.get(SWITCH) != "1" or not overlay.admitted(HERE):
        return
    overlay.when_imported(f"{_MODELS}.qwen3_5", lambda module: _patch(module, "Qwen3_5Model"))
    overlay.when_imported(f"{_MODELS}.qwen3_5_mtp", lambda module: _patch(module, "Qwen3_5MultiTokenPredictor"))


def _patch(module: Any, name: str) -> None:
    """Let the class build its embedding with the checkpoint's quantization."""
    model = getattr(module, name)
    stock = model.__init__

    @functools.wraps(stock)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        config = kwargs["vllm_config"].quant_config
        if config is None or config.get_name() != "compressed-tensors":
            stock(self, *args, **kwargs)
            return
        prefix = kwargs.get("prefix", "")
        plain = module.VocabParallelEmbedding
        where = f"{prefix}.embed_tokens" if prefix else "embed_tokens"
        # The constructor looks the class up by name in its module, and nothing else of it does.
        module.VocabParallelEmbedding = functools.partial(plain, quant_config=config, prefix=where)
        try:
            stock(self, *args, **kwargs)
        finally:
            module.VocabParallelEmbedding = plain
        _finish(name, self.embed_tokens)

    model.__init__ = init


def _finish(name: str, embedding: Any) -> None:
    """Say how the embedding was built. Sharing it with a draft looks at ``weight``, which a packed one has not."""
    bits = getattr(embedding.quant_method, "num_bits", None)
    if bits is None:
        overlay.say(ID, f"the embedding of {name} is not quantized")
        return
    embedding.weight = None
    overlay.say(ID, f"the embedding of {name} is built with its {bits}-bit weights")
