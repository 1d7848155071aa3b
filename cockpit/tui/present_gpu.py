"""GPU memory by holder, load, power and heat; the host's memory and cores where no GPU serves."""

from __future__ import annotations

from cockpit import units
from cockpit.telemetry.frame import Frame, GpuReading, HostReading
from cockpit.tui.content import Row, row_text
from cockpit.tui.gauges import bar, label

_WIDE = 110
_FEW_GPUS = 2
"""Up to so many get a second line in any case."""
_OLD_SECONDS = 3.0
_PCIE_OLD_SECONDS = 10.0
"""Traffic is measured in turns, most often every five seconds."""
_WORTH_NAMING_BYTES = 64 * 1024**2
_MAX_NAMES = 3
_TIGHT_BYTES = 512 * 1024**2
"""With less free, requests may run out of memory that no boot has measured."""


def memory_rows(frame: Frame, width: int) -> list[Row]:
    """A line or two a GPU, or why there is none; the host where no GPU serves."""
    rows: list[Row] = []
    for gpu in frame.gpus:
        rows.append([label(f"GPU{gpu.index}"), ("lost", "bad")] if gpu.lost else _gpu_row(gpu, width))
        detail = _detail(gpu, width >= _WIDE and len(frame.gpus) <= _FEW_GPUS)
        if detail:
            rows.append([label(""), *detail])
    if frame.gpu_problem:
        rows.append([label("GPU"), (frame.gpu_problem, "warn" if frame.gpus else "dim")])
    if frame.gpus and frame.gpu_age_seconds is not None and frame.gpu_age_seconds > _OLD_SECONDS:
        rows.append([label(""), (f"⚠ the GPU figures are {frame.gpu_age_seconds:.0f} s old", "warn")])
    if frame.host is not None and not frame.gpus:
        rows.append(_host_row(frame.host))
    return rows


def _gpu_row(gpu: GpuReading, width: int) -> Row:
    share = None
    if gpu.used_bytes is not None and gpu.total_bytes:
        share = gpu.used_bytes / gpu.total_bytes
    others = None
    if gpu.used_bytes is not None and gpu.instance_bytes is not None and gpu.share_basis != "exclusion":
        others = max(0, gpu.used_bytes - gpu.instance_bytes)
    at_most = "≤ " if gpu.share_basis == "exclusion" else ""
    cap = "" if gpu.power_limit_watts is None else f"/{gpu.power_limit_watts:.0f}"
    power = units.UNKNOWN if gpu.power_watts is None else f"{gpu.power_watts:.0f}{cap} W"
    heat = units.UNKNOWN if gpu.temperature_celsius is None else f"{gpu.temperature_celsius} °C"
    narrow = width < _WIDE
    gap = " " if narrow else "  "
    figures = (
        (f" {units.gib(gpu.used_bytes)}/{units.gib(gpu.total_bytes)} GiB", "bold"),
        (f"{gap}this {at_most}{units.gib(gpu.instance_bytes)}{gap}other {units.gib(others)}", ""),
        (f"{gap}{units.percent(gpu.utilization_fraction)}{gap}{power}{gap}{heat}", ""),
    )
    named = label(f"GPU{gpu.index}")
    # The gauge gives way: a temperature that is cut reads as another.
    left = width - len(row_text([named, *figures]))
    return [named, (bar(share, max(4, min(left, 10 if narrow else 24))), "bar"), *figures]


def _detail(gpu: GpuReading, all_of_it: bool) -> Row:
    """What holds the clocks down and who else is on the card, always; links and bandwidth where there is room."""
    parts: Row = []
    if gpu.throttle:
        parts.append((f"held down: {', '.join(gpu.throttle)}", "warn"))
    names = [
        f"{holder.name} {units.gib(holder.used_bytes)}"
        for holder in gpu.others
        if holder.used_bytes is None or holder.used_bytes >= _WORTH_NAMING_BYTES
    ]
    if names:
        more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
        parts.append((f"others: {', '.join(names[:_MAX_NAMES])}{more}", ""))
    if gpu.free_bytes is not None and gpu.free_bytes < _TIGHT_BYTES:
        parts.append((f"only {units.gib(gpu.free_bytes, 2)} GiB free", "warn"))
    if gpu.mig:
        parts.append(("split by MIG", ""))
    if gpu.unified_memory:
        parts.append(("memory shared with the host", ""))
    if all_of_it and not gpu.lost:
        parts += [(one, "dim") for one in (_free(gpu), _bandwidth(gpu), _pcie(gpu), _nvlink(gpu)) if one]
    return [piece for number, part in enumerate(parts) for piece in ([(" · ", "dim"), part] if number else [part])]


def _free(gpu: GpuReading) -> str:
    return "" if gpu.free_bytes is None else f"free {units.gib(gpu.free_bytes)}"


def _bandwidth(gpu: GpuReading) -> str:
    busy = gpu.memory_utilization_fraction
    return "" if busy is None else f"memory busy {units.percent(busy)}"


def _pcie(gpu: GpuReading) -> str:
    if gpu.pcie_generation is None or gpu.pcie_width is None:
        return ""
    text = f"PCIe {gpu.pcie_generation} x{gpu.pcie_width}"
    received, sent = gpu.pcie_receive_bytes_per_second, gpu.pcie_transmit_bytes_per_second
    if received is None or sent is None:
        return text
    age = gpu.pcie_age_seconds or 0.0
    when = f" {age:.0f} s ago" if age >= _PCIE_OLD_SECONDS else ""
    return f"{text} ↓{received / 1e9:.2f} ↑{sent / 1e9:.2f} GB/s{when}"


def _nvlink(gpu: GpuReading) -> str:
    return f"NVLink {gpu.nvlinks}" if gpu.nvlinks else ""


def _host_row(host: HostReading) -> Row:
    share = host.memory_used_bytes / host.memory_total_bytes if host.memory_total_bytes else None
    busy = units.UNKNOWN if host.instance_cpu_cores is None else f"{host.instance_cpu_cores:.1f}"
    of = "" if host.cores is None else f" of {host.cores}"
    return [
        label("host"),
        (bar(share, 12), "bar"),
        (f" {units.gib(host.memory_used_bytes)}/{units.gib(host.memory_total_bytes)} GiB", "bold"),
        (f"  this {units.gib(host.instance_bytes)}  CPU {units.percent(host.cpu_fraction)}", ""),
        (f"  this {busy}{of} cores", ""),
    ]
