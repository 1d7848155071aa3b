"""Flags that an installed vLLM's own sources name: found in milliseconds, where asking it takes many seconds."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from cockpit.rig.types import Engine

_MAX_BYTES = 4 << 20
_NEGATIONS = re.compile(r"^(?:no-)?(?:enable-|disable-)?")


def unnamed_flags(engine: Engine, names: Iterable[str]) -> tuple[str, ...] | None:
    """Those of ``names`` (without dashes) that the sources do not name; None when there are no sources to read.

    Named is not yet taken: a flag in these sources may be refused all the same. One that is not named deserves the
    question to the engine itself. Options are added by name in engine/arg_utils.py, and made from the fields of
    dataclasses in entrypoints/*/cli_args.py (vLLM 0.20 to 0.33).
    """
    package = Path(engine.package)
    options = _read(package / "engine" / "arg_utils.py")
    fields = "\n".join(_read(file) for file in sorted(package.glob("entrypoints/*/cli_args.py")))
    if not options:
        return None
    return tuple(name for name in names if not _named(name, options, fields))


def _named(name: str, options: str, fields: str) -> bool:
    bare = _NEGATIONS.sub("", name, count=1)
    if any(f'"--{form}"' in options for form in (name, bare, f"enable-{bare}", f"disable-{bare}")):
        return True
    forms = "|".join(re.escape(form.replace("-", "_")) for form in (name, bare, f"enable-{bare}", f"disable-{bare}"))
    return re.search(rf"^    (?:{forms}): ", fields, re.MULTILINE) is not None


def _read(file: Path) -> str:
    try:
        with file.open("rb") as handle:
            return handle.read(_MAX_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return ""
