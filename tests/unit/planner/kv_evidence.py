"""Printed KV pools of real servers: published rows, and boot logs cut down to the lines that matter."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from fixture_yaml import read_yaml

from cockpit.checkpoint.types import LinearAttention
from cockpit.planner.types import AttentionLayers, KvModel, KvSettings

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
GIB = 1024**3
_DATA: dict[str, Any] = read_yaml(FIXTURES / "kv-vectors.yaml")
ROWS: list[dict[str, Any]] = _DATA["rows"]
LOGS = sorted((FIXTURES / "kv-boot-logs").glob("*.log"))


def model_of(name: str) -> KvModel:
    """A model of the rows."""
    said = _DATA["models"][name]
    layers = said.get("layers") or said["full_attention_layers"]
    attention = AttentionLayers(layers=layers, kv_heads=said["kv_heads"], head_dim=said["head_dim"])
    if "gdn_layers" not in said:
        return KvModel(attention=(attention,))
    state = LinearAttention(
        key_heads=said["linear_key_heads"],
        value_heads=said["linear_value_heads"],
        key_head_dim=said["linear_key_dim"],
        value_head_dim=said["linear_value_dim"],
        conv_kernel=said["conv_kernel"],
        state_bytes=said["state_bytes"],
    )
    return KvModel(
        attention=(attention,),
        gated_delta=state,
        gated_delta_layers=said["gdn_layers"],
        mtp_layers=said["mtp_layers"],
    )


def row_settings(row: dict[str, Any]) -> KvSettings:
    return KvSettings(
        max_model_len=row["max_model_len"],
        tensor_parallel=row["tensor_parallel"],
        kv_cache_dtype=row["kv_cache_dtype"],
        speculative_tokens=row["speculative_tokens"],
        prefix_caching=row["prefix_caching"],
    )


def rounding(printed_gib: float) -> tuple[int, int]:
    """The least and the largest number of bytes that print as so many GiB with two decimals."""
    return int((printed_gib - 0.005) * GIB), int((printed_gib + 0.005) * GIB)


class BootLog:
    """One log's own account of its KV pool."""

    def __init__(self, file: Path) -> None:
        self._text = file.read_text(encoding="utf-8")
        names = {"qwen3-8b": "qwen3-8b", "qwen38-27b": "qwen3.8-27b", "tiny-qwen3": "tiny-qwen3"}
        path = self._find(r"with config: model='([^']+)'")
        self.model = model_of(next(name for begin, name in names.items() if f"/{begin}" in path))
        printed = re.search(r"Available KV cache memory: ([\d.]+) GiB", self._text)
        self.cpu = "CPU KV cache size" in self._text
        # The CPU build prints it by other words, and the pool is what VLLM_CPU_KVCACHE_SPACE said.
        self.available = rounding(float(printed.group(1))) if printed else (GIB, GIB)
        block = re.search(r"attention block size to (\d+) tokens", self._text)
        self.block_size = int(block.group(1)) if block else 128 if self.cpu else 16
        drafted = re.search(r"num_spec_tokens=(\d+)", self._text)
        self.settings = KvSettings(
            max_model_len=int(self._find(r"max_seq_len=(\d+)")),
            tensor_parallel=int(self._find(r"tensor_parallel_size=(\d+)")),
            kv_cache_dtype=self._find(r"kv_cache_dtype=(\w+)"),
            speculative_tokens=int(drafted.group(1)) if drafted else 0,
            prefix_caching=None,
            platform="cpu" if self.cpu else "cuda",
            capability=None if self.cpu else (9, 0),
            engine_version=self._find(r"LLM engine \(v([\d.]+)\)"),
        )

    def _find(self, pattern: str) -> str:
        match = re.search(pattern, self._text)
        assert match is not None, f"the log has no {pattern}"
        return match.group(1)

    @property
    def capacity(self) -> tuple[int, str] | None:
        """Tokens and requests as printed; None where the boot was refused."""
        if "KV cache size" not in self._text:
            return None
        tokens = int(self._find(r"KV cache size: ([\d,]+) tokens").replace(",", ""))
        return tokens, self._find(r"tokens per request: ([\d.]+)x")

    @property
    def refusal(self) -> tuple[str, int]:
        """GiB needed and the longest context that would fit, as the refusal says."""
        return self._find(r"\(([\d.]+) GiB KV cache is needed"), int(self._find(r"maximum model length is (\d+)"))
