"""One tick of live truth. None means not known, never zero."""

from __future__ import annotations

from typing import Literal

import msgspec

State = Literal["starting", "ready", "stopping", "dead", "foreign"]
PrefillBasis = Literal["iteration_log", "by_source", "prompt_minus_cached", "prompt_minus_hits", "including_cached"]
CapacitySource = Literal["label", "log", "log_concurrency"]
ShareBasis = Literal["processes", "exclusion"]
SleepState = Literal["awake", "paused", "weights_offloaded", "discard_all"]


class Frozen(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the frame's parts."""


class Throughput(Frozen, frozen=True, kw_only=True):
    """Token rates over the window, per second."""

    prefill_tokens_per_second: float | None = None
    """Prompt tokens computed; cached ones are not in it."""
    cached_prefill_tokens_per_second: float | None = None
    decode_tokens_per_second: float | None = None
    prefill_tokens_per_second_per_request: float | None = None
    """Speed of one request's prefill, over requests that finished in the window."""
    decode_tokens_per_second_per_request: float | None = None
    """Speed of one stream: tokens after the first a second of decoding, over all streams of the window."""
    prefill_basis: PrefillBasis | None = None
    """How the prefill figure was found; ``including_cached`` must be labelled so wherever it is shown."""
    prefill_is_estimate: bool = False
    """The figure holds tokens of a long prefill that the counters do not show yet, or no longer those that an earlier
    frame showed: they are counted by the growth of the KV pool."""
    prefill_in_progress_tokens: int | None = None
    """Prompt tokens that running prefills have computed, at least, and no counter shows yet; None: there are none."""


class Kv(Frozen, frozen=True, kw_only=True):
    """The KV pool."""

    capacity_tokens: int | None = None
    capacity_source: CapacitySource | None = None
    """``log_concurrency``: requests times their length, where the log's token figure is known to be wrong."""
    max_concurrency: float | None = None
    used_fraction: float | None = None
    used_tokens: int | None = None
    """None where state blocks, sliding windows or cross-attention make a token count meaningless."""
    holds_state_blocks: bool | None = None
    """True on a hybrid model: show ``used_fraction`` as the pool's use, not as tokens."""
    counts_tokens: bool | None = None
    """False where layers of several kinds share the pool, so that a share of it is no number of tokens."""


class Requests(Frozen, frozen=True, kw_only=True):
    """Load now, and preemptions over the window."""

    running: int | None = None
    waiting: int | None = None
    preemptions_per_second: float | None = None


class Latency(Frozen, frozen=True, kw_only=True):
    """Mean and 95th percentile in seconds over the window."""

    mean: float | None = None
    p95: float | None = None
    p95_is_lower_bound: bool = False
    """The percentile lies beyond the last finite bucket, whose bound ``p95`` then is."""
    p95_between: tuple[float, float] | None = None
    """The true percentile lies between these, by its bucket and the sum; ``p95`` is where a line would have it."""


class Latencies(Frozen, frozen=True, kw_only=True):
    """Latencies of the window."""

    ttft_seconds: Latency = Latency()
    inter_token_seconds: Latency = Latency()
    queue_seconds: Latency = Latency()


class PrefixCache(Frozen, frozen=True, kw_only=True):
    """Hits of this server's own prefix cache by queried tokens, 0 to 1, and of the caches beside it."""

    hit_fraction_window: float | None = None
    hit_fraction_lifetime: float | None = None
    block_tokens: int | None = None
    """A prefix is shared in blocks of so many tokens, and a shorter one never."""
    external_hit_fraction_window: float | None = None
    """Share of prompt tokens that a KV connector brought from elsewhere; None where there is none."""
    multimodal_hit_fraction_window: float | None = None
    """Hits of the cache of processed images and the like, by items; None where nothing was looked up."""


class SpeculativeRates(Frozen, frozen=True, kw_only=True):
    """Draft acceptance over the window."""

    acceptance_length: float | None = None
    """Tokens a step, the verified one included: 1 + accepted / drafts."""
    acceptance_fraction: float | None = None
    """Accepted draft tokens / drafted tokens."""
    acceptance_per_position: tuple[float, ...] = ()
    """Share of drafts accepted at position 0, 1, …; empty when nothing was drafted."""


class Int8(Frozen, frozen=True, kw_only=True):
    """int8 activations: what was asked for and what is known to be so."""

    requested: bool = False
    active: bool | None = None
    proof: str | None = None


class GpuHolder(Frozen, frozen=True, kw_only=True):
    """Somebody else's process that holds memory of a GPU."""

    pid: int
    name: str
    used_bytes: int | None = None


class GpuReading(Frozen, frozen=True, kw_only=True):
    """One GPU at one moment."""

    index: int
    uuid: str
    name: str
    total_bytes: int | None = None
    used_bytes: int | None = None
    free_bytes: int | None = None
    instance_bytes: int | None = None
    """Held by the instance's own processes."""
    share_basis: ShareBasis | None = None
    """``exclusion``: pids are hidden here, so the instance's share is what nobody else is seen to hold, at most."""
    others: tuple[GpuHolder, ...] = ()
    """Other processes, largest first, as far as NVML names them."""
    utilization_fraction: float | None = None
    memory_utilization_fraction: float | None = None
    """Share of the time in which memory was read or written: near 1, bandwidth is the limit."""
    power_watts: float | None = None
    power_limit_watts: float | None = None
    temperature_celsius: int | None = None
    throttle: tuple[str, ...] = ()
    """Why the clocks are held down, e.g. ``power cap``; empty when they are not, or NVML does not say."""
    pcie_generation: int | None = None
    pcie_width: int | None = None
    pcie_receive_bytes_per_second: float | None = None
    pcie_transmit_bytes_per_second: float | None = None
    pcie_age_seconds: float | None = None
    """Age of the traffic alone: NVML measures for a moment when asked, one GPU after another."""
    nvlinks: int | None = None
    """NVLinks that are up; 0 for none, None where NVML does not say."""
    mig: bool = False
    """Split by MIG: NVML gives no utilization then."""
    unified_memory: bool = False
    """The GPU has no memory of its own: bytes are those of the host's."""
    lost: bool = False
    """It has fallen off the bus: nothing of it can be read until a reboot."""


class HostReading(Frozen, frozen=True, kw_only=True):
    """The host at one moment."""

    memory_total_bytes: int
    memory_used_bytes: int
    instance_bytes: int | None = None
    """Resident memory of the instance's processes: PSS, which counts shared pages once, or RSS."""
    cores: int | None = None
    """Logical ones that this process may run on."""
    cpu_fraction: float | None = None
    """All cores, 0 to 1."""
    instance_cpu_cores: float | None = None
    """Cores that the instance keeps busy, e.g. 1.7."""


class Totals(Frozen, frozen=True, kw_only=True):
    """Tokens since the server began."""

    prompt_computed_tokens: int | None = None
    prompt_cached_tokens: int | None = None
    generation_tokens: int | None = None
    requests_finished: int | None = None
    preemptions: int | None = None


class Source(Frozen, frozen=True, kw_only=True):
    """Where figures come from and how old they are."""

    figures: str
    """Which ones, e.g. ``prefill``."""
    origin: str
    age_seconds: float | None = None
    """None where they do not age: a label, a line of the log."""


class Frame(Frozen, frozen=True, kw_only=True):
    """Everything that is known about one instance at one moment."""

    at: float
    """Unix time of the reading."""
    state: State
    window_seconds: float | None = None
    """Length of the window that rates and latencies cover."""
    age_seconds: float | None = None
    """Time since /metrics last answered; None when it never did."""
    stale: bool = False
    """The last scrape failed: the figures, if any are left, are ``age_seconds`` old and not live."""
    model: str | None = None
    """What the server calls its model, by the labels of its figures; several names with commas."""
    engines: int | None = None
    throughput: Throughput = Throughput()
    kv: Kv = Kv()
    requests: Requests = Requests()
    latency: Latencies = Latencies()
    prefix_cache: PrefixCache = PrefixCache()
    speculative: SpeculativeRates | None = None
    sleep_state: SleepState | None = None
    int8: Int8 = Int8()
    totals: Totals = Totals()
    gpus: tuple[GpuReading, ...] = ()
    gpu_problem: str | None = None
    gpu_age_seconds: float | None = None
    """Age of the GPU figures: NVML is asked aside, and one that hangs keeps nobody waiting."""
    host: HostReading | None = None
    sources: tuple[Source, ...] = ()
    """One a group of figures that is known."""
    notes: tuple[str, ...] = ()
    """What the reader should know about these figures, one sentence each."""
