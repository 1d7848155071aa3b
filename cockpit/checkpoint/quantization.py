"""quantization_config → how each module is stored, and the summary that the rules read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import msgspec

from cockpit.checkpoint.auto_round import read_auto_round
from cockpit.checkpoint.compressed import read_compressed
from cockpit.checkpoint.config import text_keys
from cockpit.checkpoint.declared import Declaration, nothing
from cockpit.checkpoint.floats import read_bits_and_bytes, read_fp8, read_modelopt, read_mxfp4
from cockpit.checkpoint.gptq_awq import read_awq, read_gptq
from cockpit.checkpoint.keys import Keys
from cockpit.checkpoint.kv_cache import own_kv_cache
from cockpit.checkpoint.modules import Module, Place
from cockpit.checkpoint.types import Quantization, WeightScheme

_READERS: dict[str, Callable[[Keys, str], Declaration]] = {
    "auto-round": read_auto_round,
    "auto_round": read_auto_round,
    "inc": read_auto_round,
    "gptq": read_gptq,
    "gptq_marlin": read_gptq,
    "auto_gptq": read_gptq,
    "awq": read_awq,
    "awq_marlin": read_awq,
    "auto_awq": read_awq,
    "compressed-tensors": read_compressed,
    "compressed_tensors": read_compressed,
    "fp8": read_fp8,
    "fbgemm_fp8": read_fp8,
    "modelopt": read_modelopt,
    "modelopt_fp4": read_modelopt,
    "modelopt_mixed": read_modelopt,
    "modelopt_mxfp8": read_modelopt,
    "mxfp4": read_mxfp4,
    "gpt_oss_mxfp4": read_mxfp4,
    "bitsandbytes": read_bits_and_bytes,
}
_PLACES = ("quantization_config", "compression_config")


def _declared_part(keys: Keys) -> Keys | None:
    """The quantization part of a config, the outer one before the text model's."""
    for source in (keys, text_keys(keys)):
        for place in _PLACES:
            part = source.mapping(place)
            if part is not None and part.data:
                return part
    return None


def _method(part: Keys) -> str | None:
    """The method by its own name, or by a key that only one method has."""
    word = part.word("quant_method")
    if word is not None:
        return word.lower()
    for key, method in (
        ("config_groups", "compressed-tensors"),
        ("load_in_4bit", "bitsandbytes"),
        ("load_in_8bit", "bitsandbytes"),
        ("quant_algo", "modelopt"),
        ("quantization", "modelopt"),
    ):
        if part.has(key):
            return method
    return None


def read_declaration(keys: Keys, beside: Keys | None = None) -> Declaration:
    """What config.json says about quantization, and where it is silent ``beside``: ModelOpt's hf_quant_config.json.

    An unknown method is ``other``. Raises CockpitError naming the key that is of the wrong type or out of range.
    """
    part = _declared_part(keys) or beside
    if part is None:
        return Declaration(method="none", resolve=nothing)
    method = _method(part)
    reader = _READERS.get(method or "")
    if reader is None:
        return Declaration(method="other", declared_method=method, resolve=nothing)
    inner = beside is None and part.path not in _PLACES
    return msgspec.structs.replace(reader(part, method or ""), kv_cache_dtype=own_kv_cache(part, method or "", inner))


def summarize(
    declaration: Declaration, stored: Iterable[tuple[Place, WeightScheme | None]], mismatched: int = 0
) -> Quantization:
    """The widths in use, ``stored`` being every module with its scheme.

    Linear layers of the decoder and of the MTP head count, and those of a vision tower only where they are quantized.
    """
    widths: Counter[WeightScheme] = Counter()
    unquantized = 0
    embeddings: int | None = None
    head: WeightScheme | None = None
    for place, scheme in stored:
        if place.kind == "embedding":
            embeddings = scheme.bits if scheme and place.part == "embed_tokens" else embeddings
        elif place.kind == "lm_head":
            head = scheme if scheme and place.part == "lm_head" else head
        elif scheme is not None:
            widths[scheme] += place.count if isinstance(place, Module) else 1
        elif place.part != "vision":
            unquantized += place.count if isinstance(place, Module) else 1
    schemes = sorted(widths.items(), key=lambda item: (-item[1], item[0].bits, repr(item[0])))
    return Quantization(
        method=declaration.method,
        declared_method=declaration.declared_method,
        schemes=tuple(schemes),
        unquantized_modules=unquantized,
        embed_tokens_bits=embeddings,
        lm_head=head,
        plain_targets=declaration.plain_targets,
        packing_format=declaration.packing_format,
        kv_cache_dtype=declaration.kv_cache_dtype,
        mismatched_modules=mismatched,
    )
