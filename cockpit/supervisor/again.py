"""Starting a dead server again: the values that it had, a fix of its diagnosis, and what that changes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from cockpit.catalog.slug import Slug
from cockpit.launch.draft import Draft
from cockpit.launch.render import shown_argv, shown_env
from cockpit.launch.toggles import BY_ID, TOGGLES
from cockpit.launch.types import LaunchPlan
from cockpit.rules.toggles import GPU_ONLY
from cockpit.supervisor.diagnose.types import Diagnosis, Fix
from cockpit.supervisor.record import InstanceRecord

_ANEW = ("port", "host")


class Change(msgspec.Struct, frozen=True):
    """One flag with its value, or one variable; None on the side where it is not set."""

    before: str | None
    after: str | None


def chosen_of(record: InstanceRecord, slug: Slug) -> dict[str, Any]:
    """The values of a record that differ from the slug's own, without address: host and port are chosen anew."""
    chosen: dict[str, Any] = {}
    for toggle in TOGGLES:
        if toggle.id in _ANEW or toggle.id not in record.values:
            continue
        value = record.values[toggle.id]
        value = tuple(value) if isinstance(value, list) else value
        if value != toggle.default(slug):
            chosen[toggle.id] = value
    return chosen


def usable_fix(diagnosis: Diagnosis | None, platform: str) -> Fix | None:
    """The best fix that a new start on this platform can apply; None for nothing but words and aids."""
    known = BY_ID.keys() - (GPU_ONLY if platform == "cpu" else ())
    for fix in () if diagnosis is None else diagnosis.fixes:
        if not fix.aid and (fix.set or fix.env) and fix.set.keys() <= known:
            return fix
    return None


def fix_words(fix: Fix, slug: Slug) -> str:
    """The flags and variables that a fix sets: ``--max-model-len 188416``, ``NCCL_P2P_DISABLE=1``."""
    draft = Draft()
    for name, value in fix.set.items():
        BY_ID[name].apply(draft, slug, value)
    flags = draft.words()
    variables = {**draft.changes({}), **fix.env}
    words = [*flags, *(_variable(name, value) for name, value in variables.items())]
    return " ".join(words) or ", ".join(f"{BY_ID[name].label} {value}" for name, value in fix.set.items())


def _variable(name: str, value: str | None) -> str:
    return f"without {name}" if value is None else f"{name}={value}"


def with_env(plan: LaunchPlan, env: Mapping[str, str | None], caller: Mapping[str, str]) -> LaunchPlan:
    """The plan with further variables; ``caller`` is the environment that it differs from."""
    if not env:
        return plan
    merged = {**plan.env, **env}
    differing = {
        name: value
        for name, value in sorted(merged.items())
        if (name in caller if value is None else caller.get(name) != value)
    }
    return msgspec.structs.replace(plan, env=differing, extra_env=dict(env))


def command_changes(record: InstanceRecord, plan: LaunchPlan) -> tuple[Change, ...]:
    """What differs between the command that died and the new one, secrets left out."""
    before, after = _flags(record.argv), _flags(shown_argv(plan.argv))
    changes = [Change(before.get(name), after.get(name)) for name in dict.fromkeys([*before, *after])]
    old, new = _variables(record.env), _variables(shown_env(plan.env))
    changes += [Change(old.get(name), new.get(name)) for name in dict.fromkeys([*old, *new])]
    return tuple(change for change in changes if change.before != change.after)


def _flags(argv: Sequence[str]) -> dict[str, str]:
    """Flag → the flag with its values; what stands before the first flag goes under an empty name."""
    grouped: dict[str, list[str]] = {}
    name = ""
    for word in argv:
        if word.startswith("--"):
            name = word.partition("=")[0]
        grouped.setdefault(name, []).append(word)
    return {name: " ".join(words) for name, words in grouped.items()}


def _variables(env: Mapping[str, str | None]) -> dict[str, str]:
    return {name: _variable(name, value) for name, value in env.items()}
