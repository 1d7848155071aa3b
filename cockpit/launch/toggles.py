"""THE table of toggles: the card draws it, ``--set`` reads it, the plan applies it. One row is one switch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from cockpit.catalog.slug import Slug
from cockpit.launch.draft import Draft
from cockpit.launch.values import Choice, Indices, Kind, Share, Text, Whole
from cockpit.rules.int8 import SWITCH


class Toggle(msgspec.Struct, frozen=True, kw_only=True):
    """One switch: what it is called, what it may be, and what it does to the command."""

    id: str
    key: str
    """The letter on the serve card."""
    label: str
    kind: Kind
    default: Callable[[Slug], Any]
    effect: Callable[[Any], str]
    """One line for the card about the value."""
    apply: Callable[[Draft, Slug, Any], None]


_ON_OFF = Choice(words=("off", "on"))
_KV_DTYPES = (
    "auto",
    "bfloat16",
    "fp8_e4m3",
    "fp8_e5m2",
    "int8_per_token_head",
    "fp8_per_token_head",
    "nvfp4",
)
"""vLLM's ``fp8`` is its fp8_e4m3 (utils/torch_utils.py)."""


def _int8(draft: Draft, _slug: Slug, value: Any) -> None:
    # An empty value kills vLLM: off means that the variable is not there at all.
    draft.env(SWITCH, "int8" if value == "on" else None)


def _int8_effect(value: Any) -> str:
    if value == "on":
        return "prefill +50 % (2x 3090), +110 % (one); decode +5–16 % H200"
    return "16-bit activations"


def _kv_dtype(draft: Draft, _slug: Slug, value: Any) -> None:
    if value != "auto":
        draft.flag("kv-cache-dtype", value)


def _kv_effect(value: Any) -> str:
    if value == "auto":
        return "the model's own type"
    if value == "bfloat16":
        return "two bytes a number"
    return "half a byte a number" if value.startswith("nvfp4") else "half the bytes, twice the tokens"


def _speculative(draft: Draft, slug: Slug, value: Any) -> None:
    if not value:
        return
    spec = slug.speculative
    config: dict[str, str | int | float | bool] = {"method": spec.method if spec else "mtp"}
    if spec and spec.model:
        config["model"] = spec.model
    config["num_speculative_tokens"] = value
    draft.flag("speculative-config", config)


def _optional_flag(name: str) -> Callable[[Draft, Slug, Any], None]:
    def apply(draft: Draft, _slug: Slug, value: Any) -> None:
        if value is not None:
            draft.flag(name, value)

    return apply


def _flag(name: str) -> Callable[[Draft, Slug, Any], None]:
    def apply(draft: Draft, _slug: Slug, value: Any) -> None:
        draft.flag(name, value)

    return apply


def _prefix(draft: Draft, _slug: Slug, value: Any) -> None:
    if value is not None:
        # `--disable-prefix-caching` is unknown before 0.33; the `no-` form parses in every version.
        draft.flag("enable-prefix-caching" if value == "on" else "no-enable-prefix-caching")


def _vision(draft: Draft, slug: Slug, value: Any) -> None:
    if slug.weights.vision and value == "off":
        draft.flag("language-model-only")


def _eager(draft: Draft, _slug: Slug, value: Any) -> None:
    if value == "on":
        draft.flag("enforce-eager")


def _gpus(draft: Draft, slug: Slug, value: Any) -> None:
    if slug.platform != "cpu" and value:
        # NVML counts by bus: without this CUDA would count by speed and name other cards.
        draft.env("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
        draft.env("CUDA_VISIBLE_DEVICES", ",".join(str(index) for index in value))


def _tensor_parallel(draft: Draft, slug: Slug, value: Any) -> None:
    if slug.platform != "cpu":
        draft.flag("tensor-parallel-size", value)


TOGGLES: tuple[Toggle, ...] = (
    Toggle(
        id="int8",
        key="a",
        label="int8 acts",
        kind=_ON_OFF,
        default=lambda slug: slug.int8,
        effect=_int8_effect,
        apply=_int8,
    ),
    Toggle(
        id="kv_cache_dtype",
        key="k",
        label="KV cache",
        kind=Choice(words=_KV_DTYPES, also=(("fp8", "fp8_e4m3"),)),
        default=lambda slug: slug.kv_cache_dtype,
        effect=_kv_effect,
        apply=_kv_dtype,
    ),
    Toggle(
        id="speculative_tokens",
        key="m",
        label="draft tokens",
        kind=Whole(low=0, high=16),
        default=lambda slug: slug.speculative.tokens if slug.speculative else 0,
        effect=lambda value: "no draft" if not value else "tokens guessed ahead a step",
        apply=_speculative,
    ),
    Toggle(
        id="max_model_len",
        key="l",
        label="context",
        kind=Whole(low=16, high=16 * 1024 * 1024, doubling=True),
        default=lambda slug: slug.max_model_len,
        effect=lambda _value: "tokens of prompt and answer",
        apply=_flag("max-model-len"),
    ),
    Toggle(
        id="gpu_memory_utilization",
        key="u",
        label="GPU utilization",
        kind=Share(),
        default=lambda slug: slug.gpu_memory_utilization,
        effect=lambda _value: "share of each GPU vLLM may fill",
        apply=_optional_flag("gpu-memory-utilization"),
    ),
    Toggle(
        id="max_num_seqs",
        key="s",
        label="sequences",
        kind=Whole(low=1, high=4096, optional=True),
        default=lambda slug: slug.max_num_seqs,
        effect=lambda _value: "requests that run at the same time",
        apply=_optional_flag("max-num-seqs"),
    ),
    Toggle(
        id="prefix_caching",
        key="p",
        label="prefix caching",
        kind=Choice(words=("on", "off"), optional=True),
        default=lambda slug: slug.prefix_caching,
        effect=lambda _value: "a repeated prompt start is reused",
        apply=_prefix,
    ),
    Toggle(
        id="vision",
        key="v",
        label="vision",
        kind=_ON_OFF,
        default=lambda slug: "on" if slug.weights.vision else "off",
        effect=lambda value: "images are read" if value == "on" else "text only, frees memory",
        apply=_vision,
    ),
    Toggle(
        id="enforce_eager",
        key="e",
        label="eager mode",
        kind=_ON_OFF,
        default=lambda slug: slug.enforce_eager,
        effect=lambda value: "boots faster, decodes slower" if value == "on" else "compiles, and captures graphs",
        apply=_eager,
    ),
    Toggle(
        id="gpus",
        key="g",
        label="GPUs",
        kind=Indices(),
        default=lambda slug: () if slug.platform == "cpu" else tuple(range(slug.tensor_parallel)),
        effect=lambda _value: "indices as nvidia-smi counts them",
        apply=_gpus,
    ),
    Toggle(
        id="tensor_parallel",
        key="t",
        label="tensor parallel",
        kind=Whole(low=1, high=64),
        default=lambda slug: slug.tensor_parallel,
        effect=lambda _value: "GPUs that share each layer",
        apply=_tensor_parallel,
    ),
    Toggle(
        id="host",
        key="h",
        label="host",
        kind=Text(),
        default=lambda _slug: "127.0.0.1",
        effect=lambda value: "this machine only" if value == "127.0.0.1" else "reachable from outside",
        apply=_flag("host"),
    ),
    Toggle(
        id="port",
        key="o",
        label="port",
        kind=Whole(low=1, high=65535, grouped=False),
        default=lambda _slug: None,
        effect=lambda _value: "first free one from 8000 unless set",
        apply=_flag("port"),
    ),
)
BY_ID = {toggle.id: toggle for toggle in TOGGLES}
