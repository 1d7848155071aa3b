"""Reads the options out of what argparse prints for --help, of any Python version."""

from __future__ import annotations

import re

import msgspec

_ENTRY = re.compile(r"^ {2}(-\S.*)$")
"""An option's line: argparse indents it by two, its explanation by far more."""
_OPTION = re.compile(r"--?[A-Za-z0-9][A-Za-z0-9_.-]*")
_CHOICES = re.compile(r"\{([^{}]*)\}")
_MAX_LINE = 20_000
"""Characters of one line that are looked at."""


class Flag(msgspec.Struct, frozen=True, kw_only=True):
    """One option."""

    names: tuple[str, ...]
    """Every spelling that the help shows, e.g. ``-tp`` and ``--tensor-parallel-size``."""
    takes_value: bool
    choices: tuple[str, ...] | None = None
    """The only values that it takes; None when others are taken too."""


def read_help(text: str) -> dict[str, Flag]:
    """Every option of a help text by each of its spellings. Lines that are no options are passed over."""
    found: dict[str, Flag] = {}
    for line in text.splitlines():
        entry = _ENTRY.match(line[:_MAX_LINE])
        flag = _read_entry(entry[1]) if entry else None
        if flag is not None:
            found.update({name: flag for name in flag.names if name not in found})
    return found


def _read_entry(line: str) -> Flag | None:
    """One option's line: spellings, what stands for its value, then, two blanks on, the explanation."""
    names: list[str] = []
    value = ""
    rest = line
    while True:
        name = _OPTION.match(rest)
        if name is None:
            break
        names.append(name[0])
        # Up to Python 3.12 every spelling has its value behind it, later the last one alone.
        value, comma, rest = _value(rest[name.end() :])
        if not comma:
            break
    if not names:
        return None
    choices = _CHOICES.fullmatch(value.split(" [")[0]) if value else None
    return Flag(
        names=tuple(names),
        takes_value=bool(value),
        choices=tuple(word.strip() for word in choices[1].split(",")) if choices else None,
    )


def _value(text: str) -> tuple[str, bool, str]:
    """What follows a spelling: its value's stand-in, whether another spelling comes, and that."""
    ends = [at for at in (text.find("  "), len(text)) if at >= 0]
    shown = text[: min(ends)]
    comma = re.search(r", (?=-)", shown)
    if comma is None:
        return shown.strip(), False, ""
    return shown[: comma.start()].strip(), True, text[comma.end() :]
