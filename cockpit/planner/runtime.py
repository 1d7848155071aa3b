"""Memory of a boot that is neither weights nor KV: the profiling run's peak, CUDA graphs, what is not PyTorch's.

A model of what vLLM allocates, with its constants read off boots of vLLM 0.26 on an H200 and one published boot on
two RTX 3090; docs/forecast.md has the table. A boot of the same checkpoint replaces it.
"""

from __future__ import annotations

from cockpit.checkpoint.layers import LINEAR
from cockpit.checkpoint.types import Checkpoint
from cockpit.planner.batch import batched_tokens
from cockpit.planner.forecast_inputs import MemorySettings
from cockpit.planner.forecast_types import Part
from cockpit.planner.versions import NEWEST, Release, has, release_of
from cockpit.units import GIB

_MIB = 1 << 20
_HALF = 2
"""Bytes of an activation element."""
_EAGER_FACTOR, _COMPILED_FACTOR = 1.08, 1.72
"""Peak of the forward pass over the tensors that one layer must hold: 0.82 and 1.29 GiB over 0.75 GiB, Qwen3-8B.
Inductor's buffers live longer than Python's locals."""
_DRAFT_ROWS = 2.2
"""Hidden states that stay while the draft head runs, in rows of hidden_size a token."""
_ENCODER_TOKENS = 16384
"""Image tokens of the profiling run: the encoder cache holds at least one image of the largest size."""
_ENCODER_LAYER_ROWS = 24
"""Rows of hidden size a patch that a block of the tower holds, its merger's input included."""
_PIECEWISE_MIB, _FULL_MIB = 0.22, 0.35
"""Of one captured size in one layer: 0.04 GiB for 5 sizes, and 1.03 GiB for 51 with full graphs, 36 layers."""
_OVERHEAD_BYTES = round(0.22 * GIB)
"""Workspaces of the kernel libraries; the CUDA context is not in it, vLLM's first look at memory comes after it."""
_RANKS_BYTES = round(0.035 * GIB)
"""Buffers of NCCL: what the two published boots of 4 and 8 bits on two RTX 3090 leave for it."""
_HUMMING_BYTES = round(0.07 * GIB)
"""The Humming kernel's: 0.29 GiB outside PyTorch instead of 0.22."""
_REPACKED_BYTES = round(0.178 * GIB)
"""What its repacking leaves in PyTorch's allocator, which counts since what is consumed is read off the free memory:
the published boot of the mixed widths consumed 12.36 GiB a card."""
_SAMPLER_BYTES = {False: 15, True: 34}
"""Of one logit in the older runner's dummy sampling, without and with a rejection sampler: 16-bit logits, float32
copies, sorted values and their 64-bit indices. 3.58 GiB for 1,024 rows of 248,320; 2.01 for 256 with a draft."""
_NEW_SAMPLER_BYTES = 5
"""The newer runner samples greedily there: 16-bit logits and about one float32 copy."""


def release(settings: MemorySettings) -> Release:
    """The engine's release, the newest one that is followed where it cannot be read."""
    return release_of(settings.kv.engine_version) or NEWEST


def sequences(settings: MemorySettings) -> int:
    """max_num_seqs, set or vLLM's own (get_batch_defaults of engine/arg_utils.py)."""
    if settings.max_num_seqs is not None:
        return settings.max_num_seqs
    kv = settings.kv
    small = (kv.gpu_total_bytes or 0) < 70 * GIB or "a100" in (kv.gpu_name or "").lower()
    gb10 = kv.capability == (12, 1) and has("batch-gb10", release(settings))
    return 256 if small or gb10 else 1024


def newer_runner(checkpoint: Checkpoint, settings: MemorySettings) -> bool:
    """Whether vLLM's second model runner serves it (use_v2_model_runner of config/vllm.py)."""
    if has("second-runner", release(settings)):
        return True
    return LINEAR not in checkpoint.layers and not checkpoint.moe


def _layer_width(checkpoint: Checkpoint, ranks: int) -> float:
    """Elements a token that one decoder layer of one rank holds at its widest: MLP, experts or token mixing."""
    hidden, inner = checkpoint.hidden_size, checkpoint.intermediate_size or 0
    if checkpoint.moe and checkpoint.experts_per_token:
        # The fused kernel keeps each chosen expert's input or output, and its activation.
        each = (checkpoint.expert_size or inner or hidden) / ranks
        mlp = checkpoint.experts_per_token * (max(2 * each, hidden) + each)
    else:
        mlp = 3 * inner / ranks
    mixing = (2 * checkpoint.attention_heads + 2 * checkpoint.kv_heads) * checkpoint.head_dim / ranks
    state = checkpoint.linear_attention
    if state is not None:
        keys, values = state.key_heads * state.key_head_dim, state.value_heads * state.value_head_dim
        mixing = max(mixing, (2 * keys + 3 * values) / ranks)
    return max(mlp, mixing) + 3 * hidden


def _forward_bytes(checkpoint: Checkpoint, settings: MemorySettings) -> float:
    batch = batched_tokens(settings.kv, release(settings))
    ranks = settings.kv.tensor_parallel
    compiled = not settings.eager and settings.optimization_level > 0
    row = batch * _HALF
    factor = _COMPILED_FACTOR if compiled else _EAGER_FACTOR
    peak = row * _layer_width(checkpoint, ranks) * factor
    if settings.kv.speculative_tokens:
        peak += row * checkpoint.hidden_size * _DRAFT_ROWS
    if settings.int8:
        peak += batch * (checkpoint.intermediate_size or 0) / ranks
    return peak


def _sampler_bytes(checkpoint: Checkpoint, settings: MemorySettings) -> float:
    drafts = settings.kv.speculative_tokens > 0
    new = newer_runner(checkpoint, settings)
    a_logit = _NEW_SAMPLER_BYTES if new else _SAMPLER_BYTES[drafts]
    rows = min(sequences(settings), batched_tokens(settings.kv, release(settings)))
    return rows * checkpoint.vocab_size * a_logit


def _encoded_bytes(checkpoint: Checkpoint, settings: MemorySettings) -> int:
    """Encoder outputs that stay during the forward pass (profile_run puts them into the encoder cache)."""
    if not settings.vision:
        return 0
    tokens = max(_ENCODER_TOKENS, batched_tokens(settings.kv, release(settings)))
    return tokens * checkpoint.hidden_size * _HALF


def activation(checkpoint: Checkpoint, settings: MemorySettings) -> Part:
    """Peak of the profiling run: the larger of the forward pass and the sampler, beside the encoder's outputs."""
    peak = max(_forward_bytes(checkpoint, settings), _sampler_bytes(checkpoint, settings))
    size = round(peak) + _encoded_bytes(checkpoint, settings)
    share = 0.4 if checkpoint.moe else 0.25
    return Part(bytes=size, basis="estimated", error_bytes=round(size * share) + 64 * _MIB)


def captured_sizes(settings: MemorySettings) -> int:
    """How many batch sizes get a CUDA graph (_set_cudagraph_sizes of config/vllm.py)."""
    if settings.eager or settings.optimization_level < 1:
        return 0
    width = 1 + settings.kv.speculative_tokens
    largest_default = 1024 if (settings.kv.capability or (0, 0))[0] == 10 else 512
    most = min(sequences(settings) * width * 2, largest_default, batched_tokens(settings.kv, release(settings)))
    sizes = [1, 2, 4, *range(8, 256, 8), *range(256, 1025, 16)]
    return sum(1 for size in sizes if size <= most)


def graphs(checkpoint: Checkpoint, settings: MemorySettings) -> Part:
    """CUDA graphs: each captured size, in pieces and since -O2 also as a whole."""
    each = _PIECEWISE_MIB + (_FULL_MIB if settings.optimization_level >= 2 else 0)
    size = round(captured_sizes(settings) * (checkpoint.n_layers + checkpoint.mtp_layers) * each * _MIB)
    return Part(bytes=size, basis="estimated", error_bytes=size // 2)


def graphs_off_the_pool(checkpoint: Checkpoint, settings: MemorySettings) -> bool:
    """Whether this vLLM takes an estimate of the graphs off the pool (profile_cudagraph_memory of the runners)."""
    estimates = has("graphs-in-budget", release(settings)) or not newer_runner(checkpoint, settings)
    return estimates and settings.counts_graphs


def overhead(settings: MemorySettings) -> Part:
    """What is taken outside PyTorch between vLLM's first look at memory and the end of profiling."""
    several = settings.kv.tensor_parallel > 1
    size = _OVERHEAD_BYTES + (_RANKS_BYTES if several else 0)
    if settings.humming:
        size += _HUMMING_BYTES + (_REPACKED_BYTES if has("consumed-by-free", release(settings)) else 0)
    return Part(bytes=size, basis="estimated", error_bytes=(160 if several else 100) * _MIB)
