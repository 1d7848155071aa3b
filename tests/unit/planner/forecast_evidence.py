"""Boots of one H200 and what they printed: each log with the checkpoint and the flags that were served."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from cockpit.checkpoint.inspect import inspect
from cockpit.checkpoint.types import Checkpoint
from cockpit.planner.calibration import Boot, BootSubject
from cockpit.planner.forecast import forecast
from cockpit.planner.forecast_inputs import CardMemory, MemorySettings
from cockpit.planner.forecast_types import Forecast, Part
from cockpit.planner.types import KvSettings
from cockpit.planner.weights import rank_weights
from cockpit.supervisor.boot import BootLog
from cockpit.supervisor.boot_memory import memory_of
from cockpit.supervisor.boot_state import BootFacts
from cockpit.units import GIB

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
H200_BYTES = round(139.8 * GIB)


class Recorded(NamedTuple):
    """One boot."""

    log: str
    checkpoint: str
    max_model_len: int = 16384
    kv_cache_dtype: str = "auto"
    speculative_tokens: int = 0
    utilization: float = 0.92
    max_num_seqs: int | None = None
    eager: bool = True
    int8: bool = False
    humming: bool = False
    optimization_level: int = 2

    @property
    def facts(self) -> BootFacts:
        """What the log says."""
        log = BootLog(None)
        text = (FIXTURES / "memory-boot-logs" / f"{self.log}.log").read_text(encoding="utf-8")
        log.feed(text.splitlines(), 0.0)
        return log.snapshot().facts

    @property
    def model(self) -> Checkpoint:
        """Of its config."""
        return inspect(str(FIXTURES / "checkpoints" / self.checkpoint))

    @property
    def settings(self) -> MemorySettings:
        """Its flags."""
        kv = KvSettings(
            max_model_len=self.max_model_len,
            kv_cache_dtype=self.kv_cache_dtype,
            speculative_tokens=self.speculative_tokens,
            engine_version="0.26.0",
            capability=(9, 0),
            gpu_total_bytes=H200_BYTES,
            gpu_name="NVIDIA H200",
        )
        return MemorySettings(
            kv=kv,
            utilization=self.utilization,
            max_num_seqs=self.max_num_seqs,
            eager=self.eager,
            int8=self.int8,
            humming=self.humming,
            optimization_level=self.optimization_level,
        )

    @property
    def subject(self) -> BootSubject:
        """What it was about."""
        return BootSubject(
            slug=f"local/{self.log}",
            checkpoint=self.checkpoint,
            engine_version="0.26.0",
            gpu_name="NVIDIA H200",
            total_bytes=H200_BYTES,
            settings=self.settings,
        )

    @property
    def boot(self) -> Boot:
        """What it measured."""
        return Boot(subject=self.subject, at=1.0, memory=memory_of(self.facts))


BOOTS = (
    Recorded("h200-0.26-ar4-first-boot", "auto-round-w4", eager=False),
    Recorded("h200-0.26-ar4-int8-ignored", "auto-round-w4", eager=False),
    Recorded("h200-0.26-ct4-graph", "compressed-tensors-w4", eager=False, max_num_seqs=8, optimization_level=1),
    Recorded("h200-0.26-ct4-marlin", "compressed-tensors-w4"),
    Recorded("h200-0.26-ct4-marlin-int8", "compressed-tensors-w4", int8=True),
    Recorded("h200-0.26-nokv", "bf16-hybrid", 262144, utilization=0.4),
    Recorded("h200-0.26-q38-ar4-mtp3", "auto-round-w4-hybrid", 262144, "fp8", 3, max_num_seqs=2),
    Recorded(
        "h200-0.26-q38-ct6-mtp3-seed",
        "compressed-tensors-int6-flat",
        262144,
        speculative_tokens=3,
        utilization=0.5,
        max_num_seqs=256,
        humming=True,
    ),
    # Booted after the forecast had been made: nothing in the planner was fitted to them.
    Recorded("h200-0.26-ar4-16k", "auto-round-w4", eager=False),
    Recorded("h200-0.26-q8-bf16-eager", "qwen3-8-layers", 40960, max_num_seqs=256),
    Recorded("h200-0.26-q8-fp8-graphs", "qwen3-8-layers", 16384, "fp8", max_num_seqs=64, eager=False),
    Recorded("h200-0.26-gemma3-windows", "gemma3-13-layers", 131072, utilization=0.6, max_num_seqs=16),
    Recorded("h200-0.26-q8-ct-own-fp8", "qwen3-8-layers-own-fp8-kv", 32768, utilization=0.6, max_num_seqs=8),
    Recorded(
        "h200-0.26-q27-mtp2-eager", "qwen3.5-8-layers", 65536, speculative_tokens=2, utilization=0.7, max_num_seqs=8
    ),
    Recorded("h200-0.26-q27-mtp4-fp8", "qwen3.5-8-layers", 262144, "fp8", 4, max_num_seqs=2),
)


def card(total_bytes: int = H200_BYTES) -> tuple[CardMemory, ...]:
    """One H200, or a card of another size."""
    return (CardMemory(gpu=0, name="NVIDIA H200", total_bytes=total_bytes),)


def weights_of(model: Checkpoint, settings: MemorySettings) -> Part:
    """Of one rank."""
    kv = settings.kv
    found = rank_weights(
        model,
        tensor_parallel=kv.tensor_parallel,
        speculative_tokens=kv.speculative_tokens,
        vision=settings.vision,
        engine_version=kv.engine_version,
    )
    assert found is not None
    return Part(bytes=found.bytes, basis=found.basis, error_bytes=found.error_bytes)


def forecast_of_boot(one: Recorded) -> Forecast:
    """Before anything was measured."""
    model, settings = one.model, one.settings
    return forecast(model, settings, card(), weights_of(model, settings))
