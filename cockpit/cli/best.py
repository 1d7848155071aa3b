"""`cockpit best MODEL`: of a model's quantizations in the catalog, the best that fits."""

from __future__ import annotations

import argparse
import shutil
import textwrap
from typing import TYPE_CHECKING, Any

from cockpit.cli.options import rig_option, session_of, verb
from cockpit.cli.output import emit, say
from cockpit.units import tokens

if TYPE_CHECKING:
    from cockpit.launch.best import Candidate

_TITLES = {
    "fits": "fits",
    "fits-small-kv": "fits only with a smaller KV cache",
    "uncertain": "tight and short of room, or not known",
    "out": "does not fit",
}


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = verb(verbs, "best", "of a model's quantizations, name the best that fits", run)
    parser.add_argument("model", nargs="+", metavar="MODEL", help="words of the model's name, e.g. qwen3.8 27b")
    parser.add_argument(
        "--max-model-len", metavar="N", help="the context wanted, in tokens; the longest of the slugs by default"
    )
    rig_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the ranking; exit code 1 when nothing fits."""
    from cockpit.launch.slug_fit import rig_text
    from cockpit.launch.toggles import BY_ID
    from cockpit.launch.values import parse_value

    wanted = arguments.max_model_len
    if wanted is not None:
        wanted = parse_value("max_model_len", BY_ID["max_model_len"].kind, wanted)
    session = session_of(arguments)
    length, found = session.best(" ".join(arguments.model), wanted)
    first = found[0] if found[0].state.startswith("fits") else None
    if arguments.json:
        emit(
            {
                "max_model_len": length,
                "gpus": [gpu.name for gpu in session.rig.gpus],
                "best": None if first is None else first.slug.name,
                "candidates": [candidate_json(place, one) for place, one in enumerate(found, start=1)],
            }
        )
        return 0 if first is not None else 1
    say(f"{tokens(length)} tokens of context on {rig_text(session.rig) or 'a host without a GPU'}")
    _print(found)
    return 0 if first is not None else 1


def candidate_json(place: int, candidate: Candidate) -> dict[str, Any]:
    """One slug of the ranking."""
    from cockpit.cli.shapes import fit_json

    slug = candidate.slug
    return {
        "place": place,
        "slug": slug.name,
        "model": slug.model,
        "weights": slug.weights.label,
        "quality": slug.quality,
        "state": candidate.state,
        "set": candidate.set,
        "why": candidate.why,
        "fits": fit_json(candidate.fit),
    }


def _print(found: tuple[Candidate, ...]) -> None:
    from cockpit.catalog.quality import quality_text

    width = max(40, shutil.get_terminal_size((80, 24)).columns)
    state = ""
    for place, one in enumerate(found, start=1):
        if one.state != state:
            state = one.state
            say(f"\n{_TITLES[state]}:")
        facts = " · ".join((one.slug.weights.label, quality_text(one.slug) or "no published figures"))
        say(f"{place:>2}  {one.slug.name}  {facts}"[:width])
        change = "".join(f", --set {name}={value}" for name, value in one.set.items())
        for line in textwrap.wrap(f"{one.why}{change}", width, initial_indent=" " * 4, subsequent_indent=" " * 4):
            say(line)
