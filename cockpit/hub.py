"""The Hugging Face cache and token, found as the huggingface_hub library finds them; the token is never read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

TOKEN_VARIABLES = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
_TRUE = {"1", "ON", "YES", "TRUE"}


def hub_home(environ: Mapping[str, str]) -> Path:
    """HF_HOME, or ``huggingface`` in the user's cache folder."""
    named = environ.get("HF_HOME")
    if named:
        return _expanded(named)
    cache = environ.get("XDG_CACHE_HOME")
    return (_expanded(cache) if cache else _expanded("~/.cache")) / "huggingface"


def hub_cache(environ: Mapping[str, str]) -> Path:
    """The folder that has one ``models--owner--name`` for each repository."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if environ.get(name):
            return _expanded(environ[name])
    return hub_home(environ) / "hub"


def token_file(environ: Mapping[str, str]) -> Path:
    """Where `hf auth login` leaves the token."""
    named = environ.get("HF_TOKEN_PATH")
    return _expanded(named) if named else hub_home(environ) / "token"


def token_source(environ: Mapping[str, str]) -> str | None:
    """The variable or the file that has a token; None when there is none."""
    for name in TOKEN_VARIABLES:
        if environ.get(name, "").strip():
            return name
    file = token_file(environ)
    try:
        return str(file) if file.stat().st_size > 0 else None
    except (OSError, ValueError):
        return None


def is_offline(environ: Mapping[str, str]) -> bool:
    """Whether downloads are switched off."""
    return any(environ.get(name, "").upper() in _TRUE for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))


def cached_repos(cache: Path) -> frozenset[str]:
    """Repositories with at least one snapshot in the cache, as ``owner/name``."""
    found: set[str] = set()
    try:
        folders = [entry for entry in cache.iterdir() if entry.name.startswith("models--")]
    except (OSError, ValueError):
        return frozenset()
    for folder in folders:
        try:
            if any((folder / "snapshots").iterdir()):
                found.add(folder.name.removeprefix("models--").replace("--", "/"))
        except OSError:
            continue
    return frozenset(found)


def _expanded(text: str) -> Path:
    """The folder that a variable names, with ``~`` for the home."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return Path(text)
