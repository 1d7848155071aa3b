"""What the KV planner reads and answers. Frozen; byte figures are those of one rank, which is one GPU."""

from __future__ import annotations

import msgspec

from cockpit.checkpoint.types import LinearAttention


class Frozen(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the planner's values."""


class KvUnknown(Frozen, frozen=True, kw_only=True):
    """There is no forecast, and this is why."""

    reason: str
    """One sentence without a full stop at its end."""


class AttentionLayers(Frozen, frozen=True, kw_only=True):
    """Layers that keep keys and values of the same shape."""

    layers: int
    kv_heads: int
    """Of the whole model, not of a rank."""
    head_dim: int
    window: int | None = None
    """Tokens that the layer sees; None is all."""


class KvModel(Frozen, frozen=True, kw_only=True):
    """As much of a model as its KV cache depends on."""

    attention: tuple[AttentionLayers, ...]
    """One entry a kind, in the order in which the kinds first come."""
    gated_delta: LinearAttention | None = None
    """State of a gated-delta layer; None in a model without any."""
    gated_delta_layers: int = 0
    mtp_layers: int = 0
    """Attention layers that speculation with the model's own MTP head adds."""
    kv_cache_dtype: str | None = None
    """The KV cache that the checkpoint asks for, which one of type ``auto`` has."""
    whole_items: bool = False
    """A step holds an image or a video whole, so that vLLM's own number of tokens in a step may be raised."""
    inclusive_window: bool = False
    """The window leaves out the token itself, which newer vLLMs count in."""
    element_bytes: int = 2
    """Of the model's own number type, which a KV cache of type ``auto`` and the convolution states have."""


class KvSettings(Frozen, frozen=True, kw_only=True):
    """What of a launch the size of the KV cache depends on; None leaves it to vLLM."""

    max_model_len: int
    tensor_parallel: int = 1
    kv_cache_dtype: str = "auto"
    speculative_tokens: int = 0
    speculative_method: str = "mtp"
    prefix_caching: bool | None = None
    platform: str = "cuda"
    """The platform of the vLLM build: ``cuda`` or ``cpu``; for others there is no forecast."""
    engine_version: str | None = None
    """None is the newest version that this planner follows."""
    capability: tuple[int, int] | None = None
    """Compute capability of the GPU; None is one below 9.0."""
    cuda_runtime: int | None = None
    """Major version of the CUDA that the engine's torch was built with; None is that of vLLM's published wheels."""
    max_num_batched_tokens: int | None = None
    """Tokens of one step, on which only the windowed layers depend."""
    gpu_total_bytes: int | None = None
    """Decides vLLM's own max_num_batched_tokens; None is a card below 70 GiB."""
    gpu_name: str | None = None
    vision: bool = False
    """Images and videos are taken."""


class Group(Frozen, frozen=True, kw_only=True):
    """Layers that share one block table; a request takes blocks for each group."""

    layers: int
    page_bytes: int
    """Of one block in one layer."""
    block_tokens: int
    window_tokens: int | None = None
    """Most tokens that a request holds in the group, None for all of them."""
    state_blocks: int | None = None
    """Blocks that a request takes whatever its length; None where they grow with it."""

    def blocks_per_request(self, length: int) -> int:
        """Blocks that one request of ``length`` tokens takes (``max_memory_usage_bytes`` of the KV cache specs)."""
        if self.state_blocks is not None:
            return self.state_blocks
        if self.window_tokens is None:
            return -(-length // self.block_tokens)
        # One more, as a window need not begin where a block does.
        return -(-min(self.window_tokens, length) // self.block_tokens) + 1


class KvLayout(Frozen, frozen=True, kw_only=True):
    """How the layers share the pool; it does not depend on the pool's size, nor on the context."""

    groups: tuple[Group, ...]
    block_size_tokens: int
    """Of the layers that see everything, of the windowed ones where there are no others."""
    bytes_per_block: int
    """What one block takes of the pool, in all the layers of the widest group together."""
    reserved_blocks: int
    """Blocks that vLLM leaves out when it checks at boot that one request fits."""
    batched_tokens: int | None = None
    """max_num_batched_tokens that the windowed layers were sized for; None where there are none."""

    def blocks_per_request(self, length: int) -> int:
        """Blocks that one request of ``length`` tokens takes, over all groups."""
        return sum(group.blocks_per_request(length) for group in self.groups)


class KvForecast(Frozen, frozen=True, kw_only=True):
    """What vLLM will print about a pool."""

    block_size_tokens: int
    bytes_per_block: int
    blocks: int
    blocks_per_request: int
    """For one request of max_model_len tokens."""
    capacity_tokens: int
    """The figure of the line ``GPU KV cache size``."""
    max_concurrency: float
    """Requests of max_model_len tokens at the same time; vLLM prints it with two decimals."""
    fits: bool
    """Whether vLLM boots: it refuses a pool that cannot hold one request of max_model_len tokens."""
    bytes_needed: int
    """The least pool with which it boots."""
