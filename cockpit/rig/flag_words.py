"""Which words of a command line an installed vLLM does not know or take."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from cockpit.nearest import nearest
from cockpit.rig.flags import EngineFlags
from cockpit.rig.help_text import Flag

_NUMBER = re.compile(r"-\d+(\.\d*)?$|-\.\d+$")
_LEVEL = re.compile(r"-O(?:=?\d)?$")
"""Optimization levels, which vLLM rewrites before argparse sees them."""
_HIDDEN = {"--model"}
"""Taken by every version and shown in no help."""


def unknown_flags(argv: Sequence[str], flags: EngineFlags) -> list[str]:
    """The options in ``argv`` that this vLLM would refuse, each with the nearest one that it knows.

    Understands what vLLM does: underscores for dashes, ``--name=value``, ``--name.key``, unique beginnings, and the
    ``--no-`` forms that its help hides. Values are not looked at.
    """
    wrong: list[str] = []
    for word in argv:
        if word == "--":
            break
        if not _is_option(word):
            continue
        name = _name(word)
        if _known(name, flags.flags):
            continue
        candidates = _nearest(name, flags.flags)
        wrong.append(f"{name} (nearest: {' or '.join(candidates)})" if candidates else name)
    return wrong


def refused_values(argv: Sequence[str], flags: EngineFlags) -> list[tuple[str, str, tuple[str, ...]]]:
    """Each option of ``argv`` whose value is none of those that it takes: its name, the value, and those.

    Case and dashes are no difference: some options take either, and for those that do not it is only not said.
    """
    wrong: list[tuple[str, str, tuple[str, ...]]] = []
    for word, following in pairwise((*argv, "")):
        if word == "--":
            break
        flag = flags.flags.get(_name(word)) if _is_option(word) else None
        if flag is None or not flag.choices or not flag.takes_value:
            continue
        _, equals, value = word.partition("=")
        value = value if equals else following
        if value and (equals or not _is_option(value)) and _plain(value) not in map(_plain, flag.choices):
            wrong.append((_name(word), value, flag.choices))
    return wrong


def _plain(value: str) -> str:
    return value.strip().lower().replace("-", "_")


def _is_option(word: str) -> bool:
    """Whether argparse takes the word for an option: it begins with a dash and is no number and no sentence."""
    if len(word) < 2 or word[0] != "-" or _NUMBER.match(word):
        return False
    return "=" in word or " " not in word


def _name(word: str) -> str:
    """The option's name in a word, spelled with dashes: ``--kv_cache_dtype=fp8`` → ``--kv-cache-dtype``."""
    name = word.partition("=")[0]
    if not name.startswith("--"):
        return name
    return name.partition(".")[0].replace("_", "-")


def _known(name: str, flags: Mapping[str, Flag]) -> bool:
    """Whether exactly one option goes by this name."""
    if name in flags or name in _HIDDEN or _LEVEL.match(name) or _negates(name, flags):
        return True
    return name.startswith("--") and len(_beginning_with(name, flags)) == 1


def _negates(name: str, flags: Mapping[str, Flag]) -> bool:
    """Whether it is ``--no-enable-x`` or ``--no-disable-x`` of a pair ``--enable-x`` and ``--disable-x``."""
    positive = "--" + name.removeprefix("--no-")
    flag = flags.get(positive) if name.startswith("--no-") else None
    if flag is None or flag.takes_value:
        return False
    bare = re.sub(r"^--(enable|disable)-", "", positive)
    return {f"--enable-{bare}", f"--disable-{bare}"} <= set(flag.names)


def _beginning_with(name: str, flags: Mapping[str, Flag]) -> dict[tuple[str, ...], str]:
    """The options of which ``name`` is a beginning, one spelling each."""
    return {flag.names: spelling for spelling, flag in flags.items() if spelling.startswith(name)}


def _nearest(name: str, flags: Mapping[str, Flag]) -> list[str]:
    """At most three options that may have been meant."""
    longer = sorted(_beginning_with(name, flags).values()) if len(name) > 3 else []
    return longer[:3] or nearest(name, flags, most=1)
