"""The whole command line as a parser: every verb's module adds its own."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterable
from typing import Any, NoReturn

from cockpit import __version__
from cockpit.errors import CockpitError


class _Parser(argparse.ArgumentParser):
    """Usage errors are one sentence with a fix instead of argparse's two paragraphs."""

    def error(self, message: str) -> NoReturn:
        raise CockpitError(message[:1].lower() + message[1:], fix=f"See `{self.prog} --help`.")

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse does, but what a verb does not know leads to the verb's own help."""
        found, rest = self.parse_known_args(args, namespace)
        if rest:
            verb = getattr(found, "verb", None)
            help_of = self.prog if verb is None else f"{self.prog} {verb}"
            raise CockpitError(f"unrecognized arguments: {' '.join(rest)}", fix=f"See `{help_of} --help`.")
        return found


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
