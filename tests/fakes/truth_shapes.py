"""The same figures written otherwise, as other exporters, proxies and moments write them; by mode."""

from __future__ import annotations

import re
from collections.abc import Callable

Shape = Callable[[str, bool], str]
"""Text, and whether the change of the mode has happened; gives the text that is sent."""


def _lines(text: str, change: Callable[[str], str | None]) -> str:
    """Each sample line changed; None leaves it out."""
    made = (line if line.startswith("#") else change(line) for line in text.splitlines())
    return "".join(f"{line}\n" for line in made if line is not None)


def exponents(text: str, _: bool) -> str:
    """Every value with an exponent, as Go writes large ones."""
    return _lines(text, lambda line: re.sub(r" (\S+)$", lambda found: f" {float(found[1]):.17e}", line))


def openmetrics(text: str, _: bool) -> str:
    """Exemplars with braces in them after the buckets, times after the rest, and the mark of the end."""

    def change(line: str) -> str:
        if "_bucket{" in line:
            return f'{line} # {{trace_id="a}} b",span="c"}} 0.067 1795982119.5'
        return f"{line} 1795982119.5"

    return _lines(text, change) + "# EOF\n"


def bare(text: str, _: bool) -> str:
    """No HELP, no TYPE, and lines that end as Windows ends them."""
    return "".join(f"{line}\r\n" for line in text.splitlines() if not line.startswith("#"))


def doubled(text: str, _: bool) -> str:
    """Each series twice, as two registries in one process give it."""
    return _lines(text, lambda line: f"{line}\n{line}")


def nan(text: str, _: bool) -> str:
    """What engine 1 generates and its use of the pool are not numbers."""
    unknown = {"vllm:generation_tokens_total": "NaN", "vllm:kv_cache_usage_perc": "+Inf"}

    def change(line: str) -> str:
        value = unknown.get(line.partition("{")[0])
        return line if value is None or 'engine="1"' not in line else f"{line.rpartition(' ')[0]} {value}"

    return _lines(text, change)


def lazy_labels(text: str, changed: bool) -> str:
    """A label's series is there only once something was counted for it."""
    return _lines(text, lambda line: None if 'source="external_kv_transfer"' in line and not changed else line)


def buckets(text: str, changed: bool) -> str:
    """Fewer buckets than before."""
    return _lines(text, lambda line: None if changed and re.search('le="(0.001|0.05|0.3|1.0)"', line) else line)


def replicas(text: str, _: bool) -> str:
    """Two servers of one engine each behind one address, told apart by a label."""
    own = re.sub(r'num_gpu_blocks="(\d+)"', lambda found: f'num_gpu_blocks="{int(found[1]) // 2}"', text)
    return re.sub(r'engine="(\d)"', r'engine="0",pod="vllm-\1"', own)


SHAPES: dict[str, Shape] = {
    "exponents": exponents,
    "openmetrics": openmetrics,
    "bare": bare,
    "doubled": doubled,
    "nan": nan,
    "lazy-labels": lazy_labels,
    "buckets": buckets,
    "replicas": replicas,
}
