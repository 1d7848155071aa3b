"""Asking the engine which flags it takes, where that is not remembered and matters."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from cockpit.catalog.load import Entry
from cockpit.catalog.slug import Platform, Slug
from cockpit.errors import CockpitError, FailedError
from cockpit.launch.plan import Facts
from cockpit.rig.engines import choose_engine
from cockpit.rig.flag_sources import unnamed_flags
from cockpit.rig.flags import EngineFlags, engine_flags
from cockpit.rig.types import Engine
from cockpit.rules.finding import Finding


def asked_for_flags(facts: Facts) -> tuple[Facts, tuple[Finding, ...]]:
    """The facts with the engine's flags, asked for where they are not remembered: 10 s or more, once a version.

    An engine that does not answer is a finding.
    """
    if facts.engine is None or facts.flags is not None:
        return facts, ()
    try:
        return msgspec.structs.replace(facts, flags=engine_flags(facts.engine)), ()
    except FailedError as error:
        finding = Finding(
            rule="flags-unknown",
            severity="warn",
            subject="engine",
            message=error.title,
            fix=error.fix,
            level="rig",
        )
        return facts, (finding,)


def wants_flags(slug: Slug, facts: Facts) -> bool:
    """Whether a flag of the slug is in doubt: not in this vLLM's sources, and its own answer is not remembered."""
    if facts.engine is None or facts.flags is not None:
        return False
    return bool(unnamed_flags(facts.engine, slug.flags))


def doubted(
    engines: Sequence[Engine], entries: Iterable[Entry], known: Callable[[Engine], EngineFlags | None]
) -> Iterator[Engine]:
    """The engine of each platform, where it has not said which flags it takes and any slug's is in doubt.

    Reads an engine's sources once, whatever the number of slugs.
    """
    names: dict[Platform, set[str]] = {}
    for entry in entries:
        names.setdefault(entry.slug.platform, set()).update(entry.slug.flags)
    for platform, of_slugs in names.items():
        with contextlib.suppress(CockpitError):  # no engine: the slugs say so
            engine = choose_engine(engines, platform)
            if known(engine) is None and unnamed_flags(engine, sorted(of_slugs)):
                yield engine
