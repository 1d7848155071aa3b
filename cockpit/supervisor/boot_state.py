"""A boot as values: its stages and figures, and the draft of them that a log fills line by line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

StageId = Literal["environment", "config", "weights", "compile", "kv_pool", "graphs", "ready"]
STAGES: tuple[StageId, ...] = ("environment", "config", "weights", "compile", "kv_pool", "graphs", "ready")
"""In their order."""
STAGE_NAMES: dict[StageId, str] = {
    "environment": "environment",
    "config": "config",
    "weights": "weights",
    "compile": "compile",
    "kv_pool": "KV pool",
    "graphs": "CUDA graphs",
    "ready": "ready",
}
"""As they are shown."""
_MAX_KERNELS = 32


class BootStage(msgspec.Struct, frozen=True, kw_only=True):
    """One stage of a boot; times are seconds since the spawn."""

    id: StageId
    started: float
    ended: float | None = None
    """None while it runs, and for the stage in which a server died."""
    progress: str = ""
    """How far it is or what it gave: ``shards 3/9``, ``5.68 GiB``."""

    @property
    def seconds(self) -> float | None:
        """How long it took; None while it runs."""
        return None if self.ended is None else self.ended - self.started


class Int8Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What the overlay for int8 activations said of its work, over every model that was loaded."""

    layers: dict[int, int] = {}
    """Rank → layers switched, of the model and its draft together."""
    groups: int = 0
    folded: int = 0
    """Of the groups of scales, those whose sign was folded into the codes; all ranks."""
    clamped: int = 0
    """Codes that did not fit after the fold; all ranks."""
    kept_why: str | None = None
    """Why layers stayed at 16 bits; None when none did."""
    refused: str | None = None
    """Why the overlay ended the boot."""
    needless: bool = False
    """This vLLM does it by itself, so nothing was patched."""


class BootFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Figures that the log gave; None is not seen."""

    vllm_version: str | None = None
    architecture: str | None = None
    checkpoint_gib: float | None = None
    """What all ranks together have to read."""
    weights_gib: float | None = None
    """Of one rank, the largest."""
    available_kv_gib: float | None = None
    """Of one rank, the smallest."""
    total_gib: float | None = None
    """What CUDA sees of a card, the smallest."""
    activation_gib: float | None = None
    """Peak of profiling of one rank, the largest; with the estimate of the graphs since vLLM 0.27."""
    consumed_gib: float | None = None
    """Weights and what is not PyTorch's of one rank, the largest; since vLLM 0.27."""
    non_torch_gib: float | None = None
    """What is not PyTorch's alone, until then."""
    graphs_gib: float | None = None
    """What CUDA graphs took of one rank, the largest."""
    graphs_estimate_gib: float | None = None
    """What vLLM had taken off the pool for them."""
    capacity_tokens: int | None = None
    """KV pool of one engine, in tokens."""
    capacity_corrected: bool = False
    """Whether the log's own figure was too low: vLLM 0.17 to 0.20 divided it by the groups of a hybrid model."""
    max_concurrency: float | None = None
    """Requests of ``max_model_len`` that fit the pool at once."""
    max_model_len: int | None = None
    attention_backend: str | None = None
    kernels: dict[str, str] = {}
    """Layer kind → kernel; several kernels of one kind are joined by a comma."""
    world_size: int | None = None
    int8: Int8Facts | None = None
    """None when the overlay said nothing."""
    nccl_version: str | None = None
    """None also where one rank needs no NCCL."""


class BootState(msgspec.Struct, frozen=True, kw_only=True):
    """A boot at one moment."""

    stages: tuple[BootStage, ...]
    """In order; one that did not happen (compile in eager mode, graphs on a CPU) is not there."""
    current: StageId | None
    """The stage that runs; None once ready."""
    facts: BootFacts
    ready: bool
    first_exception: str | None
    """The likely root cause, ``XxxError: message``; it means something only when the server died."""


class BootDraft:
    """Stages and figures while they become known. All times are seconds since the spawn."""

    def __init__(self) -> None:
        self.facts = BootFacts()
        self.ready = False
        self.pool_told = False
        """Whether a line gave the pool in tokens."""
        self._current: StageId = "environment"
        self._started: dict[StageId, float] = {"environment": 0.0}
        self._ended: dict[StageId, float] = {}
        self._progress: dict[StageId, str] = {}
        self._compile_expected = False
        self._compile_seen = False

    @property
    def current(self) -> StageId:
        """The stage that runs, or ran last."""
        return self._current

    def snapshot(self, first_exception: str | None) -> BootState:
        """The boot as it stands."""
        stages = tuple(
            BootStage(id=stage, started=at, ended=self._ended.get(stage), progress=self._progress.get(stage, ""))
            for stage, at in self._started.items()
        )
        return BootState(
            stages=stages,
            current=None if self.ready else self._current,
            facts=self.facts,
            ready=self.ready,
            first_exception=first_exception,
        )

    def enter(self, stage: StageId, at: float) -> None:
        """Begin a later stage and end the one that runs; a stage that was passed does not come back.

        It began where the stage before it ended, so that the stages add up to the boot.
        """
        if STAGES.index(stage) <= STAGES.index(self._current) or stage in self._started:
            return
        if stage == "kv_pool" and self._current == "compile" and not self._compile_seen:
            self._rename(stage)
        else:
            self._started[stage] = self._ended.setdefault(self._current, at)
            self._current = stage

    def leave(self, stage: StageId, at: float) -> None:
        """End a stage and begin the one after it, which no line announces.

        Another rank or a draft model may end the same stage again, as long as the next one shows no progress.
        """
        self.enter(stage, at)
        if self._current == stage:
            self._ended[stage] = at
            self.enter(self._after(stage), at)
        elif self._only_guessed(self._current) and list(self._started)[-2] == stage:
            self._ended[stage] = self._started[self._current] = at

    def _after(self, stage: StageId) -> StageId:
        if stage == "graphs":
            return "ready"
        return "compile" if stage == "weights" and self._compile_expected else "kv_pool"

    def _only_guessed(self, stage: StageId) -> bool:
        """Whether a stage began because the one before it ended, and nothing of it was seen yet."""
        seen = stage in self._progress or stage in self._ended or (stage == "compile" and self._compile_seen)
        return not seen and len(self._started) > 1

    def _rename(self, stage: StageId) -> None:
        """What runs was guessed wrongly: it is this stage."""
        self._started[stage] = self._started.pop(self._current)
        self._current = stage

    def close(self, stage: StageId, at: float) -> None:
        """End a stage whose follower is not known yet."""
        self.enter(stage, at)
        self._ended[stage] = at

    def is_closed(self, stage: StageId) -> bool:
        """Whether a stage is over."""
        return stage in self._ended

    def expect_compile(self) -> None:
        """The engine's settings have torch compile once the weights are there."""
        self._compile_expected = True

    def compiling(self) -> None:
        """Torch compiles: what looked like work on the KV pool since the weights were there was this."""
        if self._current == "kv_pool" and "kv_pool" not in self._ended and "compile" not in self._started:
            self._rename("compile")
        self._compile_seen = True

    def finish(self, at: float) -> None:
        """The server answers."""
        self.close("ready", at)
        self.ready = True

    def note(self, stage: StageId, text: str) -> None:
        """Say how far a stage is or what it gave."""
        self._progress[stage] = text

    def learn(self, **facts: object) -> None:
        """Take figures; later ones win."""
        self.facts = msgspec.structs.replace(self.facts, **facts)

    def kernel(self, kind: str, name: str) -> None:
        """Take the kernel of a layer kind."""
        known = self.facts.kernels.get(kind)
        names = [] if known is None else known.split(", ")
        if name not in names and len(names) < _MAX_KERNELS and (names or len(self.facts.kernels) < _MAX_KERNELS):
            self.learn(kernels={**self.facts.kernels, kind: ", ".join([*names, name])})


def extreme(choose: Callable[[float, float], float], before: float | None, value: float) -> float:
    """The figure of all ranks so far: ``choose`` is min or max."""
    return value if before is None else choose(before, value)
