"""A plan as text that a person can read and a shell can run."""

from __future__ import annotations

import re
import shlex

from cockpit.launch.types import LaunchPlan

_SECRET = re.compile(r"KEY|(?:^|_)TOKEN(?:_|$)|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)


def is_secret(variable: str) -> bool:
    """Whether a variable's value must never be shown."""
    return _SECRET.search(variable) is not None


def shown_env(env: dict[str, str | None]) -> dict[str, str | None]:
    """The environment changes with secrets replaced by ``<redacted>``."""
    return {name: "<redacted>" if value is not None and is_secret(name) else value for name, value in env.items()}


def environment_words(plan: LaunchPlan) -> list[str]:
    """``env`` words that make the plan's changes: removals first, then assignments, shell-quoted."""
    removed = [word for name, value in plan.env.items() if value is None for word in ("-u", name)]
    assigned = [f"{name}={shlex.quote(value)}" for name, value in shown_env(plan.env).items() if value is not None]
    return [*removed, *assigned]


def shell_words(plan: LaunchPlan) -> list[str]:
    """argv, each word quoted for a POSIX shell."""
    return [shlex.quote(word) for word in plan.argv]


def shell_command(plan: LaunchPlan) -> str:
    """The plan as one line for a POSIX shell; the values of secrets are left out."""
    words = environment_words(plan)
    prefix = ["env", *words] if words else []
    return " ".join([*prefix, *shell_words(plan)])
