"""Checkpoints made by hand or by chance, and the table of what int8 activations make of the shipped ones."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
from hypothesis import strategies as st

from cockpit.checkpoint.types import Checkpoint, LinearAttention, Quantization, WeightScheme

GDN = LinearAttention(key_heads=16, value_heads=32, key_head_dim=128, value_head_dim=128, conv_kernel=4)


def scheme(bits: int = 4, kind: Any = "int", **fields: Any) -> WeightScheme:
    return WeightScheme(**{"bits": bits, "kind": kind, "symmetric": True, "group_size": 128} | fields)


def quantized(*schemes: WeightScheme, method: Any = "auto-round", **fields: Any) -> Quantization:
    word = None if method == "none" else method
    return Quantization(method=method, declared_method=word, schemes=tuple((one, 7) for one in schemes), **fields)


def checkpoint(quantization: Quantization | None = None, **fields: Any) -> Checkpoint:
    """A dense AutoRound W4 checkpoint of 32 heads and 8 KV heads, with changes."""
    plain: dict[str, Any] = {
        "source": "/models/a",
        "folder": "/models/a",
        "architecture": "Qwen3ForCausalLM",
        "model_type": "qwen3",
        "moe": False,
        "layers": {"full_attention": 36},
        "hidden_size": 4096,
        "attention_heads": 32,
        "kv_heads": 8,
        "head_dim": 128,
        "vocab_size": 151936,
        "max_model_len": 40960,
        "quantization": quantized(scheme()) if quantization is None else quantization,
    }
    return Checkpoint(**plain | fields)


def changed(base: Checkpoint, **fields: Any) -> Checkpoint:
    """``base`` with other fields of its quantization."""
    return msgspec.structs.replace(base, quantization=msgspec.structs.replace(base.quantization, **fields))


def may_have_int8(one: Checkpoint) -> bool:
    """The rule in other words than the program's: AutoRound, dense, and all of it plain symmetric 4-bit groups."""
    quantization = one.quantization
    parts = [part for part, _ in quantization.schemes] + ([quantization.lm_head] if quantization.lm_head else [])
    return (
        quantization.method == "auto-round"
        and not one.moe
        and quantization.mismatched_modules == 0
        and quantization.embed_tokens_bits in (None, 4, 16, 32)
        and len(parts) > 0
        and all(
            (part.bits, part.kind, part.symmetric, part.activation_bits) == (4, "int", True, None)
            and part.group_size in (32, 64, 128)
            for part in parts
        )
    )


GOOD_SCHEMES = st.builds(scheme, group_size=st.sampled_from([32, 64, 128]))
ANY_SCHEME = st.builds(
    scheme,
    bits=st.sampled_from([4, 4, 4, 2, 3, 5, 8, 16]),
    kind=st.sampled_from(["int", "int", "int", "float"]),
    symmetric=st.sampled_from([True, True, True, False, None]),
    group_size=st.sampled_from([32, 64, 128, 128, 16, -1, 256, None]),
    activation_bits=st.sampled_from([None, None, None, 8, 4]),
)
METHODS = [
    "auto-round",
    "gptq",
    "awq",
    "compressed-tensors",
    "fp8",
    "nvfp4",
    "mxfp4",
    "bitsandbytes",
    "none",
    "other",
]


def checkpoints(schemes: st.SearchStrategy[WeightScheme], offered: bool) -> st.SearchStrategy[Checkpoint]:
    """Checkpoints of such schemes; with ``offered`` nothing else of them stands against int8."""
    return st.builds(
        checkpoint,
        st.builds(
            Quantization,
            method=st.just("auto-round") if offered else st.sampled_from(["auto-round"] * 6 + METHODS),
            declared_method=st.just("a-word"),
            schemes=st.lists(schemes, min_size=1 if offered else 0, max_size=3, unique=True).map(
                lambda found: tuple((one, at + 1) for at, one in enumerate(found))
            ),
            unquantized_modules=st.integers(0, 300),
            lm_head=st.none() | schemes,
            embed_tokens_bits=st.sampled_from([None, 16] if offered else [None, None, 16, 4, 8, 6]),
            mismatched_modules=st.just(0) if offered else st.sampled_from([0, 0, 0, 2]),
        ),
        moe=st.just(False) if offered else st.sampled_from([False, False, True]),
        mtp_layers=st.integers(0, 1),
        vision=st.booleans(),
        dtype=st.sampled_from(["bfloat16", "float16"]),
    )


class Row(NamedTuple):
    """One row of the int8 table: a shipped checkpoint, what a slug would call it, and the sentence it must get."""

    fixture: str
    format: str
    says: str | None
    """A part of its reason; None is offered."""


_HUMMING = "-bit weights run on the Humming kernel, which does not read the switch"
_EIGHT = "the weights are 8-bit already: vLLM refuses 8-bit weights with 8-bit activations"
_ZEROS = "asymmetric weights: one layer with zero points is enough to corrupt"
_FP8 = "FP8 weights are 8-bit already: vLLM says that Marlin W8A8 is not supported"
_FP4 = "the weights are a 4-bit float format: it cannot widen to int8 without loss"
_PLAIN = "nothing is quantized, so there is no Marlin layer to switch"
ROWS = [
    Row("auto-round-w4", "auto-round", None),
    Row("auto-round-w4-hybrid", "auto-round", None),
    Row("auto-round-w4-moe", "auto-round", "mixture of experts: the experts take another path"),
    *(Row(f"auto-round-w{bits}", "auto-round", f"{bits}{_HUMMING}") for bits in (2, 3, 5, 6, 7)),
    Row("auto-round-w8", "auto-round", _EIGHT),
    Row("compressed-tensors-w8", "compressed-tensors", _EIGHT),
    Row("gptq-w8", "gptq", _EIGHT),
    Row("auto-round-w4-8bit-layers", "auto-round", "the 8-bit layers refuse it"),
    Row("auto-round-w4-asymmetric", "auto-round", _ZEROS),
    Row("auto-round-w4-asymmetric-layer", "auto-round", _ZEROS),
    Row("auto-round-w4-channel", "auto-round", "group size -1: Marlin takes int8 activations with 32, 64 or 128"),
    Row("compressed-tensors-int6-flat", "compressed-tensors", f"6{_HUMMING}"),
    Row("compressed-tensors-int6-mixed", "compressed-tensors", f"5, 6, 7{_HUMMING}, and the 8-bit layers refuse it"),
    Row("compressed-tensors-w4", "compressed-tensors", "compressed-tensors W4 is not an AutoRound checkpoint"),
    Row("gptq-w4", "gptq", "GPTQ W4 is not an AutoRound checkpoint: not validated for int8 activations"),
    Row("awq-w4", "awq", "AWQ is asymmetric 4-bit: int8 activations need symmetric weights"),
    *(Row(name, "fp8", _FP8) for name in ("fp8", "modelopt-fp8", "compressed-tensors-fp8", "deepseek-v3")),
    *(Row(name, "nvfp4", _FP4) for name in ("nvfp4", "nvfp4-beside", "compressed-tensors-nvfp4", "auto-round-nvfp4")),
    *(Row(name, "mxfp4", _FP4) for name in ("auto-round-mxfp4", "gpt-oss-mxfp4")),
    Row("bf16", "bf16", f"BF16: {_PLAIN}"),
    Row("fp16", "fp16", f"FP16: {_PLAIN}"),
    Row("bitsandbytes-nf4", "auto-round", "bitsandbytes weights are not read by the Marlin kernel"),
    Row("unknown-method", "auto-round", "quark weights are not read by the Marlin kernel"),
]
