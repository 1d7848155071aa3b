"""Options that several verbs share."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cockpit.session import Session


def verb(
    verbs: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    summary: str,
    run: Callable[[argparse.Namespace], int],
) -> argparse.ArgumentParser:
    """Add one verb with its --json."""
    parser = verbs.add_parser(name, help=summary, description=summary, allow_abbrev=False)
    parser.add_argument("--json", action="store_true", help="print one JSON value and nothing else")
    parser.set_defaults(run=run)
    return parser


def plan_options(parser: argparse.ArgumentParser) -> None:
    """SLUG, --set and --engine."""
    parser.add_argument("slug", metavar="SLUG", help="a slug's name or alias")
    parser.add_argument(
        "--set",
        dest="settings",
        metavar="TOGGLE=VALUE",
        action="append",
        default=[],
        help="set a toggle, e.g. int8=on or max_model_len=131072; may be given several times",
    )
    parser.add_argument("--engine", metavar="ID|PATH", help="the vLLM to use; see `cockpit engines`")


def rig_option(parser: argparse.ArgumentParser) -> None:
    """--rig."""
    parser.add_argument(
        "--rig", metavar="FILE|NAME", help="plan for another machine: a rig file, or a name such as 2x3090"
    )


def session_of(arguments: argparse.Namespace) -> Session:
    """A session for this machine, or for the one that --rig names. Raises CockpitError for a bad --rig."""
    from cockpit.rig.described import load_rig
    from cockpit.session import Session

    return Session(described_rig=load_rig(arguments.rig) if arguments.rig else None)
