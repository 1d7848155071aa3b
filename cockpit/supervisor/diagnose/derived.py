"""Troubles that no single line says: figures that contradict each other, lines that never came."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cockpit.supervisor.diagnose.faults import refuses
from cockpit.supervisor.diagnose.origins import PARTS, origin_of
from cockpit.supervisor.diagnose.types import Evidence, Fix, Symptom
from cockpit.supervisor.diagnose.words import count, do

_SAME = 0.03
"""Concurrencies of one boot that differ by more are of two boots."""
_ENOUGH_LINES = 3
OF_THE_MACHINE = frozenset(
    (
        "disk-fault",
        "disk-full",
        "exit-137",
        "free-below-util",
        "free-below-util-orphan",
        "gated-repo",
        "host-ram",
        "hub-download",
        "hub-limited",
        "hub-offline",
        "model-not-found",
        "permission",
        "port-in-use",
        "port-not-allowed",
        "shm-too-small",
        "terminated",
    )
)
"""What no release of vLLM is to blame for."""
_NIGHTLY = re.compile(r"dev|rc|\+g|alpha|beta")


SPEC_ABSENT = Symptom(
    id="spec-silently-absent",
    notice="warn",
    patterns=(),
    versions="0.20 to 0.33",
    explain=lambda seen: (
        "A draft was asked for, and the engine was made without one (speculative_config=None): it is not in use."
        if "no_draft" in seen.figures
        else "A draft was asked for, and no line about drafted tokens came while tokens were generated: "
        "it is not in use."
    ),
    fixes=do(
        "Check that the draft model was downloaded and that the log names it; compare the speed with the draft off."
    ),
)
COLD_START = Symptom(
    id="kv-pool-cold-start",
    notice="maybe",
    patterns=(),
    versions="0.20 to 0.33",
    explain=lambda seen: (
        f"The pool differs between boots of the same command ({seen.figures['concurrency_low']:g}x and "
        f"{seen.figures['concurrency_high']:g}x): compiling for the first time takes memory while it is measured."
    ),
    fixes=do("Start once more: with a warm compile cache the pool is larger. --kv-cache-memory-bytes pins it."),
)
CAPACITY_HYBRID = Symptom(
    id="kv-capacity-hybrid",
    notice="maybe",
    patterns=(),
    versions="0.17 to 0.20",
    explain=lambda seen: (
        "This version's token figure is too low on hybrid models; the concurrency says "
        f"{count(seen.boot.facts.capacity_tokens)} tokens."
    ),
    fixes=do("Nothing must be done: the figure shown here is corrected."),
)
NIGHTLY = Symptom(
    id="nightly-regression",
    notice="dead",
    patterns=(),
    versions="any",
    explain=lambda seen: (
        f"vLLM {seen.boot.facts.vllm_version} is not a release: try the last release with the same command."
    ),
    fixes=do("Use the last release."),
)
OTHER_VERSION = Symptom(
    id="nightly-regression",
    notice="dead",
    patterns=(),
    versions="any",
    explain=lambda seen: (
        f"This slug has booted here with vLLM {seen.arguments.get('earlier_version')} and never with "
        f"{seen.arguments.get('engine_version')}: the change of versions may be the reason."
    ),
    fixes=lambda seen: [
        Fix(
            text=f"Serve it with vLLM {seen.arguments.get('earlier_version')} again (--engine), with the same values."
        )
    ],
)
SYMPTOMS = (SPEC_ABSENT, COLD_START, CAPACITY_HYBRID, NIGHTLY, OTHER_VERSION, *PARTS)


def unknown(seen: Evidence) -> Iterator[Symptom]:
    """What holds of an exception that no row of the table knows."""
    if seen.arguments.get("earlier_version"):
        yield OTHER_VERSION
    area = origin_of(seen)
    nightly = _NIGHTLY.search(seen.boot.facts.vllm_version or "") is not None
    if nightly and (area is None or not refuses(seen)):
        yield NIGHTLY
    if area is not None:
        yield area


def derived(seen: Evidence) -> Iterator[Symptom]:
    """The symptoms that hold of a whole log."""
    figures = seen.figures
    low, high = figures.get("concurrency_low"), figures.get("concurrency_high")
    if low is not None and high is not None and high > low * (1 + _SAME):
        yield COLD_START
    if seen.boot.facts.capacity_corrected:
        yield CAPACITY_HYBRID
    silent = figures.get("generating_lines", 0) >= _ENOUGH_LINES and "drafted" not in figures
    if seen.arguments.chosen("speculative_config") and (silent or "no_draft" in figures):
        yield SPEC_ABSENT
    if seen.arguments.get("earlier_version"):
        yield OTHER_VERSION
    if _NIGHTLY.search(seen.boot.facts.vllm_version or ""):
        yield NIGHTLY
