"""Asking the engine which flags it takes, where that is not remembered and matters."""

from __future__ import annotations

import msgspec

from cockpit.catalog.slug import Slug
from cockpit.errors import FailedError
from cockpit.launch.plan import Facts
from cockpit.rig.flag_sources import unnamed_flags
from cockpit.rig.flags import engine_flags
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
