"""Forecasts against what vLLM printed, as the table of docs/forecast.md.

    python scripts/forecast_table.py                                the recorded boots
    python scripts/forecast_table.py --write docs/forecast.md       the same, put into the page
    python scripts/forecast_table.py --log LOG --config CONFIG [--gpu "NVIDIA H200" --total-gib 139.8
                                     --capability 9.0] [--int8]     another boot beside them

Flags and version come from the log (``non-default args``, ``Initializing a V1 LLM engine``). LOG may be whole or cut
down to the lines about arguments, memory and the KV pool. To keep a boot, put its log beside
tests/fixtures/memory-boot-logs/boots.yaml and name it there.
"""

from __future__ import annotations

import argparse
import ast
import re
from pathlib import Path
from typing import Any

import yaml

from cockpit.checkpoint.inspect import inspect
from cockpit.checkpoint.types import Checkpoint
from cockpit.launch.forecast import MARLIN_WIDTHS
from cockpit.planner.calibration import Boot, BootSubject, lesson_of
from cockpit.planner.forecast import forecast
from cockpit.planner.forecast_inputs import CardMemory, MemorySettings
from cockpit.planner.forecast_types import Forecast, Part
from cockpit.planner.types import KvSettings
from cockpit.planner.weights import rank_weights
from cockpit.supervisor.boot import BootLog
from cockpit.supervisor.boot_memory import memory_of
from cockpit.supervisor.boot_state import BootFacts
from cockpit.units import GIB

ROOT = Path(__file__).resolve().parent.parent
BOOTS = ROOT / "tests" / "fixtures" / "memory-boot-logs" / "boots.yaml"
CHECKPOINTS = ROOT / "tests" / "fixtures" / "checkpoints"
BEGIN, END = "<!-- table: scripts/forecast_table.py -->", "<!-- end of table -->"
H200 = {"gpu": "NVIDIA H200", "total_gib": 139.8, "capability": "9.0"}
HEADER = (
    "| boot | part | printed GiB | forecast | off | after learning |",
    "|---|---|---:|---:|---:|---:|",
)


def arguments_of(text: str) -> dict[str, Any]:
    """``non-default args: {...}`` of a log."""
    match = re.search(r"non-default args: (\{.*\})", text)
    found: dict[str, Any] = ast.literal_eval(match[1]) if match else {}
    return found


def facts_of(text: str) -> BootFacts:
    """What the log says."""
    log = BootLog(None)
    log.feed(text.splitlines(), 0.0)
    return log.snapshot().facts


def settings_of(text: str, facts: BootFacts, checkpoint: Checkpoint, boot: dict[str, Any]) -> MemorySettings:
    """The flags that were served."""
    flags = arguments_of(text)
    drafted = flags.get("speculative_config") or {}
    major, minor = str(boot["capability"]).split(".")
    widths = {scheme.bits for scheme, _ in checkpoint.quantization.schemes if scheme.kind == "int"}
    caching = flags.get("enable_prefix_caching")
    kv = KvSettings(
        max_model_len=facts.max_model_len or flags.get("max_model_len") or checkpoint.max_model_len or 1,
        tensor_parallel=flags.get("tensor_parallel_size", 1),
        kv_cache_dtype=flags.get("kv_cache_dtype", "auto"),
        speculative_tokens=drafted.get("num_speculative_tokens", 0),
        speculative_method=drafted.get("method", "mtp"),
        prefix_caching=caching,
        engine_version=facts.vllm_version,
        capability=(int(major), int(minor)),
        max_num_batched_tokens=flags.get("max_num_batched_tokens"),
        gpu_total_bytes=total_of(facts, boot),
        gpu_name=boot["gpu"],
    )
    return MemorySettings(
        kv=kv,
        utilization=flags.get("gpu_memory_utilization", 0.92),
        max_num_seqs=flags.get("max_num_seqs"),
        eager=flags.get("enforce_eager", False),
        vision=checkpoint.vision and not flags.get("language_model_only", False),
        int8=bool(boot.get("int8")),
        humming=not MARLIN_WIDTHS.issuperset(widths),
        optimization_level=int(str(flags.get("optimization_level", 2)).removeprefix("O")),
    )


def total_of(facts: BootFacts, boot: dict[str, Any]) -> int:
    """What CUDA saw of the card."""
    return round((facts.total_gib or boot["total_gib"]) * GIB)


def weights_of(checkpoint: Checkpoint, settings: MemorySettings) -> Part | None:
    """Of one rank, as forecast."""
    kv = settings.kv
    found = rank_weights(
        checkpoint,
        tensor_parallel=kv.tensor_parallel,
        speculative_tokens=kv.speculative_tokens,
        speculative_method=kv.speculative_method,
        vision=settings.vision,
        engine_version=kv.engine_version,
    )
    return None if found is None else Part(bytes=found.bytes, basis=found.basis, error_bytes=found.error_bytes)


def row(name: str, part: str, printed: float | None, before: float | None, after: float | None, unit: str) -> str:
    """One line of the table."""

    def shown(value: float | None) -> str:
        return "–" if value is None else f"{value:,.0f}" if unit == "tokens" else f"{value:.2f}"

    off = "–" if not printed or before is None else f"{before / printed - 1:+.2%}"
    return f"| {name} | {part} | {shown(printed)} | {shown(before)} | {off} | {shown(after)} |"


def rows_of(log: Path, config: str, boot: dict[str, Any]) -> list[str]:
    """The lines of one boot."""
    text = log.read_text(encoding="utf-8", errors="replace")
    facts, checkpoint = facts_of(text), inspect(config)
    settings = settings_of(text, facts, checkpoint, boot)
    weights = weights_of(checkpoint, settings)
    total = total_of(facts, boot)
    cards = (CardMemory(gpu=0, name=boot["gpu"], total_bytes=total),)
    before = forecast(checkpoint, settings, cards, weights)
    subject = BootSubject(
        slug=log.stem,
        checkpoint=config,
        engine_version=facts.vllm_version or "",
        gpu_name=boot["gpu"],
        total_bytes=total,
        settings=settings,
    )
    measured = Boot(subject=subject, at=0.0, memory=memory_of(facts))
    after = forecast(checkpoint, settings, cards, weights, lesson_of(measured, checkpoint, settings, weights))
    return _rows(log.stem, facts, before, after)


def _rows(name: str, facts: BootFacts, before: Forecast, after: Forecast) -> list[str]:
    if not before.per_gpu or before.kv is None or after.kv is None:
        return [f"| {name} | unknown: {before.reason} | – | – | – | – |"]
    first, second = before.per_gpu[0], after.per_gpu[0]
    error = (before.error_bytes or 0) / GIB
    capacity = (facts.capacity_tokens, before.kv.capacity_tokens, after.kv.capacity_tokens)
    return [
        row(name, "weights", facts.weights_gib, first.weights.bytes / GIB, second.weights.bytes / GIB, "GiB"),
        row("", f"KV ±{error:.2f}", facts.available_kv_gib, first.kv.bytes / GIB, second.kv.bytes / GIB, "GiB"),
        row("", "KV tokens", *capacity, "tokens"),
    ]


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Forecasts against what vLLM printed.")
    parser.add_argument("--log", type=Path, help="a boot log of vLLM")
    parser.add_argument("--config", help="folder or config.json of the checkpoint that it served")
    parser.add_argument("--gpu", default=H200["gpu"])
    parser.add_argument("--total-gib", type=float, default=H200["total_gib"], help="where the log does not say it")
    parser.add_argument("--capability", default=H200["capability"])
    parser.add_argument("--int8", action="store_true", help="VLLM_MARLIN_INPUT_DTYPE=int8 was in force")
    parser.add_argument("--write", type=Path, help="the page whose table is replaced")
    return parser.parse_args()


def main() -> None:
    """Print the table, or write it into a page."""
    asked = options()
    if (asked.log is None) != (asked.config is None):
        raise SystemExit("--log and --config go together")
    lines = list(HEADER)
    for boot in yaml.safe_load(BOOTS.read_text(encoding="utf-8")):
        lines += rows_of(BOOTS.with_name(boot["log"]), str(CHECKPOINTS / boot["config"]), {**H200, **boot})
    if asked.log is not None:
        lines += rows_of(asked.log, asked.config, vars(asked))
    if asked.write is None:
        print("\n".join(lines))
        return
    page = asked.write.read_text(encoding="utf-8")
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    asked.write.write_text(f"{head}{BEGIN}\n\n" + "\n".join(lines) + f"\n\n{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
