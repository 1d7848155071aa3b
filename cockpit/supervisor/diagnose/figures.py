"""Figures of memory and load that explanations use, from anywhere in a log."""

from __future__ import annotations

import re

from cockpit.supervisor.diagnose.number import number_of

_SIZES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("total_gib", re.compile(r"total capacity of ([\d.]+) GiB")),
    ("total_gib", re.compile(r"total_gpu_memory ?[=(] ?([\d.]+) ?GiB")),
    ("total_gib", re.compile(r"Free memory on device [^(]{0,40}\([\d.]+/([\d.]+) GiB\)")),
    ("utilization", re.compile(r"[Dd]esired GPU memory utilization (?:is )?\(([\d.]+),")),
    ("utilization", re.compile(r"gpu_memory_utilization ?[=(] ?(\d?\.\d+|1)")),
    ("weights_gib", re.compile(r"model weights take ([\d.]+) ?GiB")),
    ("weights_gib", re.compile(r"initial_memory_usage=([\d.]+) ?GiB")),
)
_CONCURRENCY = re.compile(r"(?P<what>.*Maximum concurrency for [\d,]+ tokens per request: )(?P<value>[\d,.]+)x")
_POOL = re.compile(r"size: [\d,]+")
_MAX_POOLS = 8
_GENERATION = re.compile(r"Avg generation throughput: ([\d.]+) tokens/s")


class Figures:
    """Fed the texts of lines, keeps a dozen numbers."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}
        self._pools: dict[str, tuple[float, float]] = {}
        """Lowest and highest concurrency by the words of its line."""

    def feed(self, text: str) -> None:
        """Read one line of any process and level."""
        if "GiB" in text:
            self._sizes(text)
        if "GB10" in text or "DGX Spark" in text or "tegra" in text or "gfx1151" in text:
            self.values["unified"] = 1.0  # devices whose memory is the host's
        if "Capturing CUDA graph" in text:
            self.values["capturing"] = 1.0
        elif "Graph capturing finished" in text:
            self.values.pop("capturing", None)
        elif "checkpoint shards" in text or "Starting to load model" in text:
            self.values["loading"] = 1.0
        elif "Maximum concurrency" in text:
            self._concurrency(text)
        elif "Avg generation throughput" in text:
            self._throughput(text)
        elif "SpecDecoding metrics" in text:
            self.values["drafted"] = 1.0
        elif "LLM engine (v" in text and "speculative_config=None" in text:
            self.values["no_draft"] = 1.0
        if "refix cache hit rate: 0.0%" in text:
            self.values["no_prefix_hits"] = 1.0

    def _sizes(self, text: str) -> None:
        for name, pattern in _SIZES:
            match = pattern.search(text)
            value = None if match is None else number_of(match[1])
            if value is not None:
                self.values.setdefault(name, value)

    def _concurrency(self, text: str) -> None:
        match = _CONCURRENCY.search(text)
        value = None if match is None else number_of(match["value"])
        if match is None or value is None or len(self._pools) > _MAX_POOLS:
            return
        what = _POOL.sub("size", match["what"])
        low, high = self._pools.get(what, (value, value))
        self._pools[what] = low, high = min(low, value), max(high, value)
        if high > low:
            self.values["concurrency_low"], self.values["concurrency_high"] = low, high

    def _throughput(self, text: str) -> None:
        match = _GENERATION.search(text)
        if match is not None and (number_of(match[1]) or 0) > 0:
            self.values["generating_lines"] = self.values.get("generating_lines", 0.0) + 1
