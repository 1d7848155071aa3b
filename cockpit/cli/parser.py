"""The whole command line as a parser: every verb's module adds its own."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterable
from typing import Any, NoReturn

from cockpit import __version__
from cockpit.errors import CockpitError
from cockpit.nearest import did_you_mean, nearest

_HABITS = {
    **dict.fromkeys(("run", "start", "up", "restart", "launch"), "serve"),
    **dict.fromkeys(("down", "kill", "rm"), "stop"),
    **dict.fromkeys(("list", "status", "instances"), "ps"),
    **dict.fromkeys(("ls", "catalog", "models", "new"), "slugs"),
}
"""Verbs of other programs → the one that does it here."""


class _Parser(argparse.ArgumentParser):
    """Usage errors are one sentence with a fix instead of argparse's two paragraphs."""

    def error(self, message: str) -> NoReturn:
        raise CockpitError(message[:1].lower() + message[1:], fix=f"See `{self.prog} --help`.")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """A word that is none of the choices is told what it may have been."""
        if action.choices is None or value in action.choices:
            return
        kind = (action.metavar if isinstance(action.metavar, str) else action.dest).lower()
        before = action.option_strings[-1] if action.option_strings else self.prog
        habit = _HABITS.get(str(value)) if action.dest == "verb" else None
        near = [habit] if habit else nearest(str(value), action.choices)
        listed = f"`{self.prog} --help` lists them." if action.dest == "verb" else f"Use {', '.join(action.choices)}."
        fix = f"Did you mean {' or '.join(f'`{before} {name}`' for name in near)}?" if near else listed
        word = repr(str(value)[:60])
        raise CockpitError(
            f"{before} takes no {word}" if action.option_strings else f"there is no {kind} {word}", fix=fix
        )

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse does, but what a verb does not know leads to the verb's own help."""
        found, rest = self.parse_known_args(args, namespace)
        if rest:
            verb = getattr(found, "verb", None)
            of = self if verb is None else self._parser_of(verb)
            options = [option for option in of._option_string_actions if option.startswith("--")]
            fix = did_you_mean(rest[0].partition("=")[0], options, f"See `{of.prog} --help`.")
            raise CockpitError(f"unrecognized arguments: {' '.join(rest)}", fix=fix)
        return found

    def _parser_of(self, verb: str) -> argparse.ArgumentParser:
        verbs = (one for one in self._actions if isinstance(one, argparse._SubParsersAction))
        return next((one.choices[verb] for one in verbs if verb in one.choices), self)


def build_parser(verb_modules: Iterable[str]) -> argparse.ArgumentParser:
    """The command line of these modules of the package."""
    parser = _Parser(
        prog="cockpit",
        description="A terminal cockpit for serving language models with vLLM. Without a verb it opens the screen.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"cockpit {__version__}")
    parser.add_argument(
        "--rig",
        dest="screen_rig",
        metavar="FILE|NAME",
        help="the screen of another machine, such as 2x3090: to plan for",
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", parser_class=_Parser)
    for name in verb_modules:
        importlib.import_module(f"cockpit.cli.{name}").add(verbs)
    return parser
