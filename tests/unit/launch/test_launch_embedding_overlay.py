"""The patch of a model class that builds its embedding without its quantization, on a class of that shape."""

from __future__ import annotations

import importlib
import sys
from types import SimpleNamespace as Space
from typing import Any

import pytest

from cockpit.launch.overlay import FOLDER

for place in ("common", "quantized_embedding"):
    sys.path.append(str(FOLDER / place))
plugin: Any = importlib.import_module("cockpit_quantized_embedding")


class Config:
    """A quantization config that packs what ends in embed_tokens, if it packs anything."""

    def __init__(self, name: str, bits: int | None) -> None:
        self.name, self.bits = name, bits

    def get_name(self) -> str:
        return self.name


class Embedding:
    def __init__(self, size: int, width: int, quant_config: Any = None, prefix: str = "") -> None:
        self.size, self.prefix = size, prefix
        packed = quant_config is not None and quant_config.bits is not None and prefix.endswith("embed_tokens")
        self.quant_method = Space(num_bits=quant_config.bits) if packed else Space()
        if not packed:
            self.weight = "dense"


def patched(said: list[str], monkeypatch: pytest.MonkeyPatch, fails: bool = False) -> Any:
    """A module with such a class in it, patched."""
    monkeypatch.setattr(plugin.overlay, "say", lambda _, text: said.append(text))
    module = Space(VocabParallelEmbedding=Embedding)

    class Model:
        def __init__(self, *, vllm_config: Any, prefix: str = "") -> None:
            self.embed_tokens = module.VocabParallelEmbedding(512, 256)
            if fails:
                raise ValueError("no")

    module.Model = Model
    plugin._patch(module, "Model")
    return module


@pytest.mark.parametrize(
    ("prefix", "where"), [("language_model.model", "language_model.model.embed_tokens"), ("", "embed_tokens")]
)
def test_a_packed_embedding_is_built_with_its_config_and_name(
    prefix: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    module = patched(said, monkeypatch)
    made = module.Model(vllm_config=Space(quant_config=Config("compressed-tensors", 8)), prefix=prefix).embed_tokens
    assert (made.prefix, made.quant_method.num_bits, made.weight) == (where, 8, None)
    assert said == ["the embedding of Model is built with its 8-bit weights"]
    assert module.VocabParallelEmbedding is Embedding


@pytest.mark.parametrize("config", [None, Config("inc", 4), Config("compressed-tensors", None)])
def test_an_embedding_that_is_not_packed_is_as_before(config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    module = patched(said, monkeypatch)
    made = module.Model(vllm_config=Space(quant_config=config), prefix="model").embed_tokens
    assert (made.weight, made.size) == ("dense", 512)
    assert said == (["the embedding of Model is not quantized"] if config and config.name != "inc" else [])


def test_a_constructor_that_fails_leaves_the_module_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    module = patched([], monkeypatch, fails=True)
    with pytest.raises(ValueError, match="no"):
        module.Model(vllm_config=Space(quant_config=Config("compressed-tensors", 8)))
    assert module.VocabParallelEmbedding is Embedding
