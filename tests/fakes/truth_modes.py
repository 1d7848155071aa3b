"""What the truth server claims, mode by mode: the figures that the cockpit must show."""

from __future__ import annotations

from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Truth:
    """What one engine does, all day: tokens, requests, steps and drafts a second, and its pool."""

    computed: float = 0.0
    cached: float = 0.0
    decode: float = 0.0
    requests: float = 0.0
    steps: float = 0.0
    preemptions: float = 0.0
    running: int = 0
    waiting: int = 0
    used_fraction: float = 0.0
    capacity_tokens: int | None = 884_160
    """None is a model without a KV cache."""
    model_len: int = 16_384
    block_tokens: int = 16
    extra_blocks: int = 0
    """Of a request of full length, for layers that do not keep every token."""
    prefill_seconds_per_request: float = 0.05
    """Latencies are spread evenly between two bucket bounds, so that the truth can be read back from buckets."""
    ttft: tuple[float, float] = (0.06, 0.08)
    inter_token: tuple[float, float] = (0.01, 0.025)
    queue: tuple[float, float] = (0.0, 0.0002)
    drafts: float | None = None
    accepted_shares: tuple[float, ...] = ()
    speculative_tokens: float | None = None
    """Drafted a step, on average; as many as there are positions unless given."""
    external: float = 0.0
    """Prompt tokens that a KV connector brings."""
    images: float = 0.0
    image_hits: float = 0.0
    """Share of them that the cache of processed images has."""
    finish_shares: dict[str, float] = field(default_factory=lambda: {"stop": 1.0, "abort": 0.0})
    hybrid: bool = False
    sleep_state: str = "awake"

    @property
    def max_concurrency(self) -> float | None:
        """Requests of full length that fit into the pool."""
        return None if self.capacity_tokens is None else self.capacity_tokens / self.model_len

    @property
    def blocks(self) -> int:
        """Of the pool; one stands for none."""
        if self.max_concurrency is None:
            return 1
        return round(self.max_concurrency * (-(-self.model_len // self.block_tokens) + self.extra_blocks))

    @property
    def draft_depth(self) -> float:
        """Tokens drafted a step."""
        return len(self.accepted_shares) if self.speculative_tokens is None else self.speculative_tokens

    def credited(self, seconds: float) -> float:
        """Seconds of work whose prompts have given their first token, ``seconds`` after the start."""
        return seconds

    def decoded(self, seconds: float) -> float:
        """Seconds spent decoding."""
        return seconds

    def used(self, seconds: float) -> float:
        """Share of the pool in use."""
        return self.used_fraction

    def busy(self, seconds: float) -> int:
        """Requests that run."""
        return self.running


@dataclass(frozen=True)
class LongPrompts(Truth):
    """One prompt after another that takes ``prefill_seconds``, then ``decode_seconds`` of answer; as vLLM does it,
    the prompt is credited whole at its first token, and the pool grows with every chunk."""

    prefill_seconds: float = 40.0
    decode_seconds: float = 4.0

    def _turn(self, seconds: float) -> tuple[int, float]:
        whole = self.prefill_seconds + self.decode_seconds
        return int(seconds // whole), seconds % whole

    def credited(self, seconds: float) -> float:
        turns, inside = self._turn(seconds)
        return self.prefill_seconds * (turns + (inside >= self.prefill_seconds))

    def decoded(self, seconds: float) -> float:
        turns, inside = self._turn(seconds)
        return self.decode_seconds * turns + max(0.0, inside - self.prefill_seconds)

    def used(self, seconds: float) -> float:
        inside = self._turn(seconds)[1]
        tokens = self.computed * min(inside, self.prefill_seconds)
        return (tokens + self.decode * max(0.0, inside - self.prefill_seconds)) / self.capacity_tokens


@dataclass(frozen=True)
class Bursts(Truth):
    """Work for the first ``work_seconds`` of every ``whole_seconds``."""

    work_seconds: float = 2.0
    whole_seconds: float = 5.0

    def credited(self, seconds: float) -> float:
        turns, inside = divmod(seconds, self.whole_seconds)
        return turns * self.work_seconds + min(inside, self.work_seconds)

    decoded = credited

    def used(self, seconds: float) -> float:
        return self.used_fraction if self.busy(seconds) else 0.0

    def busy(self, seconds: float) -> int:
        return self.running if seconds % self.whole_seconds < self.work_seconds else 0


@dataclass(frozen=True)
class Encoding(Truth):
    """Transcriptions come one a second, each with the blocks of its 1,500 encoder tokens, and none ends yet."""

    def busy(self, seconds: float) -> int:
        return self.running + int(seconds)

    def used(self, seconds: float) -> float:
        return self.busy(seconds) * (1 + -(-1500 // self.block_tokens)) / self.blocks


@dataclass(frozen=True)
class Names:
    """Which families a vLLM of some age publishes."""

    by_source: bool = True
    cached_total: bool = True
    hits_in_tokens: bool = True
    kv_usage: str = "kv_cache_usage_perc"
    inter_token: str = "inter_token_latency_seconds"
    pool_in_tokens: bool = True
    process_start: bool = True

    @property
    def knows_cached(self) -> bool:
        """Whether cached prompt tokens can be told from computed ones."""
        return self.by_source or self.cached_total or self.hits_in_tokens


@dataclass(frozen=True)
class Mode:
    """One behaviour of the server."""

    engines: tuple[Truth, ...]
    names: Names = field(default_factory=Names)
    lost: tuple[int, ...] = ()
    """Engines that are gone after the change."""
    anew: tuple[int, ...] = ()
    """Engines whose counters begin anew at the change."""
    late: tuple[int, ...] = ()
    """Engines that are there only after the change."""
    age_seconds: float = 0.0
    """How long the engines have worked when the first one looks."""
    renamed: bool = False
    """The model has another name after the change, as when an adapter takes its place."""


STEADY = Truth(
    computed=2500.0,
    cached=1100.0,
    decode=90.0,
    requests=40.0,
    steps=90.0,
    preemptions=0.5,
    running=2,
    waiting=1,
    used_fraction=0.37,
)
HYBRID = replace(STEADY, hybrid=True, capacity_tokens=263_672, model_len=262_144, block_tokens=1600, extra_blocks=12)
"""12 of the 176 blocks of a request are state."""
POOLING = replace(STEADY, decode=0.0, steps=0.0, cached=0.0)
OLD = Names(
    by_source=False,
    cached_total=False,
    kv_usage="gpu_cache_usage_perc",
    inter_token="time_per_output_token_seconds",
    pool_in_tokens=False,
)
MODES: dict[str, Mode] = {
    "steady": Mode((STEADY,)),
    "cached": Mode((replace(STEADY, computed=100.0, cached=9900.0),)),
    "long-prefill": Mode((LongPrompts(computed=2500.0, decode=50.0, requests=0.025, steps=50.0, running=1),)),
    "burst": Mode((Bursts(**{**vars(STEADY), "computed": 5000.0}),)),
    "idle": Mode((Truth(),)),
    "stuck": Mode((Truth(running=2, used_fraction=0.1),)),
    "sleep": Mode((Truth(sleep_state="weights_offloaded"),)),
    "death": Mode((STEADY,)),
    "api-servers": Mode((STEADY,), Names(process_start=False)),
    "v0.20": Mode((STEADY,), Names(pool_in_tokens=False)),
    "v0.26": Mode((STEADY,)),
    "v0.33": Mode((STEADY,)),
    "restart": Mode((STEADY,)),
    "hybrid": Mode((HYBRID,)),
    "mtp": Mode((replace(STEADY, decode=260.0, drafts=100.0, accepted_shares=(0.8, 0.5, 0.3)),)),
    "dp2": Mode(
        (
            replace(STEADY, capacity_tokens=100_000, used_fraction=0.5),
            replace(STEADY, decode=30.0, capacity_tokens=300_000, used_fraction=0.1),
        )
    ),
    "poor-draft": Mode((replace(STEADY, drafts=1000.0, accepted_shares=(0.1, 0.02, 0.0)),)),
    "overflow": Mode((replace(STEADY, ttft=(20.0, 40.0)),)),
    "old-cached": Mode((STEADY,), replace(OLD, cached_total=True)),
    "old": Mode((STEADY,), OLD),
    "old-blind": Mode((STEADY,), replace(OLD, hits_in_tokens=False)),
    "slow": Mode((STEADY,)),
    "broken": Mode((STEADY,)),
    "truncated": Mode((STEADY,)),
    "cut": Mode((STEADY,)),
    "endless": Mode((STEADY,)),
    "drip": Mode((STEADY,)),
    "error": Mode((STEADY,)),
    "not-vllm": Mode(()),
    # Text that is as true, and written otherwise
    "exponents": Mode((STEADY,), age_seconds=3e6),
    "openmetrics": Mode((STEADY,)),
    "bare": Mode((STEADY,)),
    "doubled": Mode((STEADY,)),
    "nan": Mode((STEADY, STEADY)),
    "lazy-labels": Mode((replace(STEADY, external=1400.0),)),
    "buckets": Mode((STEADY,)),
    "replicas": Mode((STEADY, replace(STEADY, used_fraction=0.11))),
    # Engines that come and go
    "dp8-lost": Mode(tuple(replace(STEADY, decode=10.0 * n) for n in range(1, 9)), lost=(3,)),
    "engine-restart": Mode((STEADY, STEADY), anew=(1,), age_seconds=600.0),
    "engine-back": Mode((STEADY, STEADY), late=(1,), age_seconds=600.0),
    "renamed": Mode((STEADY,), renamed=True),
    # Other work
    "sleep-2": Mode((Truth(sleep_state="discard_all"),)),
    "sleep-0": Mode((Truth(running=1, waiting=3, used_fraction=0.2, sleep_state="paused"),)),
    "kv-connector": Mode((replace(STEADY, external=1400.0),)),
    "multimodal": Mode((replace(STEADY, images=20.0, image_hits=0.75),)),
    "mtp-depths": Mode(
        (
            replace(
                STEADY, decode=260.0, drafts=100.0, accepted_shares=(0.8, 0.5, 0.3, 0.0, 0.0), speculative_tokens=3.2
            ),
        )
    ),
    "pooling": Mode((POOLING,)),
    "pooling-encoder": Mode((replace(POOLING, capacity_tokens=None, used_fraction=0.0, preemptions=0.0),)),
    "sliding-window": Mode((replace(STEADY, model_len=131_072, extra_blocks=5 * 193),)),
    "encoder-decoder": Mode(
        (
            Encoding(
                computed=4.0,
                decode=300.0,
                requests=1.0,
                steps=300.0,
                running=1,
                capacity_tokens=73_472,
                model_len=448,
                extra_blocks=128,
            ),
        )
    ),
    "finish-reasons": Mode(
        (
            replace(
                STEADY, finish_shares={"stop": 0.5, "length": 0.3, "abort": 0.1, "error": 0.05, "repetition": 0.05}
            ),
        )
    ),
    # Answers that are no figures of a vLLM
    "sglang": Mode(()),
    "no-log-stats": Mode(()),
    "key": Mode((STEADY,)),
    "html": Mode((STEADY,)),
    "json": Mode((STEADY,)),
    "login": Mode((STEADY,)),
    "https-only": Mode((STEADY,)),
    "api-alone": Mode((STEADY,)),
    "sglang-silent": Mode((STEADY,)),
    "llamacpp-silent": Mode((STEADY,)),
    "ollama": Mode((STEADY,)),
    "tgi-silent": Mode((STEADY,)),
    "no-metrics": Mode((STEADY,)),
}
