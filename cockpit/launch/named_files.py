"""The files and folders that a slug's flags name, and which of them are not on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cockpit.catalog.slug import Slug

_FILES = (
    "chat-template",
    "hf-config-path",
    "reasoning-parser-plugin",
    "ssl-ca-certs",
    "ssl-certfile",
    "ssl-keyfile",
    "tokenizer",
    "tool-parser-plugin",
)
"""Flags of vLLM 0.20 to 0.33 that take a path; some take a repository or a text as well."""


def _named(slug: Slug) -> Iterator[str]:
    for flag in _FILES:
        yield str(slug.flags.get(flag) or "")
    adapters = slug.flags.get("lora-modules") or ()
    for adapter in (
        (adapters,) if isinstance(adapters, str) else adapters if isinstance(adapters, list | tuple) else ()
    ):
        yield str(adapter).partition("=")[2]
    if slug.speculative is not None:
        yield slug.speculative.model or ""


def missing_files(slug: Slug) -> tuple[str, ...]:
    """Whole paths that the slug's flags name and that are not there; a relative one may be a repository's name."""
    paths = (name for name in _named(slug) if name.startswith(("/", "~/")))
    return tuple(name for name in paths if not _is_there(Path(name).expanduser()))


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False
