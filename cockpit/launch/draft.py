"""A launch plan in the making: flags, environment and argv words that toggles add to."""

from __future__ import annotations

import json

from cockpit.catalog.slug import FlagValue


class Draft:
    """Mutable only while a plan is made."""

    def __init__(self) -> None:
        self._flags: dict[str, list[str] | None] = {}
        """None is a flag that was left out on purpose."""
        self._env: dict[str, str | None] = {}

    def flag(self, name: str, value: FlagValue = True) -> None:
        """Set ``--name`` once; False leaves it out, a mapping becomes JSON, a list becomes several words."""
        if value is False:
            self._flags[name] = None
        elif value is True:
            self._flags[name] = []
        elif isinstance(value, dict):
            self._flags[name] = [json.dumps(value, separators=(",", ":"))]
        elif isinstance(value, list):
            self._flags[name] = [str(word) for word in value]
        else:
            self._flags[name] = [str(value)]

    def flag_default(self, name: str) -> None:
        """Set a bare flag, unless it is set or left out already."""
        self._flags.setdefault(name, [])

    def env(self, name: str, value: str | None) -> None:
        """Set a variable of the server, or remove it (None)."""
        self._env[name] = value

    def env_default(self, name: str, value: str, caller: dict[str, str]) -> None:
        """Set a variable unless the slug or the caller's environment has it already."""
        if name not in self._env and name not in caller:
            self._env[name] = value

    def value(self, name: str, caller: dict[str, str]) -> str | None:
        """What the server would see of a variable so far; None when it is not set."""
        return self._env[name] if name in self._env else caller.get(name)

    def words(self) -> list[str]:
        """The flags as argv words. A value that begins with a dash is joined by ``=``, as argparse wants it."""
        result: list[str] = []
        for name, values in self._flags.items():
            if values is None:
                continue
            if len(values) == 1 and values[0].startswith("-"):
                result.append(f"--{name}={values[0]}")
            else:
                result.extend([f"--{name}", *values])
        return result

    def changes(self, caller: dict[str, str]) -> dict[str, str | None]:
        """Only what differs from the caller's environment, sorted by name."""
        return {
            name: value
            for name, value in sorted(self._env.items())
            if (name in caller if value is None else caller.get(name) != value)
        }
