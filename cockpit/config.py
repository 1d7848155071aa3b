"""The user's settings: config.yaml in the config home. Absent means defaults; wrong means one clear sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from cockpit import paths
from cockpit.strict_yaml import decode, read_text


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings with their defaults."""

    engines: list[str] = []
    """vLLM installs to use: a ``vllm`` command, a venv, or its bin folder."""
    slug_folders: list[str] = []
    """Further folders with slugs; later ones win."""
    host: str = "127.0.0.1"
    """Where new servers listen."""
    theme: str = "cockpit-dark"
    refresh_seconds: Annotated[float, Meta(ge=0.2, le=60)] = 1.0
    keys: dict[str, str] = {}
    """Command id → key, to remap the screens."""


def config_file() -> Path:
    """Where the settings are read from."""
    return paths.config_home() / "config.yaml"


def load_config() -> Config:
    """Read config.yaml.

    Raises CockpitError with file and line for unknown keys and wrong types.
    """
    file = config_file()
    try:
        text = read_text(file)
    except FileNotFoundError:
        return Config()
    if not text.strip():
        return Config()
    config, _ = decode(text, Config, str(file))
    return config
