"""A plan as text that a person can read and a shell can run."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from cockpit.launch.types import LaunchPlan
from cockpit.redact import REDACTED, is_secret, redact, secret_values


def shown_env(env: dict[str, str | None]) -> dict[str, str | None]:
    """The environment changes with secrets replaced by ``<redacted>``."""
    return {
        name: None if value is None else REDACTED if is_secret(name) else redact(value) for name, value in env.items()
    }


def shown_argv(argv: Sequence[str]) -> tuple[str, ...]:
    """The words of a command without the secrets that a flag's JSON or a URL may hold."""
    values = secret_values()
    return tuple(redact(word, values) for word in argv)


def environment_words(plan: LaunchPlan) -> list[str]:
    """``env`` words that make the plan's changes: removals first, then assignments, shell-quoted."""
    removed = [word for name, value in plan.env.items() if value is None for word in ("-u", name)]
    assigned = [f"{name}={shlex.quote(value)}" for name, value in shown_env(plan.env).items() if value is not None]
    return [*removed, *assigned]


def shell_words(plan: LaunchPlan) -> list[str]:
    """argv, each word quoted for a POSIX shell."""
    return [shlex.quote(word) for word in shown_argv(plan.argv)]


def shell_command(plan: LaunchPlan) -> str:
    """The plan as one line for a POSIX shell; the values of secrets are left out."""
    words = environment_words(plan)
    prefix = ["env", *words] if words else []
    return " ".join([*prefix, *shell_words(plan)])
