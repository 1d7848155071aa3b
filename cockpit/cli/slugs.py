"""`cockpit slugs`: the catalog."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from cockpit.cli.options import rig_option, session_of, verb
from cockpit.cli.output import emit, say, table, tell
from cockpit.errors import CockpitError
from cockpit.units import UNKNOWN, gib, tokens

if TYPE_CHECKING:
    from cockpit.catalog.load import Entry
    from cockpit.catalog.slug import Slug
    from cockpit.launch.slug_fit import SlugFit
    from cockpit.rig.types import Rig
    from cockpit.session import Session
    from cockpit.this_host import ThisHost


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = verb(verbs, "slugs", "list the slugs, with what each allows", run)
    parser.add_argument(
        "filter", nargs="*", metavar="FILTER", help="words that must occur; or `new PATH|REPO` to write a slug"
    )
    parser.add_argument("--name", metavar="ENGINE/NAME", help="with new: the slug's name")
    rig_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the catalog. Broken files are listed and hide nothing; exit code 0 all the same."""
    if arguments.filter[:1] == ["new"]:
        return _new(arguments)
    if arguments.name is not None:
        raise CockpitError("--name belongs to new", fix="Write `cockpit slugs new PATH|REPO`.")
    from cockpit.cli.shapes import problem_json

    session = session_of(arguments)
    catalog = session.catalog
    # The toggles say what the recipes allow; what this machine allows of it is `check`'s business.
    rig = session.rig if arguments.rig else None
    host = session.this_host()
    found = [_listed(session, entry, rig, host) for entry in catalog.matching(" ".join(arguments.filter))]
    if arguments.json:
        emit([*(one for one, _ in found), *(problem_json(problem) for problem in catalog.problems)])
        return 0
    headers = ["SLUG", "WEIGHTS", "BPW", "GIB", "TP", "CONTEXT", "KV", "DRAFT", "INT8", "FITS"]
    if found:
        table(headers, [row for _, row in found], right=(2, 3, 4, 5), spare=(7, 6, 2, 3, 8, 4), cut=1)
    else:
        say(f"No slug matches. {catalog.meant(' '.join(arguments.filter))}")
    for problem in catalog.problems:
        tell(f"✕ {problem.name}: {problem.title}. {problem.detail} {problem.fix}".replace(".  ", ". "))
    return 0


def _listed(session: Session, entry: Entry, rig: Rig | None, host: ThisHost) -> tuple[dict[str, Any], list[str]]:
    """One slug for scripts, and as a row of the table."""
    from cockpit.cli.shapes import slug_json
    from cockpit.launch.plan import Facts, context_for, toggle_states
    from cockpit.rig.types import Rig

    checkpoint = session.checkpoint_of(entry).checkpoint
    facts = Facts(rig=rig or Rig(), checkpoint=checkpoint, engine=None, environ={}, free_port=8000, cwd="/")
    ctx = context_for(entry.slug, {}, facts)
    states = toggle_states(ctx)
    values = {name: value for name, value in ctx.values.items() if name != "port"}
    fit = session.fit(entry, host)
    int8 = ctx.values["int8"] if states["int8"].state == "offered" else UNKNOWN
    return slug_json(entry, states, values, fit), _row(entry.slug, int8, fit)


def _row(slug: Slug, int8: str, fit: SlugFit) -> list[str]:
    from cockpit.launch.slug_fit import fit_text

    spec, bits = slug.speculative, slug.weights.bits_per_weight
    return [
        slug.name,
        slug.weights.label,
        UNKNOWN if bits is None else f"{bits:.1f}",
        gib(slug.weights.size_bytes),
        str(slug.tensor_parallel),
        tokens(slug.max_model_len),
        slug.kv_cache_dtype,
        f"{spec.method} {spec.tokens}" if spec else UNKNOWN,
        int8,
        fit_text(fit),
    ]


def _new(arguments: argparse.Namespace) -> int:
    """`cockpit slugs new PATH|REPO`: write a slug for a checkpoint; never overwrites."""
    if len(arguments.filter) != 2:
        raise CockpitError(
            "slugs new needs one checkpoint", fix="Give a folder, a config.json, or a cached owner/name."
        )
    session = session_of(arguments)
    file, slug = session.new_slug(arguments.filter[1], arguments.name)
    fit = session.fit(session.catalog.get(slug.name))
    if arguments.json:
        emit({"name": slug.name, "file": str(file), "fits": fit.fits, "reason": fit.reason})
        return 0
    from cockpit.cli.forecast_text import forecast_lines

    say(file.read_text(encoding="utf-8").rstrip())
    tell(forecast_lines(fit.forecast, slug.max_model_len)[0])
    tell(f"written to {file}; `cockpit check {slug.name}` says what it may do.")
    return 0
