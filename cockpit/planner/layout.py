"""Model and settings → how the layers share the pool: block size, groups, bytes a block."""

from __future__ import annotations

import math

import msgspec

from cockpit.planner.batch import batched_tokens, tokens_in_flight
from cockpit.planner.groups import LayerSet, grouped
from cockpit.planner.pages import (
    DEFAULT_BLOCK_TOKENS,
    KERNEL_BLOCK_TOKENS,
    aligned_block_tokens,
    bytes_per_head,
    gated_delta_bytes,
    heads_per_rank,
)
from cockpit.planner.problems import problem_of
from cockpit.planner.types import AttentionLayers, KvLayout, KvModel, KvSettings, KvUnknown
from cockpit.planner.versions import Release, has, release_of

FLASHINFER_GDN_TOKENS = 64
"""Blocks of GDN layers whose states FlashInfer writes are multiples of it (v1/attention/backends/gdn_attn.py)."""
_WITHOUT_LAYERS = frozenset({"ngram", "ngram_gpu", "suffix"})
"""Methods that draft without a model."""


class _Shape:
    """Model and settings with what several steps need of them."""

    def __init__(self, model: KvModel, settings: KvSettings, release: Release) -> None:
        self.model, self.settings, self.release = model, settings, release
        self.block_tokens = DEFAULT_BLOCK_TOKENS[settings.platform]
        long_kernels = settings.platform == "cpu" and has("cpu-kernel-32", release)
        self.kernel_tokens = KERNEL_BLOCK_TOKENS * (2 if long_kernels else 1)
        hybrid_default = has("hybrid-prefix-caching", release)
        chosen = settings.prefix_caching
        self.prefix_caching = (hybrid_default if model.gated_delta_layers else True) if chosen is None else chosen

    def token_bytes(self, one: AttentionLayers) -> int:
        """Of one token in one layer of one rank; what makes it unknown was refused before."""
        heads = heads_per_rank(one.kv_heads, self.settings.tensor_parallel)
        size = bytes_per_head(one.head_dim, self.settings.kv_cache_dtype, self.model.element_bytes)
        assert heads is not None and size is not None
        return heads * size

    @property
    def exports_states(self) -> bool:
        """Whether FlashInfer's GDN prefill writes a state more a request (_resolve_gdn_prefill_backend)."""
        settings, gdn = self.settings, self.model.gated_delta
        if settings.platform != "cuda" or gdn is None or not self.prefix_caching:
            return False
        if not has("gdn-checkpoints", self.release) or settings.capability is None:
            return False
        if settings.capability == (9, 0):
            return True
        new_enough = settings.cuda_runtime is None or settings.cuda_runtime >= 13
        return settings.capability[0] in (10, 12) and gdn.key_head_dim == 128 and new_enough


def _with_draft(model: KvModel, settings: KvSettings) -> tuple[AttentionLayers, ...] | KvUnknown:
    """Attention layers, those of the MTP head with them when it drafts."""
    if not settings.speculative_tokens or settings.speculative_method in _WITHOUT_LAYERS:
        return model.attention
    if settings.speculative_method != "mtp":
        method = settings.speculative_method
        return KvUnknown(reason=f"the layers of the {method} draft model are not known, and they share the KV cache")
    if not model.mtp_layers:
        return KvUnknown(reason="speculation with MTP was asked for and the checkpoint has no MTP head")
    if model.mtp_layers > 1 and any(one.window is not None for one in model.attention):
        return KvUnknown(reason="how several MTP layers change the windows of a model is not known here")
    host = next((at for at, one in enumerate(model.attention) if one.window is None), 0)
    found = list(model.attention)
    found[host] = AttentionLayers(
        layers=found[host].layers + model.mtp_layers,
        kv_heads=found[host].kv_heads,
        head_dim=found[host].head_dim,
        window=found[host].window,
    )
    return tuple(found)


def windows_of(model: KvModel, engine_version: str | None) -> tuple[AttentionLayers, ...]:
    """The attention layers with the windows that a vLLM version gives them; None is the newest one."""
    release = release_of(engine_version)
    if not model.inclusive_window or release is None or not has("inclusive-window", release):
        return model.attention
    return tuple(
        one if one.window is None else msgspec.structs.replace(one, window=one.window + 1) for one in model.attention
    )


def _block_tokens(shape: _Shape, state_bytes: int | None) -> int:
    """Tokens in a block: the platform's, or as many as make its page hold one GDN state."""
    if state_bytes is None:
        return shape.block_tokens
    main = next((one for one in shape.model.attention if one.window is None), shape.model.attention[0])
    multiple = max(shape.kernel_tokens, shape.block_tokens)
    if shape.exports_states:
        multiple = math.lcm(multiple, FLASHINFER_GDN_TOKENS)
    return aligned_block_tokens(shape.block_tokens, multiple, shape.token_bytes(main), state_bytes)


def _attention_sets(shape: _Shape, attention: tuple[AttentionLayers, ...], block: int) -> list[LayerSet]:
    """Layers of equal page and window put together, in order."""
    counts: dict[tuple[int, int, int | None], int] = {}
    for one in attention:
        heads = heads_per_rank(one.kv_heads, shape.settings.tensor_parallel) or 0
        key = (heads, one.head_dim, one.window)
        counts[key] = counts.get(key, 0) + one.layers
    in_flight = tokens_in_flight(shape.settings, shape.release)
    sets = []
    for (heads, head_dim, window), layers in counts.items():
        sized = AttentionLayers(layers=layers, kv_heads=heads * shape.settings.tensor_parallel, head_dim=head_dim)
        windowed = window is not None
        tokens = shape.kernel_tokens if windowed and not has("window-block", shape.release) else block
        sets.append(
            LayerSet(
                layers=layers,
                page_bytes=tokens * shape.token_bytes(sized),
                block_tokens=tokens,
                window=window,
                window_tokens=None if window is None else window - 1 + in_flight,
            )
        )
    return sets


def _state_set(shape: _Shape, page_bytes: int, block: int) -> LayerSet:
    """The GDN layers: a state, one more a speculative token, and with prefix caching one to resume from.

    ``max_memory_usage_bytes`` of MambaSpec in v1/kv_cache_interface.py.
    """
    states = 1 + shape.settings.speculative_tokens
    states += int(shape.prefix_caching) + int(shape.exports_states)
    return LayerSet(
        layers=shape.model.gated_delta_layers, page_bytes=page_bytes, block_tokens=block, state_blocks=states
    )


def kv_layout(model: KvModel, settings: KvSettings) -> KvLayout | KvUnknown:
    """How vLLM lays out the KV cache of ``model``, or why that is not known."""
    release = release_of(settings.engine_version)
    if settings.kv_cache_dtype == "auto" and model.kv_cache_dtype is not None:
        settings = msgspec.structs.replace(settings, kv_cache_dtype=model.kv_cache_dtype)
    problem = problem_of(model, settings, release)
    if problem is not None or release is None:
        return KvUnknown(reason=problem or "")
    model = msgspec.structs.replace(model, attention=windows_of(model, settings.engine_version))
    attention = _with_draft(model, settings)
    if isinstance(attention, KvUnknown):
        return attention
    shape = _Shape(model, settings, release)
    hybrid = model.gated_delta is not None and model.gated_delta_layers > 0
    state_bytes = None
    if hybrid and model.gated_delta is not None:
        ranks, drafted = settings.tensor_parallel, settings.speculative_tokens
        state_bytes = gated_delta_bytes(model.gated_delta, ranks, drafted, model.element_bytes)
    block = _block_tokens(shape, state_bytes)
    sets = _attention_sets(shape, attention, block)
    if hybrid:
        # A state is padded to the page of the main attention layers (mamba_page_size_padded).
        main = next((one for one in sets if one.window is None), sets[0])
        sets.append(_state_set(shape, main.page_bytes, block))
    result = grouped(sets, has("padded-pages", release))
    if result is None:
        reason = "layers whose pages do not divide one another depend on the attention backend before vLLM 0.29"
        return KvUnknown(reason=reason)
    groups, bytes_per_block = result
    full = [group for group in groups if group.window_tokens is None and group.state_blocks is None]
    return KvLayout(
        groups=groups,
        block_size_tokens=(full or list(groups))[0].block_tokens,
        bytes_per_block=bytes_per_block,
        reserved_blocks=int(has("null-block", release)),
        batched_tokens=batched_tokens(settings, release) if any(one.window for one in attention) else None,
    )
