"""Mixture of experts: whether there is one, and which layers hold it, by the keys of every family."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cockpit.checkpoint.keys import Keys
from cockpit.checkpoint.types import Frozen

_COUNTS = (
    "num_experts",
    "num_local_experts",
    "n_routed_experts",
    "moe_num_experts",
    "num_routed_experts",
    "num_moe_experts",
    "num_total_experts",
    "moe_num_primary_experts",
)
_PER_TOKEN = ("num_experts_per_tok", "num_experts_per_token", "top_k_experts", "moe_topk", "moe_top_k", "moe_k")
_SIZES = ("moe_intermediate_size", "expert_intermediate_size", "moe_ffn_hidden_size", "expert_ffn_hidden_size")
_SPARSE_WORDS = ("sparse", "moe")
MAX_EXPERTS = 1 << 16
_MAX_SIZE = 1 << 24
_MAX_NESTED = 4096
"""Objects inside the config that are looked through for experts."""


class Experts(Frozen, frozen=True, kw_only=True):
    """The routed experts of a model. None means that the config does not say."""

    count: int | None
    per_token: int | None
    intermediate: int | None
    """Width of one expert."""
    shared_intermediate: int = 0
    """Width of the shared expert(s) together; 0 when there is none."""
    shared_gate: bool = False
    sparse: tuple[bool, ...] = ()
    """For each decoder layer, whether it holds the experts."""


def _nested(value: Any) -> Iterator[dict[str, Any]]:
    """Every object inside ``value``, itself included, the quantization and vision parts not."""
    open_values = [value]
    seen = 0
    while open_values and seen < _MAX_NESTED:
        item = open_values.pop()
        seen += 1
        if isinstance(item, dict):
            yield item
            open_values.extend(v for k, v in item.items() if "quantization" not in k and "vision" not in k)
        elif isinstance(item, list):
            open_values.extend(child for child in item if isinstance(child, dict | list))


def _largest(value: Any) -> int:
    """A number of experts, or the largest of a list of them; 0 when there is none."""
    numbers = [value] if isinstance(value, int) else value if isinstance(value, list) else []
    return max((n for n in numbers if isinstance(n, int) and not isinstance(n, bool)), default=0)


def _expert_count(keys: Keys) -> int | None:
    """The count at the top of the config, checked; None when no key says it."""
    for key in _COUNTS:
        if isinstance(keys.data.get(key), list):
            numbers = [
                Keys({key: item}, keys.origin, keys.path).integer(key, 0, MAX_EXPERTS) for item in keys.data[key]
            ]
            return max((number or 0 for number in numbers), default=0)
        number = keys.integer(key, 0, MAX_EXPERTS)
        if number is not None:
            return number
    return None


def _layers_say_so(keys: Keys) -> bool:
    """Lists and objects below the top that speak of experts: block configs, layer kinds, an ffn_config."""
    for key in ("mlp_layer_types", "layer_types", "layers_block_type"):
        value = keys.data.get(key)
        if isinstance(value, list) and any(word in value for word in _SPARSE_WORDS):
            return True
    if "E" in str(keys.data.get("hybrid_override_pattern") or ""):
        return True
    for inner in _nested(keys.data):
        if inner is not keys.data and (
            inner.get("block_type") == "moe" or any(_largest(inner.get(key)) > 1 for key in _COUNTS)
        ):
            return True
    return keys.flag("enable_moe_block") is True


def _widths_say_so(keys: Keys) -> bool:
    """Keys that only a mixture of experts has, where no key counts the experts."""
    return any((keys.integer(key, 0, _MAX_SIZE) or 0) > 0 for key in _SIZES) or keys.has(*_PER_TOKEN)


def _sparse_layers(keys: Keys, layers: int) -> tuple[bool, ...]:
    kinds = keys.items("mlp_layer_types")
    if kinds:
        return tuple(index < len(kinds) and kinds[index] in _SPARSE_WORDS for index in range(layers))
    dense = {index for index in keys.items("mlp_only_layers") if isinstance(index, int)}
    first = keys.integer(keys.first("first_k_dense_replace", "moe_layer_start_index"), 0, 1 << 20) or 0
    step, offset = 1, 0
    if keys.has("expert_layer_period"):
        # Jamba counts from the offset, the others so that the last of each run is sparse.
        step = keys.integer("expert_layer_period", 1, 1 << 20) or 1
        offset = (keys.integer("expert_layer_offset", 0, 1 << 20) or 0) + 1
    for key in ("decoder_sparse_step", "moe_layer_freq", "interleave_moe_layer_step"):
        if not isinstance(keys.data.get(key), list):
            step = keys.integer(key, 1, 1 << 20) or step
    frequency = keys.data.get("moe_layer_freq")
    listed = frequency if isinstance(frequency, list) else []
    return tuple(
        index not in dense
        and index >= first
        and (index + 1 - offset) % step == 0
        and (index >= len(listed) or bool(listed[index]))
        for index in range(layers)
    )


def _shared(keys: Keys, width: int | None) -> tuple[int, bool]:
    size = keys.integer("shared_expert_intermediate_size", 0, _MAX_SIZE)
    if size:
        return size, True
    key = keys.first("n_shared_experts", "num_shared_experts", "moe_num_shared_experts")
    return (keys.integer(key, 0, MAX_EXPERTS) or 0) * (width or 0), False


def read_experts(keys: Keys, layers: int, architecture: str, model_type: str) -> Experts | None:
    """The experts of the text model ``keys``, or None for a dense model.

    In doubt it is a mixture: a mixture that is taken for dense would be served with corrupted output.
    Raises CockpitError naming the key that is of the wrong type.
    """
    count = _expert_count(keys)
    named = any("moe" in word.lower() or "mixtral" in word.lower() for word in (architecture, model_type))
    if not (_layers_say_so(keys) or (count > 1 if count is not None else named or _widths_say_so(keys))):
        return None
    key = keys.first(*_SIZES, "intermediate_size")
    width = None if isinstance(keys.data.get(key), list) else keys.integer(key, 1, _MAX_SIZE)
    shared, gate = _shared(keys, width)
    top = keys.first(*_PER_TOKEN)
    return Experts(
        count=count if count and count > 1 else None,
        per_token=None if isinstance(keys.data.get(top), list) else keys.integer(top, 0, MAX_EXPERTS),
        intermediate=width,
        shared_intermediate=shared,
        shared_gate=gate,
        sparse=_sparse_layers(keys, layers),
    )
