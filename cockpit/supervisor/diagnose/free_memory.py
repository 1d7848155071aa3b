"""GPU memory that others hold when vLLM takes its share, and what would fit beside them."""

from __future__ import annotations

from cockpit.supervisor.diagnose.types import Evidence, Fix, Symptom
from cockpit.supervisor.diagnose.words import do, gib, joined, say


def _free_below(seen: Evidence) -> str:
    free, total, share, wanted = (seen.number(name) for name in ("free", "total", "share", "wanted"))
    if free is None or total is None or share is None:
        return "The GPU has less free memory than the share that vLLM was told to fill."
    asked = total * share if wanted is None else wanted
    return (
        f"Utilization {share:g} of {total:g} GiB asks for {gib(asked)}, and {gib(free)} are free: "
        f"other programs hold {gib(total - free)}."
    )


def _held_by_leftovers(seen: Evidence) -> bool:
    free, total = seen.number("free"), seen.number("total")
    return free is not None and total is not None and free < total * 0.75


def _fitting_share(seen: Evidence) -> list[Fix]:
    free, total = seen.number("free"), seen.number("total")
    if free is None or total is None or not total:
        return []
    share = int((free / total - 0.005) * 100) / 100
    if share < 0.3:
        return []
    return [Fix(text=f"Or fill only what is free: utilization {share:g}.", set={"gpu_memory_utilization": share})]


def _fitting_budget(seen: Evidence) -> list[Fix]:
    """What is free, and the weights that another process holds, which count into the share."""
    free, total, share, wanted = (seen.number(name) for name in ("free", "total", "share", "wanted"))
    if free is None or not total or share is None or wanted is None:
        return []
    fits = int(((free + total * share - wanted) / total - 0.005) * 100) / 100
    if not 0.05 <= fits < share:
        return []
    return [Fix(text=f"Fill only what is free: utilization {fits:g}.", set={"gpu_memory_utilization": fits})]


_FREE_BELOW = (
    r"Free memory on device\s*(?:\S+ )?\((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\) on startup is less than "
    r"desired GPU memory"
    r" utilization \((?P<share>[\d.]+), (?P<wanted>[\d.]+)",
    r"on startup is less than desired GPU memory utilization",
)
END_LEFTOVERS = Fix(
    text="End what holds it: `nvidia-smi` names the programs, and `cockpit doctor` finds VLLM::EngineCore and "
    "VLLM::Worker processes that outlived their server."
)

SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        id="free-below-util-orphan",
        patterns=_FREE_BELOW,
        when=_held_by_leftovers,
        versions="0.9 to 0.33",
        explain=lambda seen: f"{_free_below(seen)} So much is rarely a desktop: an earlier server may still run.",
        fixes=joined(lambda _: [END_LEFTOVERS], _fitting_share),
    ),
    Symptom(
        id="free-below-util",
        patterns=_FREE_BELOW,
        versions="0.9 to 0.33",
        explain=_free_below,
        fixes=joined(
            _fitting_share, do("Or end what holds it: a desktop, a browser, a container, an earlier server.")
        ),
    ),
    Symptom(
        id="free-below-util",
        patterns=(
            r"\((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\) on startup is less than the engine's budget[^(]{0,80}"
            r"\((?P<share>[\d.]+), (?P<wanted>[\d.]+) GiB",
        ),
        versions="0.30 to 0.33",
        explain=say(
            "Of the GPU {free} GiB are free, and the engine wants {wanted} beside weights that are held elsewhere.",
            "The GPU has less free memory than the engine wants beside weights that are held elsewhere.",
        ),
        fixes=joined(_fitting_budget, do("Or end what holds it: `nvidia-smi` names the programs.")),
    ),
    Symptom(
        id="memory-profiling",
        patterns=(r"Error in memory profiling",),
        versions="0.6 to 0.33",
        explain=say("Another program gave GPU memory back while vLLM measured, so that its figures made no sense."),
        fixes=do("Start again once the GPU is quiet; start servers on one GPU one after another."),
    ),
)
